"""Whether a process belongs to an agent's attempt: it says so itself, or it descends from a keeper that says so.

A program of an attempt cannot leave: whatever loses its parent becomes a child of the keeper, whose environment names
the lease and is not the program's to change. What a program of the same user can do is kill its keeper first; only a
sandbox prevents that, and nobody is said to be isolated without one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from agenttalk.adapters.drivers import keeper

if TYPE_CHECKING:
    from collections.abc import Mapping

LEASE: Final = "AGENTTALK_LEASE"
"""The variable by which a process says to which lease it belongs."""
_ATTEMPT: Final = (LEASE, "AGENTTALK_COMMAND_ID", "AGENTTALK_ATTEMPT")
"""Variables that only programs of attempts have."""
_TOKEN: Final = "AGENTTALK_TOKEN"  # noqa: S105 - the name of a variable
_OF_ATTEMPTS: Final = "agt_"
_MOST: Final = 10_000
"""Ancestors that are looked at: more than any machine has."""


def attempt_of(pid: int, environ: Mapping[str, str] | None = None) -> str:
    """How a process is known to be an agent's; empty when it is nobody's. `environ` is its own, where that is at hand.

    A process that cannot be seen at all says nothing: other users' processes are no agents of ours.
    """
    if environ is not None and (said := _read_attempt(environ)):
        return said
    for _ in range(_MOST):
        for entry in keeper.read_proc_file(pid, "environ").split(b"\0"):
            name, mark, value = entry.partition(b"=")
            if mark and name == LEASE.encode():
                return f"its process descends from the attempt {os.fsdecode(value)}"
        process = keeper.read_process(pid)
        if process is None or process.parent <= 0:
            return ""
        pid = process.parent
    return "its ancestors have no end"


def _read_attempt(environ: Mapping[str, str]) -> str:
    for name in _ATTEMPT:
        if environ.get(name):
            return f"its environment has {name}"
    if environ.get(_TOKEN, "").startswith(_OF_ATTEMPTS):
        return f"{_TOKEN} is the token of an attempt"
    return ""
