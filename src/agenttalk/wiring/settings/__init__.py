"""What an operator configured: `tables` says what can be set, `reading` where it is read from."""

from agenttalk.wiring.settings.reader import FILE, PREFIX, load, origins
from agenttalk.wiring.settings.tables import Settings, SettingsTable

__all__ = ["FILE", "PREFIX", "Settings", "SettingsTable", "load", "origins"]
