"""The public folder contract: what lies where under a root."""
