"""Decisions that a plan waits for besides its tasks: the review of its DAG before them, and its release after them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.plans import dag_reviews
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.proof import release
from agenttalk.engine.proof.dag_review import DagReviewCoordinator
from agenttalk.ports.proof import Prover
from agenttalk.ports.statements.proof import UNDECIDED
from agenttalk.ports.storage import Store

LOG = logging.getLogger(__name__)
StoreTransactionRunner = Callable[[Store, Callable[[PlanTransaction], object]], Awaitable[object]]
"""Does something in a transaction of a board, and then what follows from the commit."""


class ReleaseListener(Protocol):
    """Learns that a release was decided, or could not be."""

    def __call__(self, *, again: bool) -> None:
        """Learn of the decision; `again` asks for another pass at once."""


@dataclass(slots=True)
class PendingDecisions:
    """Finds decisions that are due, and has them made. One that was cut off is found again."""

    deps: Deps
    prover: Prover | None
    step: StoreTransactionRunner
    cancel: Callable[[str], Awaitable[object]]
    """Cancels a plan."""
    tell: ReleaseListener
    """Reports that something has changed, and whether another pass is needed at once."""
    _releases: dict[tuple[str, str], asyncio.Task[bool]] = field(default_factory=dict)
    _reviews: set[str] = field(default_factory=set)
    """Plans in which reviewers work."""

    @property
    def plans_in_release(self) -> frozenset[str]:
        """Plans whose release is being decided."""
        return frozenset(plan_id for _, plan_id in self._releases)

    def has_review_among(self, ended: Iterable[str]) -> bool:
        """Whether one of the plans that ended is a review, so that it can be decided now."""
        return not self._reviews.isdisjoint(ended)

    async def decide_pending(self, store: Store) -> bool:
        """Start all decisions of a board that are due. Return whether there is more to do at once."""
        more = False
        for kind, plan_id in await store.read(UNDECIDED):
            if kind == "review":
                more = await self._review(store, plan_id) or more
            elif (store.name, plan_id) not in self._releases:
                task = asyncio.create_task(self._release(store, plan_id))
                self._releases[store.name, plan_id] = task
                task.add_done_callback(partial(self._finish_release, (store.name, plan_id)))
        return more

    def _finish_release(self, key: tuple[str, str], task: asyncio.Task[bool]) -> None:
        """Wake a pass when a decision has ended: another one may have become due meanwhile."""
        self._releases.pop(key, None)
        if not task.cancelled():
            self.tell(again=task.result())

    async def _review(self, store: Store, plan_id: str) -> bool:
        async def step(do: Callable[[PlanTransaction], object]) -> object:
            return await self.step(store, do)

        reviewing = DagReviewCoordinator(self.deps, store, step, self.cancel)  # type: ignore[arg-type]
        try:
            review = await dag_reviews.read_latest_committed(store, plan_id)
            if review is None:
                return False
            self._reviews.add(review.review_plan)
            return await reviewing.advance_review(plan_id, review)
        except AgentTalkError as error:
            LOG.warning("%s: %s", plan_id, error.message, extra={"action": "deciding.review"})
            return False

    async def _release(self, store: Store, plan_id: str) -> bool:
        """Decide a release. False when that fails: then it stays due, and a later pass tries again."""
        try:
            await release.decide_release(self.deps, store, plan_id, self.prover)
        except AgentTalkError as error:
            LOG.warning("%s: %s", plan_id, error.message, extra={"action": "deciding.release"})
            return False
        except Exception:
            LOG.exception("%s: unhandled error in its release", plan_id, extra={"action": "deciding.release"})
            return False
        return True

    async def close(self) -> None:
        """Cancel decisions that are being made. The next start makes them again."""
        while tasks := list(self._releases.values()):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
