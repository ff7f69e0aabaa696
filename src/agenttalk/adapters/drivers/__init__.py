"""Drives agents: starts programs, feeds and watches them, and ends them with everything that they started."""
