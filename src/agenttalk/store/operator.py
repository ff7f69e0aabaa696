"""What an operator keeps of a root outside of it: the token that opens its engine, and how far its ledger has come.

It lies in the operator's configuration folder, so an agent that is kept in its own folder reaches neither.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from agenttalk.errors import AgentTalkError, Code, MachineError
from agenttalk.store import files
from agenttalk.store.audit import ChainReport, read_anchor, write_anchor
from agenttalk.store.ledger import Head, Verdict

LOG = logging.getLogger(__name__)
TOKEN: Final = "operator.token"  # noqa: S105 - the name of a file
HEADS: Final = "heads.json"
SHARED_HEADS: Final = "heads.postgres.json"
"""The chains of a PostgreSQL store are others than those of the files under the same root."""
_LONGEST: Final = 4096


def root_name(root: Path) -> str:
    """A short name for a root, by its place."""
    return hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]


def folder_of(root: Path) -> Path:
    """Where the operator keeps what belongs to a root; it need not be there."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if configured.startswith("/") else Path.home() / ".config"
    return base / "agenttalk" / root_name(root)


def token_of(root: Path) -> str | None:
    """The operator's token of a root, if there is one."""
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


def made_token(root: Path) -> str:
    """The operator's token of a root, made when there is none. Nobody else can read its file."""
    folder = _made_folder(root)
    found = token_of(root)
    if found is not None:
        return found
    path = folder / TOKEN
    draft = folder / f".{secrets.token_hex(12)}.tmp"
    try:
        _write(draft, f"op_{secrets.token_urlsafe(32)}\n".encode())
        with suppress(FileExistsError):  # somebody else was quicker: theirs is the token
            os.link(draft, path)
        files.sync_folder(folder)
    except OSError as error:
        raise files.unwritable(path, error) from error
    finally:
        draft.unlink(missing_ok=True)
    token = token_of(root)
    if token is None:
        raise MachineError(Code.FILE_UNREADABLE, f"{path} is empty", hint="remove it; the next start makes a new one")
    return token


def agent_token_of(root: Path, agent_id: str) -> str | None:
    """The token of an agent elsewhere that was made here, if there is one."""
    try:
        with _agent_token_file(root, agent_id).open("rb") as file:
            return file.read(_LONGEST).decode("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def keep_agent_token(root: Path, agent_id: str, token: str) -> Path:
    """Keep the token of an agent elsewhere, so that nobody else can read it, in the place of an older one."""
    folder, path = _made_folder(root), _agent_token_file(root, agent_id)
    draft = folder / f".{secrets.token_hex(12)}.tmp"
    try:
        _write(draft, f"{token}\n".encode())
        draft.replace(path)
        files.sync_folder(folder)
    except OSError as error:
        raise files.unwritable(path, error) from error
    finally:
        draft.unlink(missing_ok=True)
    return path


def _agent_token_file(root: Path, agent_id: str) -> Path:
    return folder_of(root) / f"agent-{agent_id}.token"


def heads_file(root: Path, *, shared: bool = False) -> Path:
    """Where it is written down how far the chains of a root had come."""
    return folder_of(root) / (SHARED_HEADS if shared else HEADS)


def kept_heads(root: Path, *, shared: bool = False) -> dict[str, Head] | None:
    """How far the chains of a root had come when its last engine or part told; None when none ever did."""
    path = heads_file(root, shared=shared)
    try:
        return read_anchor(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MachineError(Code.FILE_UNREADABLE, f"cannot read {path}: {error.strerror}") from error


def forget_heads(root: Path, *, shared: bool = False) -> None:
    """Put aside what was known of a root that lay here before: another one was put into its place by its operator."""
    path = heads_file(root, shared=shared)
    with suppress(FileNotFoundError):
        path.replace(path.with_name(f"{path.name}.before-restore"))


class Heads:
    """Writes down how far the chains of a root have come. A witness: what it knows, it never forgets for less."""

    def __init__(self, root: Path, *, shared: bool = False) -> None:
        self._folder = _made_folder(root)
        self._path = heads_file(root, shared=shared)
        self._lock = threading.Lock()
        self._disputed: set[str] = set()
        self._new: dict[str, Head] = {}
        try:
            self._known = kept_heads(root, shared=shared) or {}
        except AgentTalkError as error:
            self._known = {}
            LOG.warning("%s", error.message, extra={"action": "heads.read"})

    def known(self, chain: str) -> Head | None:
        """What was written down before."""
        return self._known.get(chain)

    def dispute(self, chain: str) -> None:
        """Keep what was written down of a chain, because the chain does not hold it any more."""
        with self._lock:
            self._disputed.add(chain)
        LOG.error(
            "the ledger %s is not what it was; 'agenttalk audit verify' says where", chain, extra={"action": "heads"}
        )

    def note(self, chain: str, head: Head) -> None:
        """Remember a head for the next `flush`."""
        with self._lock:
            if chain not in self._disputed:
                self._new[chain] = head

    def flush(self) -> None:
        """Write down what is new. What cannot be written is tried again."""
        with self._lock:
            new, self._new = self._new, {}
        if not new:
            return
        try:
            with self._alone():
                self._write(new)
        except (OSError, AgentTalkError) as error:
            LOG.warning("cannot keep the heads of the ledger: %s", error, extra={"action": "heads.write"})
            with self._lock:
                self._new = {**new, **self._new}

    def _write(self, new: dict[str, Head]) -> None:
        """Several parts of a root write the same file: of each chain, the longest counts."""
        try:
            heads = read_anchor(self._path.read_bytes())
        except FileNotFoundError:
            heads = {}
        for chain, head in new.items():
            if chain not in heads or heads[chain].link <= head.link:
                heads[chain] = head
        draft = self._folder / f".{secrets.token_hex(12)}.tmp"
        try:
            _write(draft, write_anchor([ChainReport(chain, Verdict(head, None, ())) for chain, head in heads.items()]))
            draft.replace(self._path)
        finally:
            draft.unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        descriptor = os.open(self._folder / f"{HEADS}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _made_folder(root: Path) -> Path:
    folder = folder_of(root)
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise files.unwritable(folder, error) from error
    return folder


def _write(path: Path, data: bytes) -> None:
    """A file that only its owner can read, synced."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
