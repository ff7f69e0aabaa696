"""The result of a turn: how it ended, what its agent says it did, and what others found out about the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from agenttalk.contracts.evidence import EvidenceEntry
    from agenttalk.rules.budgets.aborts import Abort
    from agenttalk.rules.budgets.provider_limits import AccountLimit
    from agenttalk.rules.core.task_states import TurnEnding
    from agenttalk.rules.proof.done import Evidence
    from agenttalk.rules.proof.evidence import CheckResult
    from agenttalk.rules.proof.rework import Judgement


class OutputContent(NamedTuple):
    """A file that an agent made."""

    output_name: str
    path: str
    """Inside the output."""
    sha256: str
    size: int
    data: bytes | None
    """Its content when it is small; larger ones were put into the blobs."""


class SubmittedWork(NamedTuple):
    """The tree of a repository that an agent elsewhere handed in."""

    start: str
    """The commit that it began with."""
    onto: str
    """The tip of the plan's branch when it began."""
    pack: str = ""
    """The hash of the pack, among the contents of the board; empty when it changed nothing."""


@dataclass(frozen=True, slots=True)
class Performance:
    """The result of a job, as its performer reports it. A claim; the engine decides what it is worth."""

    how: TurnEnding
    result: Any = None
    score: float | None = None
    explanation: str | None = None
    outputs: tuple[OutputContent, ...] = ()
    code: str | None = None
    """What was wrong with an answer that came: a code, e.g. SCORE_MISSING."""
    error: str = ""
    seconds: float = 0.0
    usage: Mapping[str, Any] = field(default_factory=dict)
    misfits: Mapping[str, str] = field(default_factory=dict)
    """Outputs that are not of their media type, and why; found by the engine."""
    sandbox: str = ""
    """The tier in which it was done, if it was to be confined."""
    judgements: Mapping[str, Judgement] = field(default_factory=dict)
    """The judgement of each input that had to be checked before it was used; `refused` if one is not accepted."""
    abort: Abort | None = None
    """Why it was stopped, e.g. because of a forbidden action that its driver saw."""
    limited: AccountLimit | None = None
    """The limit of its provider that ended it, if one did."""
    claims: tuple[str | EvidenceEntry, ...] = ()
    """Evidence that the agent says it has."""
    remark: str = ""
    """What its driver found odd about it: part of the reason if its work is not done, and else nothing."""
    strayed: tuple[str, ...] = ()
    """What it changed in its own folder outside its scope, when it works without a repository."""
    ended_badly: Literal["", "denied", "failed"] = ""
    """Whether its agent was refused something, or reported a failure: a claim, which its checks may disprove. The
    remark says so then, also for work that is done."""
    submitted: SubmittedWork | None = None
    """What it handed in of a repository, if it works elsewhere."""


class TipMove(NamedTuple):
    """A move of the tip of a plan's branch, by compare-and-swap."""

    before: str
    """The commit that the tip has to be at."""
    after: str
    pack: str = ""
    """The content that brings a clone of the commit before to the one after. Empty if both are the same."""
    attempt: str = ""
    """The attempt whose work it is; empty if no task made it."""
    made: str = ""
    """The commit that keeps what that attempt left."""


@dataclass(frozen=True, slots=True)
class WorkProof:
    """What was found out about the work of a turn, by other parties than its agent."""

    evidence: tuple[Evidence, ...] = ()
    check_records: tuple[dict[str, Any], ...] = ()
    """The result of each check, for the ledger."""
    refused: str = ""
    """Why the tree that the agent left cannot be taken."""
    breach: tuple[str, ...] = ()
    """Paths that it changed and was not allowed to."""
    hidden: bool = False
    """Whether it told its own git not to show such a path."""
    restored: tuple[str, ...] = ()
    """Protected paths that it changed, added or deleted, and that were put back."""
    left_out: tuple[str, ...] = ()
    """Paths that it added to its own git although they are ignored: they are not part of the work."""
    rests_on: tuple[str, ...] = ()
    """Paths that its checks consist of and that other tasks of the plan have changed, each with the task."""
    moot: str = ""
    """Why it is no longer due."""
    conflict: str = ""
    """What another party changed at the same place meanwhile."""
    commit: str = ""
    """The commit with the work on the plan's branch, if it is done."""
    move: TipMove | None = None
    """What moves the plan's branch there, in the transaction that says done."""
    foreign: tuple[str, ...] = ()
    """Commits on the plan's branch, since the task began, that no task of the plan merged; the newest first."""
    results: tuple[CheckResult, ...] = ()
    """The result of each check, with what that rests on: kept as evidence when the task is done."""
    left: str = ""
    """The commit that keeps what the agent left in a repository, merged or not."""
    idle: bool = False
    """Whether it is not done, and the agent changed nothing in the repository."""
    diff: str = ""
    """What the agent changed in the repository, as text for people, if it is not done."""


NO_PROOF: Final = WorkProof()
"""The proof of a turn about which there is nothing to find out."""
