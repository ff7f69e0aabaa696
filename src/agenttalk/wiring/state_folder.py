"""Finds the folder of this user for roots without a named place: private, and not in a repository."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from agenttalk.contracts.errors import Code, MachineError, UsageError

_VARIABLE = "AGENTTALK_STATE"


def find_state_folder(outside: Path | None = None) -> Path:
    """Return the state folder, and make it if necessary.

    It is `$AGENTTALK_STATE`, else `agenttalk` in `$XDG_STATE_HOME` or in `~/.local/state`. Raises UsageError when it
    lies in the folder `outside`, such as the repository that is worked on, and MachineError when it cannot be made or
    other users may write it.
    """
    folder = _choose()
    if outside is not None and _lies_in(folder, outside):
        message = f"the state folder {folder} lies in {outside}, where agents and git would see it"
        raise UsageError(Code.FILE_UNSAFE, message, hint=f"set {_VARIABLE} to a folder elsewhere")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        message = f"cannot make the state folder {folder}: {error.strerror}"
        raise MachineError(Code.FILE_UNWRITABLE, message, hint=f"set {_VARIABLE} to a folder of yours") from error
    if status.st_uid != os.getuid():
        message = f"the state folder {folder} belongs to another user"
        raise MachineError(Code.FILE_UNSAFE, message, hint=f"set {_VARIABLE} to a folder of yours")
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


def _choose() -> Path:
    named = os.environ.get(_VARIABLE, "")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME", "")
    home = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"  # XDG ignores relative paths
    return home / "agenttalk"


def _lies_in(folder: Path, outside: Path) -> bool:
    return Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(outside))
