"""Types of what views show of attempts and of rounds of rework: parts of facts of the ledger."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from agenttalk.rules.proof.rework import IssueRecord


class EventFile(TypedDict):
    """The file with the events of a coding agent."""

    file: str
    count: int


class AttemptUsage(TypedDict):
    """What an attempt used, as far as that was counted or reported."""

    duration_s: NotRequired[float]
    tokens: NotRequired[int]
    cost_usd: NotRequired[float]
    tool_calls: NotRequired[int]
    model: NotRequired[str]
    unpriced: NotRequired[str]
    """A model without a known price."""
    self_check: NotRequired[str]
    """Why its agent could not check its own work."""
    events: NotRequired[EventFile]


class PictureView(TypedDict):
    """A picture that a check took of a page."""

    name: str
    sha256: str
    size: int


class SealView(TypedDict):
    """The seal of a verifier on the result of a check."""

    name: str
    machine: str
    sandbox: str
    public_key: str


class CheckView(TypedDict):
    """The result of a check."""

    id: str
    passed: bool
    trust: str
    detail: NotRequired[str]
    reason: NotRequired[str]
    """Why it did not pass, in a word."""
    output: NotRequired[str]
    """The end of what was printed."""
    weak: NotRequired[bool]
    flaky: NotRequired[list[str]]
    isolated: NotRequired[bool]
    source: NotRequired[str]
    """How its results came, where that was not over the engine's channel."""
    seen_at: NotRequired[str]
    """When it was seen, if that was before this attempt."""
    seen_for: NotRequired[str]
    pictures: NotRequired[list[PictureView]]
    seals: NotRequired[list[SealView]]
    """The verifiers that made it, if others than the engine did."""
    by: NotRequired[str]
    code: NotRequired[str]


class ClaimView(TypedDict):
    """A claim of an agent about its work."""

    id: str
    passed: bool
    detail: str
    set_aside: bool
    """Whether a check decides about it instead."""


class CheckpointView(TypedDict):
    """The decision of a checkpoint about an attempt."""

    checkpoint: str
    allowed: bool
    severity: str
    reasons: list[str]
    trace_id: str


class VerdictView(TypedDict):
    """The verdict about an attempt, or of the person who accepted the work."""

    fulfilled: bool
    missing: list[str]
    blockers: list[str]
    unverified: list[str]
    trust: NotRequired[str | None]
    isolation: NotRequired[str]
    """The sandbox; `none` where there was none."""
    counts: NotRequired[bool]
    """Whether a verdict that the promise is fulfilled still counts."""
    about: NotRequired[str]
    """The command of the attempt."""
    accepted_by: NotRequired[str]
    shown: NotRequired[str]
    confirmed: NotRequired[Any]
    overrules: NotRequired[Any]


class AttemptView(TypedDict):
    """How an attempt ended."""

    command_id: str
    attempt: int
    how: str
    cause: NotRequired[str]
    reason: NotRequired[str]
    result: NotRequired[Any]
    score: NotRequired[float]
    score_explanation: NotRequired[str]
    sandbox: NotRequired[str]
    usage: NotRequired[AttemptUsage]
    notice: NotRequired[str]
    gates: NotRequired[list[CheckpointView]]
    checks: NotRequired[list[CheckView]]
    claims: NotRequired[list[ClaimView]]
    foreign: NotRequired[list[str]]
    """Commits of others on the plan's branch."""
    remarks: NotRequired[list[str]]
    commit: NotRequired[str]
    verdict: NotRequired[VerdictView]


class RoundView(TypedDict):
    """One event of a task's rework: who refused the work and why, or what a person decided."""

    at: str
    what: str
    """`ordered`, `exhausted`, `granted`, `accepted` or `aborted`."""
    by: str
    reason: NotRequired[str]
    issues: NotRequired[list[IssueRecord]]
    more_issues: NotRequired[int]
    """How many issues are not shown."""
    round: NotRequired[int]
    rounds: NotRequired[int]
    score: NotRequired[float]
    stuck: NotRequired[bool]
    shown: NotRequired[str]
    result: NotRequired[str]
    """The result of the round."""
