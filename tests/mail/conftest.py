"""Folders of an operator of our own."""

from __future__ import annotations

from api.conftest import cluster, database, operator_folders

__all__ = ["cluster", "database", "operator_folders"]
