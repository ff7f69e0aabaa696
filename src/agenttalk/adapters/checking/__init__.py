"""Obtaining evidence: the checks of a promise, made in a sealed checkout."""
