"""Commands about promises, evidence and the ledger."""
