"""The sandbox of checks: bubblewrap, where it is installed and works.

In it there is no network unless asked for, no process of ours, an own /tmp, and a file system that is read-only but
for the checkout. Folders with secrets are empty, and so is /run, where services can be spoken to.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SECRETS: Final = (
    ".aws",
    ".azure",
    ".claude",
    ".codex",
    ".config",
    ".docker",
    ".gemini",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".ssh",
)
"""Names in a home folder that a check has no business with."""
_RESOLVER: Final = Path("/run/systemd/resolve")


@dataclass(frozen=True, slots=True)
class Room:
    """What a sandboxed program is given."""

    checkout: Path
    """Writable."""
    cwd: Path
    """Inside the checkout."""
    temporary: Path
    """Becomes /tmp."""
    env: Mapping[str, str]
    """The whole environment."""
    network: bool = False
    masked: Sequence[Path] = ()
    """Files and folders that are not to be seen."""
    readable: Sequence[Path] = ()
    """What is to be seen all the same."""


def installed() -> Path | None:
    """Where bubblewrap lies, if it is there."""
    found = shutil.which("bwrap")
    return Path(found) if found else None


def secrets(home: Path) -> tuple[Path, ...]:
    """What of a home folder is masked."""
    return tuple(home / name for name in SECRETS)


def wrapped(program: Path, room: Room, argv: Sequence[str]) -> tuple[str, ...]:
    """The command that runs a program in the room."""
    return (
        str(program),
        *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *(("--share-net",) if room.network else ()),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(word for mount in _mounts(room) for word in mount),
        *("--clearenv", *(part for entry in room.env.items() for part in ("--setenv", *entry))),
        *("--chdir", str(_real(room.cwd)), "--"),
        *argv,
    )


def _mounts(room: Room) -> Iterator[tuple[str, ...]]:
    """What lies over the read-only file system, the outermost first: what is said of an inner place holds there."""
    found = {_real(path): _hidden(path) for path in room.masked if path.exists()}
    for path in (Path("/run"), Path("/var/tmp")):  # noqa: S108 - emptied, not used
        if path.is_dir():
            found[_real(path)] = ("--tmpfs",)
    found[Path("/tmp")] = ("--bind", str(_real(room.temporary)))  # noqa: S108 - the sandbox's own
    names = (_RESOLVER,) if room.network and _RESOLVER.is_dir() else ()
    found.update((_real(path), ("--ro-bind", str(_real(path)))) for path in (*names, *room.readable))
    checkout = _real(room.checkout)
    found[checkout] = ("--bind", str(checkout))
    for path in sorted(found, key=lambda path: len(path.parts)):
        yield (*found[path], str(path))


def _hidden(path: Path) -> tuple[str, ...]:
    """An empty folder over a folder, and over a file something that cannot be opened."""
    return ("--tmpfs",) if path.is_dir() else ("--ro-bind", os.devnull)


def _real(path: Path) -> Path:
    """Mounts are made at real places: bubblewrap follows no symlink."""
    return Path(os.path.realpath(path))
