"""Decides whether a process belongs to an agent's attempt: by its environment, or by a keeper among its ancestors.

A program of an attempt cannot leave: every process that loses its parent becomes a child of the keeper, whose
environment names the lease and which the program cannot change. A program of the same user can kill its keeper first.
Only a sandbox prevents that, so no agent counts as isolated without one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from agenttalk.adapters.drivers import keeper

if TYPE_CHECKING:
    from collections.abc import Mapping

LEASE: Final = "AGENTTALK_LEASE"
"""The variable that names the lease of a process."""
_ATTEMPT: Final = (LEASE, "AGENTTALK_COMMAND_ID", "AGENTTALK_ATTEMPT")
"""Variables that only programs of attempts have."""
_TOKEN: Final = "AGENTTALK_TOKEN"  # noqa: S105 - the name of a variable
_OF_ATTEMPTS: Final = "agt_"
_MOST: Final = 10_000
"""Ancestors that are checked: more than any machine has."""


def attempt_of(pid: int, environ: Mapping[str, str] | None = None) -> str:
    """Explain how a process is known to be an agent's; empty when it is not.

    `environ` is its own, where that is at hand. A process that cannot be seen belongs to another user, and agents run
    as ours.
    """
    if environ is not None and (attempt := _read_attempt(environ)):
        return attempt
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
