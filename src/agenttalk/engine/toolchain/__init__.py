"""Forge events: received, made into tasks, read back, reconciled."""
