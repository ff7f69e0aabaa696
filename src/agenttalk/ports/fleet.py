"""What the process of a worker needs: its engine, trees to work on, and a place for what is not handed in yet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from agenttalk.contracts.worker import (
        AttemptName,
        JobInput,
        RepositoryBase,
        SyncAnswer,
        SyncRequest,
        WorkerJob,
    )


class RelayedRequest(NamedTuple):
    """A request of an agent about its own task."""

    method: str
    rest: str
    """What stands behind the address of the task."""
    query: str
    body: bytes
    key: str = ""
    """Its idempotency key."""


class RelayedAnswer(NamedTuple):
    """The answer of an engine, which may be a refusal."""

    status: int
    media: str
    body: bytes


class EngineLink(Protocol):
    """The engine of a worker. Its methods raise MachineError without an answer, and UsageError when it refuses."""

    async def sync(self, request: SyncRequest) -> SyncAnswer:
        """Exchange the whole state."""

    async def fetch_input(self, attempt: AttemptName, file: JobInput) -> bytes:
        """Fetch a file of an input."""

    async def submit_file(self, attempt: AttemptName, output: str, path: str, data: bytes) -> None:
        """Hand in a file of an output. Repeating it changes nothing."""

    async def submit_pack(self, base: RepositoryBase, pack: bytes) -> None:
        """Hand in the work on a repository. Repeating it changes nothing."""

    async def submit_snapshot(self, base: RepositoryBase, pack: bytes) -> None:
        """Hand in the work on a repository as it is so far, in place of what was handed in so before."""

    async def send_log(self, attempt: AttemptName, at: int, data: bytes) -> int:
        """Send a piece of a log that begins at an offset. Returns the offset at which the log goes on."""

    async def relay(self, attempt: AttemptName, request: RelayedRequest) -> RelayedAnswer:
        """Pass a request of an agent about its own task on."""

    async def fetch_check_file(self, lease: str, sha256: str) -> bytes:
        """Fetch a file of a check."""

    def check_remote(self, lease: str) -> tuple[str, str]:
        """Return the address that git fetches the tree of a check from, and the header that it shows."""

    def git_remote(self, base: RepositoryBase) -> tuple[str, str]:
        """Return the address that git fetches from, and the header that it shows."""


class WorkFolder(NamedTuple):
    """Where an attempt works on a repository."""

    path: Path
    readonly: tuple[Path, ...] = ()


class AttemptTrees(Protocol):
    """The trees of attempts on the machine of a worker."""

    async def begin(self, attempt: AttemptName, job: WorkerJob, remote: tuple[str, str]) -> WorkFolder:
        """Fetch the base of an attempt, and lay out a private clone of it."""

    async def take(self, attempt: AttemptName, job: WorkerJob) -> bytes:
        """Return what an attempt left as a thin pack of one commit on its base; empty if it changed nothing.

        While its agent works, that is what is there at this moment. Raises InputError for a tree that is refused, and
        UsageError for an attempt that has no clone.
        """

    async def drop(self, attempt: AttemptName, job: WorkerJob) -> None:
        """Remove the clone of an attempt."""


class ResultSpool(Protocol):
    """Keeps what a worker has of its attempts on disk, until its engine has it."""

    def write(self, key: str, record: Mapping[str, Any], pack: bytes = b"") -> None:
        """Keep the record of an attempt in place of the one before. It is on the disk when this returns."""

    def read_pack(self, key: str) -> bytes:
        """Read the work on a repository that was kept; empty if there is none."""

    def read_all(self) -> dict[str, dict[str, Any]]:
        """Read the records of all attempts. One that is torn is left out."""

    def drop(self, key: str) -> None:
        """Forget an attempt."""
