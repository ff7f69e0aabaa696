"""Folders of an operator of our own."""

from __future__ import annotations

from doors.api.conftest import database, operator_folders

__all__ = ["database", "operator_folders"]
