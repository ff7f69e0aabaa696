"""Proof over a plan's life: evidence, rework, staleness, disputes, release, honesty."""
