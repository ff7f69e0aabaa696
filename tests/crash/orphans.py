"""Processes that outlive their turns: there must be none once somebody has recovered."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import apsw

from agenttalk.adapters.drivers.ancestry import LEASE
from agenttalk.adapters.store.root import list_databases
from crash.snapshot import opened


def orphans(root: Path) -> list[str]:
    """Processes that carry a lease of a root, or whose working directory lies in it. They are killed then."""
    carried = {f"{LEASE}={each}".encode() for each in _leases(root)}
    told = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = set((process / "environ").read_bytes().split(b"\0"))
            cwd = (process / "cwd").readlink()
            name = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it is gone, or not ours
            continue
        if carried & environ or cwd.is_relative_to(root):
            told.append(f"a process is left: {name}")
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)
    return told


def _leases(root: Path) -> list[str]:
    """All that were ever given."""
    found = []
    for path in list_databases(root).values():
        connection = opened(path)
        try:
            rows = connection.execute("SELECT body FROM ledger WHERE kind IN ('lease.granted', 'turn.started')")
            found += [str(json.loads(bytes(row[0]))["lease"]) for row in rows]
        except apsw.SQLError:
            continue  # the tables are not there yet
        finally:
            connection.close()
    return found
