"""Obtains evidence: runs the checks of a promise in a sealed checkout."""
