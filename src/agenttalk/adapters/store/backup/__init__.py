"""Backups of a root: one archive, and a root made from it."""
