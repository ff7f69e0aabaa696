"""Gates: at five points of a run it is decided whether it may go on, how grave what speaks against it is, and why.

Only what is known to be fine is allowed. A hard-deny stops; a soft-deny needs the override of an operator; a warning is
shown. At `post-act` and `pre-verify`, where work is judged, a soft-deny sends it back to its agent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from agenttalk.contracts.plan import PlanLimits
from agenttalk.contracts.promise import Checkpoint, CompletionPromise, GateResult, Severity
from agenttalk.rules.budgets import budgets
from agenttalk.rules.budgets.aborts import Abort
from agenttalk.rules.budgets.budgets import BudgetLimit
from agenttalk.rules.commands import promises
from agenttalk.rules.text import task_words, turn_words, verdict_words
from agenttalk.rules.text.catalogue import with_messages

CHECKPOINTS: Final[tuple[Checkpoint, ...]] = ("pre-plan", "pre-act", "post-act", "pre-verify", "pre-ship")
"""In the order in which a run comes to them."""
Objection = tuple[Severity, str]
"""How grave something is, and what it is."""
_RANK: Final[dict[str, int]] = {"": 0, "warning": 1, "soft-deny": 2, "hard-deny": 3}


@dataclass(frozen=True, slots=True)
class CheckpointDecision:
    """What a checkpoint decided."""

    checkpoint: Checkpoint
    severity: Literal["", "warning", "soft-deny", "hard-deny"] = ""
    """The gravest of what was found; empty when nothing was."""
    reasons: tuple[str, ...] = ()
    """What is as grave as that; of what is allowed, everything that was found."""
    trace_id: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the run may go on."""
        return self.severity in {"", "warning"}

    def as_json(self) -> dict[str, Any]:
        """Return the decision as JSON, for the ledger."""
        return {
            "checkpoint": self.checkpoint,
            "allowed": self.allowed,
            "severity": self.severity,
            **with_messages({"reasons": self.reasons}),
            "trace_id": self.trace_id,
        }

    @property
    def result(self) -> GateResult:
        """What counts for a promise."""
        return GateResult.model_construct(allowed=self.allowed, checkpoint=self.checkpoint, trace_id=self.trace_id)


def decide(
    checkpoint: Checkpoint, found: Iterable[Objection], *, trace_id: str = "", overridden: Collection[str] = ()
) -> CheckpointDecision:
    """Decide a checkpoint. An objection that an operator has `overridden`, word by word, is only a warning."""
    weighed = [
        ("warning", task_words.OVERRIDDEN(why=reason))
        if severity == "soft-deny" and reason in overridden
        else (severity, reason)
        for severity, reason in found
    ]
    worst: Any = max((severity for severity, _ in weighed), key=lambda each: _RANK[each], default="")
    reasons = dict.fromkeys(reason for severity, reason in weighed if severity == worst)
    return CheckpointDecision(checkpoint, worst, tuple(reasons), trace_id)


def latest_results(decisions: Iterable[CheckpointDecision]) -> tuple[GateResult, ...]:
    """Return the last decision of each checkpoint, in the order of a run."""
    found = {each.checkpoint: each for each in decisions}
    return tuple(found[each].result for each in CHECKPOINTS if each in found)


def check_promise(promise: CompletionPromise, plan: PlanLimits | None = None) -> Iterator[Objection]:
    """Find objections to a task's promise before anything begins."""
    for issue in promises.validate(promise).issues:
        yield issue.severity, f"{issue.field}: {issue.message}"
    for kind in budgets.find_impossible_limits(promise.budget):
        yield "hard-deny", turn_words.ALLOWS_NOTHING(field=f"budget.{kind}")
    for doubt in budgets.find_doubts(promise.budget, plan):
        yield "warning", doubt


def check_plan(*, faults: Collection[str] = (), plan: PlanLimits | None = None) -> Iterator[Objection]:
    """Find objections to a whole plan: faults of its DAG, unknown agents, and limits that allow nothing."""
    for fault in faults:
        yield "hard-deny", fault
    for kind in budgets.find_impossible_limits(plan):
        yield "hard-deny", turn_words.ALLOWS_NOTHING(field=f"limits.{kind}")


def check_start(
    *, current: bool, lost_inputs: Collection[str], used_up: Collection[BudgetLimit], lease_free: bool
) -> Iterator[Objection]:
    """Find objections to beginning a turn. A task that used up its own budget is over; others can wait."""
    if not current:
        yield "hard-deny", task_words.NOT_NEWEST()
    if not lease_free:
        yield "hard-deny", task_words.TAKEN()
    for name in lost_inputs:
        yield "soft-deny", task_words.INPUT_GONE(name=name)
    for limit in used_up:
        yield "hard-deny" if limit.scope == "task" else "soft-deny", limit.exhausted_message


def check_turn(
    *,
    breach: Collection[str] = (),
    breach_stops: bool = True,
    missing: Collection[str] = (),
    abort: Abort | None = None,
) -> Iterator[Objection]:
    """Find objections to a turn: it was stopped, it changed paths beyond its scope, or outputs are missing."""
    if abort is not None:
        yield "soft-deny" if abort.pauses else "hard-deny", abort.describe()
    if breach:
        yield "hard-deny" if breach_stops else "soft-deny", make_drift_abort(breach).describe()
    for name in missing:
        yield "soft-deny", task_words.OUTPUT_ABSENT(name=name)


def check_verifiable(*, tree_dead: bool, refused: str) -> Iterator[Objection]:
    """Find objections to checking the work: a process may still change it, or it could not be collected."""
    if not tree_dead:
        yield "hard-deny", task_words.STILL_ALIVE()
    if refused:
        yield "soft-deny", task_words.NOTHING_TO_CHECK(why=refused)


def check_shippable(reasons: Iterable[str]) -> Iterator[Objection]:
    """Make an objection of each reason against a release; each one denies it."""
    for reason in reasons:
        yield "hard-deny", reason


def is_final_breach(*, acts: bool, before: bool, hidden: bool) -> bool:
    """Whether leaving the scope is the end of a task: not at once, but when it happens again or was to stay unseen.

    `acts` says whether the promise lets it stop the run at all.
    """
    return acts and (before or hidden)


def make_drift_abort(paths: Collection[str]) -> Abort:
    """Make the abort for changes beyond the scope."""
    return Abort("scope-drift", verdict_words.DRIFTED(paths=", ".join(paths)))
