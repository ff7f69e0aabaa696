"""Decisions that are known, with their reasons: honest work that a setting refuses on purpose, and what is accepted."""

from __future__ import annotations

KNOWN: dict[str, dict[str, str]] = {}
"""Honest case → setting → why it is refused there, which is not counted as missing a goal."""
WHY: dict[str, str] = {}
"""Case → why it is accepted, or asked about."""
