"""Attempts that agents elsewhere and workers can take, or have taken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agenttalk.engine.core.task_comments import TaskName
from agenttalk.ports.agents import Job


@dataclass(slots=True)
class AttemptOffer:
    """An attempt that a remote agent or a worker can take, or has taken."""

    job: Job
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    key: str = ""
    """The key of the request that took it."""
    at: str = ""
    """When it was taken."""
    heard: float = 0.0
    """When it was heard of last, by the clock of the loop."""
    traceparent: str = ""
    """Its place in a trace, if it is traced."""
    offered_to: str = ""
    """The worker that may accept it, if it is for workers."""
    offered_at: float = 0.0
    """When it was offered to that worker, by the clock of the loop."""
    worker: str = ""
    """The worker that has it, if one has."""
    notes: int = 0
    """How many notes its worker has told of."""
    since: float = 0.0
    """When it was offered first, by the clock of the loop."""
    gone: str = ""
    """The name of the worker that says it lost it."""

    @property
    def task(self) -> TaskName:
        """The task of the attempt."""
        return TaskName(self.job.board, self.job.plan_id, self.job.task_id)

    def mark_taken(self, *, key: str, at: str, worker: str = "") -> None:
        """Note who took it, and when."""
        self.key, self.at, self.worker, self.heard = key, at, worker, asyncio.get_running_loop().time()
        self.taken.set()

    def hear(self) -> None:
        """Note a sign of life."""
        self.heard = asyncio.get_running_loop().time()

    def offer_to(self, worker: str) -> None:
        """Offer it to a worker, or, without one, to any."""
        self.offered_to, self.offered_at = worker, asyncio.get_running_loop().time()

    def is_news(self, notes: int) -> bool:
        """Take how many notes its worker has told of; whether that is more than before."""
        is_more, self.notes = notes > self.notes, max(notes, self.notes)
        return is_more

    def give_up(self, worker: str) -> None:
        """End it, because its worker says that it lost it."""
        self.gone = worker
        self.ended.set()


class AttemptOffers:
    """The attempts that are left to others, by their tasks. One loop uses it."""

    def __init__(self) -> None:
        self._offers: dict[TaskName, AttemptOffer] = {}
        self._news = asyncio.Event()

    @property
    def news(self) -> asyncio.Event:
        """An event that is set when something is offered, or ends."""
        return self._news

    def wake(self) -> None:
        """Set the event, and begin a new one."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def add(self, offer: AttemptOffer) -> None:
        """Offer an attempt, in place of an earlier one at the same task."""
        self._offers[offer.task] = offer
        offer.since = asyncio.get_running_loop().time()
        self.wake()

    def remove(self, offer: AttemptOffer) -> None:
        """Take back an attempt, unless a later one has its place. A worker that has it ends it at once."""
        if self._offers.get(offer.task) is offer:
            del self._offers[offer.task]
            self.wake()

    def find(self, task: TaskName) -> AttemptOffer | None:
        """Find the attempt at a task; None if there is none."""
        return self._offers.get(task)

    def find_for_worker(self, task: TaskName, epoch: int) -> AttemptOffer | None:
        """Find an attempt for workers; None if there is none under this epoch, or its result is here."""
        offer = self._offers.get(task)
        if offer is None or offer.job.epoch != epoch or offer.job.profile.pool is None or offer.ended.is_set():
            return None
        return offer

    def list_for_agent(self, agent_id: str) -> list[AttemptOffer]:
        """List the offers to a remote agent, and the attempts that it has and did not hand in yet."""
        return [
            each
            for each in self._offers.values()
            if each.job.agent_id == agent_id and each.job.profile.pool is None and not each.ended.is_set()
        ]

    def list_for_workers(self) -> list[AttemptOffer]:
        """List the attempts for workers that no worker has, those first that wait longest."""
        return [each for each in self._offers.values() if each.job.profile.pool is not None and not each.taken.is_set()]
