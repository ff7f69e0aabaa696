"""Use cases, which reach the world through ports only."""
