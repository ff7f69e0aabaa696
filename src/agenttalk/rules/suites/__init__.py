"""Test suites: which program runs one, and what it reports."""
