"""Checks that verifiers make: what the engine asks of them, where they fetch it, and who makes one on their machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from agenttalk.contracts.worker import CheckOrder, VerifiedResult
    from agenttalk.rules.proof.evidence import CheckResult
    from agenttalk.rules.suites.outcomes import Outcomes


class CheckSource(Protocol):
    """Serves what a check is about, and nothing else."""

    async def advertise(self) -> bytes:
        """Return the one ref that there is to fetch, as git's `info/refs` answers it. Raises UsageError without one."""

    def serve(self, body: bytes, coding: str) -> AsyncGenerator[bytes, None]:
        """Answer a request of git for that ref, piece by piece. Raises UsageError when it asks for anything else."""

    async def read(self, sha256: str) -> bytes:
        """Read a file of the check. Raises UsageError for any other content."""


class CheckSubject(NamedTuple):
    """The attempt that a check is about."""

    board: str
    plan_id: str
    task_id: str
    epoch: int
    agent_id: str
    """Its agent; empty where it is the work of any agent."""
    is_elsewhere: bool
    """Whether its agent does not run on the engine's machine."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """A check for verifiers."""

    subject: CheckSubject
    order: CheckOrder
    source: CheckSource
    about: CheckResult
    """What the result is about, rests on and is worth, without a finding."""
    base: Outcomes | None
    key: str
    """The key under which the result may be kept; empty if it is not."""
    waits: Callable[[], None]
    """Called while no verifier has the check."""
    begins: Callable[[], None]
    """Called when one has it."""
    count: Callable[[int | None, int | None], None]
    """Gets how many tests have run, and how many there are."""


class Verifiers(Protocol):
    """Has verifiers make checks."""

    async def verify(self, request: CheckRequest) -> CheckResult:
        """Have a check made, and wait for that as long as it takes. Cancelling takes it back."""


class CheckInput(NamedTuple):
    """What a verifier fetches a check with."""

    remote: tuple[str, str]
    """The address that git fetches from, and the header that it shows."""
    fetch: Callable[[str], Awaitable[bytes]]
    """Fetches a file by its hash."""
    progress: Callable[[int | None, int | None], None]
    """Gets how many tests have run, and how many there are."""


class CheckMaker(Protocol):
    """Makes checks on the machine of a verifier."""

    async def make(self, lease: str, order: CheckOrder, given: CheckInput) -> VerifiedResult:
        """Fetch what a check is about and make it, with the sandbox and the limits of the engine's machine.

        Raises AgentTalkError when it cannot be made here. Cancelling ends all its processes first.
        """
