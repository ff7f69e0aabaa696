"""Commands for agents, and about them."""
