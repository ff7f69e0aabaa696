"""Letters between agents and people."""
