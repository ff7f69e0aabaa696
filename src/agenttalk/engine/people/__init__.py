"""Questions to people, their answers, and agents that are people."""
