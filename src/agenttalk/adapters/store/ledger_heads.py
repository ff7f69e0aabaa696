"""Keeps the heads of a root's ledger in the operator's folder, so that a ledger that was cut off is detected."""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from agenttalk.adapters.store import operator_folder
from agenttalk.adapters.store.audit import ChainReport, read_anchor, write_anchor
from agenttalk.adapters.store.ledger import ChainHead, ChainVerdict
from agenttalk.contracts.errors import AgentTalkError, Code, MachineError

LOG = logging.getLogger(__name__)
HEADS: Final = "heads.json"
SHARED_HEADS: Final = "heads.postgres.json"
"""The chains of a PostgreSQL store are others than those of the files under the same root."""


def heads_file(root: Path, *, shared: bool = False) -> Path:
    """Return the path of the file with the heads of a root's chains."""
    return operator_folder.folder_of(root) / (SHARED_HEADS if shared else HEADS)


def read_heads(root: Path, *, shared: bool = False) -> dict[str, ChainHead] | None:
    """Read the heads of a root's chains that its last engine or part recorded; None if none did."""
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


class HeadsFile:
    """Writes down how far the chains of a root have come. A witness: what it knows, it never forgets for less."""

    def __init__(self, root: Path, *, shared: bool = False) -> None:
        self._folder = operator_folder.ensure_folder(root)
        self._path = heads_file(root, shared=shared)
        self._lock = threading.Lock()
        self._disputed: set[str] = set()
        self._new: dict[str, ChainHead] = {}
        try:
            self._known = read_heads(root, shared=shared) or {}
        except AgentTalkError as error:
            self._known = {}
            LOG.warning("%s", error.message, extra={"action": "heads.read"})

    def find_head(self, chain: str) -> ChainHead | None:
        """Read the head that was recorded last."""
        return self._known.get(chain)

    def dispute(self, chain: str) -> None:
        """Keep what was written down of a chain, because the chain does not hold it any more."""
        with self._lock:
            self._disputed.add(chain)
        LOG.error(
            "the ledger %s is not what %s knows of it: 'agenttalk audit verify' says where. If you made the root again "
            "yourself, move that file away",
            chain,
            self._path,
            extra={"action": "heads"},
        )

    def note(self, chain: str, head: ChainHead) -> None:
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

    def _write(self, new: dict[str, ChainHead]) -> None:
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
            operator_folder.write_private(
                draft, write_anchor([ChainReport(chain, ChainVerdict(head, None, ())) for chain, head in heads.items()])
            )
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
