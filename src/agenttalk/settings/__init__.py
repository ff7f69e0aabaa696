"""What an operator configured: `tables` says what can be set, `reading` where it is read from."""

from agenttalk.settings.reading import FILE, PREFIX, load, origins
from agenttalk.settings.tables import Section, Settings

__all__ = ["FILE", "PREFIX", "Section", "Settings", "load", "origins"]
