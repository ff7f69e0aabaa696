"""Sends spans and notices to addresses that the operator named."""
