"""Spans and notices sent to addresses that the operator named."""
