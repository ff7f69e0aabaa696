"""The public folder contract: which files are where below a root."""
