"""The operator's folder for a root, which is not in the root: the token of the engine. `ledger_heads` uses it, too.

It lies in the operator's configuration folder, so an agent that is kept in its own folder does not reach it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from agenttalk.adapters.store import files
from agenttalk.contracts.errors import Code, MachineError

TOKEN: Final = "operator.token"  # noqa: S105 - the name of a file
_LONGEST: Final = 4096


def root_name(root: Path) -> str:
    """Make a short name for a root from its path."""
    return hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]


def folder_of(root: Path) -> Path:
    """Return the operator's folder for a root, which may be missing."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if configured.startswith("/") else Path.home() / ".config"
    return base / "agenttalk" / root_name(root)


def token_of(root: Path) -> str | None:
    """Read the operator's token of a root; None if there is none."""
    path = folder_of(root) / TOKEN
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST).decode("ascii").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(
            Code.FILE_UNREADABLE, f"cannot read {path}", hint="look at its owner and its rights; it is yours alone"
        ) from error


def ensure_token(root: Path) -> str:
    """Read the operator's token of a root, or make one. Other users cannot read its file."""
    folder = ensure_folder(root)
    found = token_of(root)
    if found is not None:
        return found
    path = folder / TOKEN
    draft = folder / f".{secrets.token_hex(12)}.tmp"
    try:
        write_private(draft, f"op_{secrets.token_urlsafe(32)}\n".encode())
        with suppress(FileExistsError):  # another process was quicker: its token counts
            os.link(draft, path)
        files.sync_folder(folder)
    except OSError as error:
        raise files.write_error(path, error) from error
    finally:
        draft.unlink(missing_ok=True)
    token = token_of(root)
    if token is None:
        raise MachineError(Code.FILE_UNREADABLE, f"{path} is empty", hint="remove it; the next start makes a new one")
    return token


def agent_token_of(root: Path, agent_id: str) -> str | None:
    """Read the token of a remote agent that was made here; None if there is none."""
    try:
        with _agent_token_file(root, agent_id).open("rb") as file:
            return file.read(_LONGEST).decode("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def keep_agent_token(root: Path, agent_id: str, token: str) -> Path:
    """Keep the token of an agent elsewhere, readable for this user only. It replaces an older one."""
    folder, path = ensure_folder(root), _agent_token_file(root, agent_id)
    draft = folder / f".{secrets.token_hex(12)}.tmp"
    try:
        write_private(draft, f"{token}\n".encode())
        draft.replace(path)
        files.sync_folder(folder)
    except OSError as error:
        raise files.write_error(path, error) from error
    finally:
        draft.unlink(missing_ok=True)
    return path


def forget_agent_token(root: Path, agent_id: str) -> None:
    """Remove the file with the token of an agent elsewhere."""
    _agent_token_file(root, agent_id).unlink(missing_ok=True)


def _agent_token_file(root: Path, agent_id: str) -> Path:
    return folder_of(root) / f"agent-{agent_id}.token"


def ensure_folder(root: Path) -> Path:
    """Make the operator's folder for a root, and return its path."""
    folder = folder_of(root)
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise files.write_error(folder, error) from error
    return folder


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, synced."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
