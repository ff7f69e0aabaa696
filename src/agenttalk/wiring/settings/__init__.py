"""What an operator configured: `tables` says what can be set, `reading` where it is read from."""

from agenttalk.wiring.settings.reader import FILE, PREFIX, load, origins
from agenttalk.wiring.settings.tables import Section, Settings

__all__ = ["FILE", "PREFIX", "Section", "Settings", "load", "origins"]
