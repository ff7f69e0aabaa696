"""The composition root: the only package that knows both the engine and the adapters.

`opening` opens a root for a command or a part, `engine` is the engine of one. The other modules are what these two and
commands without an engine share. Each module is loaded at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenttalk.wiring.engine import collect_periodically, serve
    from agenttalk.wiring.forges import reconcile_forges
    from agenttalk.wiring.http_door import agent_api
    from agenttalk.wiring.local_service import make_local_service
    from agenttalk.wiring.machine import RandomIds, SystemClock
    from agenttalk.wiring.root import open_configured_root, open_root, sweep_root
    from agenttalk.wiring.stale_tasks import find_stale_tasks

__all__ = [
    "RandomIds",
    "SystemClock",
    "agent_api",
    "collect_periodically",
    "find_stale_tasks",
    "make_local_service",
    "open_configured_root",
    "open_root",
    "reconcile_forges",
    "serve",
    "sweep_root",
]

_HOMES = {
    "RandomIds": "machine",
    "SystemClock": "machine",
    "agent_api": "http_door",
    "collect_periodically": "engine",
    "find_stale_tasks": "stale_tasks",
    "make_local_service": "local_service",
    "open_root": "root",
    "open_configured_root": "root",
    "reconcile_forges": "forges",
    "serve": "engine",
    "sweep_root": "root",
}


def __getattr__(name: str) -> object:
    """Load a name from its module at the first use: most commands need few names, and a server is slow to load."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
