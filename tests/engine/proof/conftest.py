"""What tests of proof share."""

from __future__ import annotations

from doors.api.conftest import database

__all__ = ["database"]
