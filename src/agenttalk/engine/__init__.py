"""Who makes it happen: use cases that reach the world through ports only."""
