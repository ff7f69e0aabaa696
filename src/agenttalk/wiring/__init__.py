"""The composition root: the only package that knows both the engine and the adapters.

`opening` opens a root for a command or a part, `engine` is the engine of one. The other modules are what these two and
commands without an engine are put together from. Each is loaded when something of it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenttalk.wiring.engine import collecting, serve
    from agenttalk.wiring.forges import reconciled
    from agenttalk.wiring.http_door import agent_api
    from agenttalk.wiring.machine import RandomIds, SystemClock
    from agenttalk.wiring.opening import opened, opened_as_set, swept
    from agenttalk.wiring.provers import local_prover
    from agenttalk.wiring.schedules import schedules
    from agenttalk.wiring.verification import verifying

__all__ = [
    "RandomIds",
    "SystemClock",
    "agent_api",
    "collecting",
    "local_prover",
    "opened",
    "opened_as_set",
    "reconciled",
    "schedules",
    "serve",
    "swept",
    "verifying",
]

_HOMES = {
    "RandomIds": "machine",
    "SystemClock": "machine",
    "agent_api": "http_door",
    "collecting": "engine",
    "local_prover": "provers",
    "opened": "opening",
    "opened_as_set": "opening",
    "reconciled": "forges",
    "schedules": "schedules",
    "serve": "engine",
    "swept": "opening",
    "verifying": "verification",
}


def __getattr__(name: str) -> object:
    """Load a name from where it is at home: most commands need few of them, and a server is slow to load."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
