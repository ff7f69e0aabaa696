"""Agents at work: one module per driver, and what a turn is given and leaves."""
