"""Proof: what is checked before a task is done, and the results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from agenttalk.contracts.command import ValidationCriteria
    from agenttalk.contracts.plan import Workspace
    from agenttalk.contracts.promise import AnyCheck, CompletionPromise, HumanCheck
    from agenttalk.ports.agents import InputContent, Job
    from agenttalk.ports.transport import RepositoryTransport
    from agenttalk.rules.proof.evidence import CheckResult, Confirmation, Fingerprint
    from agenttalk.rules.proof.performance import OutputContent, Performance, TipMove, WorkProof
    from agenttalk.rules.proof.staleness import EvidenceBasis


@dataclass(frozen=True, slots=True)
class Baseline:
    """How the checks of a task stood before its work."""

    onto: str
    """The tip of the plan's branch where the first attempt began; empty without a repository."""
    results: Mapping[str, CheckResult] = field(default_factory=dict)
    """By the ids of the checks that were made."""


class CheckResultStore(Protocol):
    """What was found out before, kept where the next start finds it. Only the engine writes here."""

    async def find_baseline(self, job: Job) -> Baseline | None:
        """Find the results of the checks before a job's task began its work; None before they ran."""

    async def keep_baseline(self, job: Job, baseline: Baseline) -> None:
        """Keep that. The tip that was kept first stays."""

    async def find_result(self, job: Job, key: str, check_id: str) -> CheckResult | None:
        """Find a result of a check with the same inputs (`evidence.cache_key`); it has the time it was observed."""

    async def keep_result(self, job: Job, key: str, result: CheckResult) -> None:
        """Keep a result under its key, with whom it was made for. What is there already stays."""


class TipStore(Protocol):
    """The tips of plans' branches, each moved by compare-and-swap. The branches in the repositories follow."""

    async def find_tip(self, plan_id: str) -> str | None:
        """Find the commit that is the tip of a plan's branch; None before the plan began there."""

    async def begin_tip(self, plan_id: str, commit: str, pack: str) -> None:
        """Keep where a plan begins, unless it has begun. `pack` is needed if no repository of the user has that."""

    async def keep_pack(self, plan_id: str, pack: bytes) -> str:
        """Keep a pack durably, before a tip that needs it. Returns its name."""

    async def read_pack(self, plan_id: str, pack: str) -> bytes:
        """Read a pack that was kept."""

    async def list_moves(self, plan_id: str, tip: str) -> Sequence[TipMove]:
        """List the moves of the tip up to a commit, from where the plan began: that is the first, without `before`."""

    async def take_tip(self, plan_id: str, move: TipMove) -> None:
        """Move the tip to a commit that no task made, unless it has moved meanwhile."""


@dataclass(frozen=True, slots=True)
class BranchTip:
    """Where a plan's branch stands, and how everything stands there that evidence can rest on."""

    commit: str
    ground: EvidenceBasis


@dataclass(frozen=True, slots=True)
class Shipment:
    """What is about to be shipped."""

    board: str
    plan_id: str
    repo: Workspace | None
    files: Mapping[str, str]
    """Paths and hashes."""


@dataclass(frozen=True, slots=True)
class ShipmentReport:
    """The result of checking a shipment."""

    check_records: tuple[dict[str, Any], ...] = ()
    """The result of each check, with `id` and `passed`."""
    commit: str = ""
    """Where the plan's branch stands, if it has one."""
    faults: tuple[str, ...] = ()
    """What went wrong, apart from checks that did not pass."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """What a person is shown of what there is to judge."""

    files: tuple[OutputContent | InputContent, ...] = ()
    diff: str = ""
    """What it changes in a repository, as text for people."""


NO_EXHIBIT: Final = Exhibit()


class Confirmer(Protocol):
    """Asks a person the question of a check about something with a hash, and waits for the answer."""

    def __call__(
        self, check: HumanCheck, shown: str, *, exhibit: Exhibit = NO_EXHIBIT
    ) -> Coroutine[Any, Any, Confirmation]:
        """Ask a person and wait for the answer; `shown` is the hash of what they see."""


@dataclass(frozen=True, slots=True)
class AcceptedWork:
    """What an attempt left in a repository, which a person accepts as it is."""

    plan_id: str
    task_id: str
    repo: Workspace
    promise: CompletionPromise
    command_id: str
    attempt: int
    neighbours: Mapping[str, CompletionPromise] = field(default_factory=dict)
    """The promises of the plan's other tasks in the same repository."""


class HeadReader(Protocol):
    """Reads the branches of plans."""

    async def find_head(self, plan_id: str, repo: Workspace) -> str:
        """Return the commit of a plan's branch; empty when it is gone. Reads nothing else."""


class Prover(HeadReader, Protocol):
    """Makes ready where an agent works, and proves what it did. Nothing that the agent can write has a say in it."""

    @property
    def transport(self) -> RepositoryTransport:
        """What moves trees to agents elsewhere, and back."""

    async def find_faults(self, criteria: ValidationCriteria, files: Mapping[str, bytes]) -> list[str]:
        """Find the faults of files that a machine can find: format, missing fields, violations of their schema."""

    async def survey(self, repo: Workspace) -> tuple[Sequence[str], Sequence[str]]:
        """Files with which a plan would begin in a repository, and those that are not committed there, by their paths.

        Raises UsageError when a plan cannot begin there.
        """

    async def begin(self, job: Job) -> Job:
        """Make ready for an attempt: its tree, and how the checks of its promise stand before the work.

        The job that comes back says where the agent works. Raises InputError when the task must not begin.
        """

    async def prove(
        self,
        job: Job,
        performance: Performance,
        done: Callable[[WorkProof], bool],
        confirm: Confirmer,
        land: Callable[[WorkProof], Awaitable[bool]],
    ) -> WorkProof:
        """Make the checks of a job's promise on what was left; every process of the agent is dead.

        If `done` finds the promise fulfilled by the results, `land` writes that and moves the tip of the plan's branch,
        in one transaction. If the tip was moved meanwhile, `land` returns False, and the work is built and checked
        again on the new one. A proof with a `move` has landed. A person is asked (`confirm`) only when nothing else is
        missing. Doing it again for the same attempt changes nothing.
        """

    async def keep_work(self, job: Job) -> bool:
        """Keep what an interrupted attempt left, so that the next attempt at the command begins with it.

        Every process of the agent is dead. Returns whether there was anything that could be kept.
        """

    async def accept(self, left: AcceptedWork, land: Callable[[TipMove], Awaitable[bool]]) -> None:
        """Merge what an attempt left, because a person accepted it as it is. `land` is as above.

        Protected paths are restored here, too. Raises InputError when it cannot be merged.
        """

    async def settle(self, plan_id: str, repo: Workspace) -> str:
        """Bring the branch in a plan's repository to the tip of the plan, and return that. Repeating it is harmless.

        Commits that no task made become the tip.
        """

    async def examine(self, shipment: Shipment, checks: Sequence[tuple[AnyCheck, str]]) -> ShipmentReport:
        """Make checks at the `tip` of the plan's branch, or on the `artifacts` that are shipped, as each check says."""

    def release_attempt(self, job: Job) -> None:
        """End an attempt. Tasks that wait for it because of an earlier conflict go on."""

    def end_plan(self, plan_id: str) -> None:
        """Free what is kept to be quick with a plan, now that it has ended. It comes back when it is needed."""

    async def close(self) -> None:
        """Free that of all plans, and wait for it. Nothing may be proven meanwhile."""

    async def find_tip(self, job: Job, globs: Sequence[str], commit: str = "") -> BranchTip:
        """Return the tip of the branch of a job's plan, and what each glob matches there.

        With a `commit` it is about that one, and nothing changes; without one the branch is settled first.
        """

    async def recheck(self, job: Job, check: AnyCheck, kept: Fingerprint, commit: str) -> CheckResult:
        """Make a check of a job's promise at a commit of the plan's branch; `kept` says what its evidence rests on.

        Nothing is run if its result is known. Changes nothing.
        """

    async def list_arrivals(self, job: Job, since: str, tip: str) -> Sequence[tuple[str, str | None]]:
        """List the commits on the plan's branch after a commit up to a tip, oldest first, each with its task.

        The task is None for commits that no task made. The list is empty if the commit does not lead to the tip.
        """
