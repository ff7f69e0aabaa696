"""What checks find and rest on: whether each kind passed, could run at all, and which files it consists of."""
