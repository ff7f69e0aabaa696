"""The settings of an operator: `tables` defines them, `reader` reads them."""

from agenttalk.wiring.settings.reader import FILE, PREFIX, load, origins
from agenttalk.wiring.settings.tables import Settings, SettingsTable

__all__ = ["FILE", "PREFIX", "Settings", "SettingsTable", "load", "origins"]
