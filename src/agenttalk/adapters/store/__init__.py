"""The durable ground: SQLite and PostgreSQL behind one seam, shared commits, ledger, effects, blobs."""
