"""Limits of turns and tasks: budgets, abort conditions, agents that are stuck."""
