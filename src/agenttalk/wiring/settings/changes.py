"""Finds what changed between two readings of the settings, and which changes apply without a restart."""

from __future__ import annotations

from typing import Final, NamedTuple

from agenttalk.contracts.core.problems import field_path
from agenttalk.wiring.settings.reader import leaves
from agenttalk.wiring.settings.tables import Settings

_LIVE: Final = frozenset({("limits", "max_running"), ("limits", "cost_usd_per_day"), ("log", "level")})


class SettingsChanges(NamedTuple):
    """Keys whose values have changed."""

    live: tuple[str, ...]
    """Keys that apply at once."""
    restart: tuple[str, ...]
    """Keys that apply at the next start of the engine."""


def find_changes(before: Settings, after: Settings) -> SettingsChanges:
    """Compare two settings and sort the changes by when they take effect."""
    old, new = ({path: value for path, value in leaves(each) if value not in ({}, [])} for each in (before, after))
    changed = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    live = tuple(field_path(path) for path in changed if _is_live(path))
    return SettingsChanges(live, tuple(field_path(path) for path in changed if not _is_live(path)))


def _is_live(path: tuple[str, ...]) -> bool:
    """Whether a change applies at once. Accounts at forges do not: open connections use the old ones."""
    if path[0] == "agents":
        return "forge" not in path[2:3]
    return path[0] in {"locale", "schedules", "sandbox"} or path in _LIVE
