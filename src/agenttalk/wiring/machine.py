"""The clock of this machine, its name, and random ids."""

from __future__ import annotations

import hashlib
import platform
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agenttalk.rules.fleet.assignment import MachineStart

_IDS: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_START: Final = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the door through which the time comes in


class RandomIds:
    """Ids that cannot be guessed."""

    def new(self, prefix: str) -> str:
        """Make an id: `prefix_` and 24 hex digits."""
        return f"{prefix}_{secrets.token_hex(12)}"


def measure_start(name: str = "") -> MachineStart:
    """Return names of this machine and of its start, which give nothing away.

    With a `name` it is a machine of its own, as its operator says: then only another process of that name is the same.
    """
    from agenttalk.rules.fleet.assignment import MachineStart  # only workers need it, and it loads documents

    start = _hash(f"{name} {_read(_START)}") if _read(_START) else ""
    if name:
        return MachineStart(_hash(f"named {name}"), start)
    return MachineStart(_hash(next(filter(None, map(_read, _IDS)), "") or platform.node()), start)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _hash(text: str) -> str:
    return hashlib.sha256(f"agenttalk worker\n{text}".encode()).hexdigest()[:16]
