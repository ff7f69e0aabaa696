"""The closing of a plan that proved something: it ends only when all of its proofs still hold.

When no task of such a plan is open any more, its proofs are checked once more at the tip of its branch: stale checks
run again, a broken check goes back to the task that broke it, and the plan goes on. A crash anywhere does no harm,
because all of it can be repeated: a plan that is closing is one that runs and has no open task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, TypedDict, TypeVar

from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.contracts.plan import Workspace
from agenttalk.engine.core import records
from agenttalk.engine.plans import control
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.proof import regressions, staleness, watched_branches
from agenttalk.engine.proof.staleness import EvidenceRecheck, StalenessReport
from agenttalk.ports.proof import Prover
from agenttalk.ports.statements.proof import LEAVE_BRANCH, WATCH_BRANCH
from agenttalk.ports.storage import Store
from agenttalk.rules.core.isolation import OperatorIsolation
from agenttalk.rules.proof.evidence import CheckResult

LOG = logging.getLogger(__name__)
TRIES: Final = 3
"""How often it is tried before people get an alert."""
PAUSE: Final = 1.0
"""Seconds until the next try."""
ENGINE: Final = "engine"
T = TypeVar("T")


class BreakingMerge(TypedDict):
    """The merge that broke a check, as far as it was found."""

    commit: str | None
    task_id: str | None


class RecheckView(TypedDict):
    """Evidence that was checked again."""

    task_id: str
    check_id: str
    state: str
    changed: list[str]
    detail: str | None
    broke: BreakingMerge | None


class VerifiedPlan(TypedDict):
    """The result of checking again what a plan proved."""

    plan_id: str
    commit: str
    checks: list[RecheckView]
    reopened: list[str]
    """Tasks that have to fix something."""


class TransactionRunner(Protocol):
    """Does something in a transaction of a board, and then what follows from the commit."""

    async def __call__(self, do: Callable[[PlanTransaction], T]) -> T:
        """Call a function in a transaction."""


@dataclass(frozen=True, slots=True)
class PlanCloser:
    """Checks the proofs of a plan once more."""

    store: Store
    prover: Prover | None
    step: TransactionRunner
    plan_id: str
    without_secrets: Callable[[CheckResult], CheckResult]
    """Takes secrets out of the output of a check."""
    operator: OperatorIsolation
    """The operator's settings for isolation, which can change."""
    at_once: int = 1
    """How many checks may run at the same time."""

    async def close(self) -> None:
        """End the plan, or let it go on. If the machine cannot check it, the plan is paused and people get an alert."""
        for tries in range(1, TRIES + 1):
            try:
                while await self._try_to_end():
                    pass
            except Exception as error:
                why = error.message if isinstance(error, AgentTalkError) else f"{type(error).__name__}: {error}"
                LOG.warning("%s: %s", self.plan_id, why, extra={"action": "closing"}, exc_info=True)
                if tries == TRIES:
                    await self.step(partial(_stop, plan_id=self.plan_id, why=why))
                else:
                    await asyncio.sleep(PAUSE)
            else:
                return

    async def _try_to_end(self) -> bool:
        """Check all proofs once. Return whether they have to be checked again."""
        found = await self._reverify(None)
        if await self.step(partial(regressions.record_rechecks, plan_id=self.plan_id, review=found)):
            return False  # a task fixes it, and then the plan closes again
        return bool(found.red) or await self._end(found) == "stale"

    async def _end(self, found: StalenessReport) -> str:
        return await self.step(partial(regressions.end_plan, plan_id=self.plan_id, tip=found.commit))

    async def verify(self, task_id: str | None = None) -> VerifiedPlan:
        """Check all proofs now. Report each check, and the tasks that have to fix something."""
        found = await self._reverify(task_id)
        reopened = await self.step(partial(regressions.record_rechecks, plan_id=self.plan_id, review=found))
        if any(each.why for each in found.seen) and not reopened:
            await self._end(found)
        checks = [recheck_to_json(each) for each in found.seen]
        return {"plan_id": self.plan_id, "commit": found.commit, "checks": checks, "reopened": reopened}

    async def check_branch(self, repo: Workspace) -> bool:
        """Store which evidence of an ended plan is stale if its branch has moved. Returns whether any is.

        No check is run for it, and only the head of the branch is read while it has not moved.
        """
        head = await watched_branches.find_moved_head(self.store, self.prover, self.plan_id, repo)
        if head is None:
            return False
        if not head:  # the branch was deleted, so nothing can be merged without a new check
            await self.store.transact(lambda tx: tx.run(LEAVE_BRANCH, plan_id=self.plan_id))
            return False
        if self.prover is not None:
            head = await self.prover.settle(self.plan_id, repo)
        found = await staleness.find_stale(self.store, self.prover, self.plan_id, self.operator.words)
        await self.step(partial(_mark_and_watch, plan_id=self.plan_id, review=found, head=head))
        return any(each.why for each in found.seen)

    async def find_stale_after_merge(self, commit: str) -> StalenessReport | None:
        """Find what a merge makes stale. None if that fails: then the closing of the plan finds it."""
        try:
            return await staleness.find_stale(
                self.store,
                self.prover,
                self.plan_id,
                self.operator.words,
                fresh_only=True,
                commit=commit,
            )
        except AgentTalkError as error:
            LOG.warning("%s: %s", self.plan_id, error.message, extra={"action": "closing.look"})
            return None

    async def _reverify(self, task_id: str | None) -> StalenessReport:
        found = await staleness.find_stale(self.store, self.prover, self.plan_id, self.operator.words, task_id=task_id)
        if self.prover is None or not any(each.why for each in found.seen):
            return found
        await self.step(partial(regressions.mark_freshness, plan_id=self.plan_id, review=found))
        found = await staleness.reverify(self.prover, found, at_once=self.at_once)
        told = [replace(each, result=self.without_secrets(each.result)) if each.result else each for each in found.seen]
        return replace(found, seen=tuple(told))


def _mark_and_watch(moves: PlanTransaction, plan_id: str, review: StalenessReport, head: str) -> None:
    regressions.mark_freshness(moves, plan_id, review)
    moves.tx.run(WATCH_BRANCH, plan_id=plan_id, head=head)


def recheck_to_json(seen: EvidenceRecheck) -> RecheckView:
    """Report rechecked evidence to people and programs."""
    result = seen.result
    return {
        "task_id": seen.kept.task_id,
        "check_id": seen.kept.check.id,
        "state": seen.state,
        "changed": list(seen.why),
        "detail": (result.detail or result.reason or None) if result is not None else None,
        "broke": {"commit": seen.broke, "task_id": seen.merged} if seen.state == "red" else None,
    }


def _stop(moves: PlanTransaction, plan_id: str, why: str) -> None:
    """Pause a plan whose proofs cannot be checked, and raise an alert: people have to see to it."""
    if not moves.is_running(plan_id):
        return
    control.pause(moves.tx, plan_id, by=ENGINE, at=moves.now)
    records.alert(
        moves.tx,
        at=moves.now,
        plan_id=plan_id,
        code=Code.CHECK_UNREPEATABLE,
        message=f"plan {plan_id!r} is paused before its end: {why}",
        key=moves.now,
        details={"hint": f"'agenttalk resume {plan_id}' looks again"},
    )
