"""Syncs of workers: each carries the whole state both ways, and offers, stops and acknowledgements follow from it.

What an engine keeps here of workers it can forget: the claims of attempts are rows, and workers tell the rest again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import AgentId, format_instant
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.contracts.worker import (
    PROTOCOL,
    AttemptName,
    AttemptReport,
    DesiredAttempt,
    DesiredCheck,
    JobInput,
    RepositoryBase,
    SyncAnswer,
    SyncRequest,
    WorkerJob,
    WorkerRole,
    WorkerState,
)
from agenttalk.engine.agents.offers import AttemptOffer
from agenttalk.engine.agents.remote import RemoteAgents, RemoteRepositoryAddress, address_of
from agenttalk.engine.agents.transcript import LARGEST
from agenttalk.engine.core import access
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.fleet.check_leases import CheckLeases
from agenttalk.engine.fleet.worker_logs import WorkerLogs
from agenttalk.engine.fleet.workers import (
    Workers,
    alert_waiting,
    explain_waiting,
    judge_standing,
    require_protocol,
)
from agenttalk.ports.agents import Job
from agenttalk.ports.statements.fleet import WorkerRow
from agenttalk.rules.agents.progress_notes import Note
from agenttalk.rules.checks import hidden_checks
from agenttalk.rules.core.tokens import TokenSubject
from agenttalk.rules.fleet.assignment import WorkerNeeds, WorkerStanding, needs_of, pick_offers
from agenttalk.rules.fleet.liveness import LeaseTiming, Liveness, WorkerContact
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.text import task_words
from agenttalk.rules.text.message import join

LONGEST_WAIT: Final = 20.0
"""Seconds for which an engine may wait with its answer."""


MOST_WAITING: Final = 200
"""Tasks that wait for workers and are listed."""
_SETTLE: Final = 0.2
"""Seconds until an attempt that has ended in this process has ended in the store, too."""


class WorkerView(TypedDict):
    """A worker, as people see it."""

    id: str
    name: str
    pool: str
    role: WorkerRole
    labels: list[str]
    state: WorkerState
    reason: str
    liveness: Liveness
    paused: bool
    slots: int
    attempts: list[str]
    failures: int
    facts: dict[str, Any]


class WaitingTask(TypedDict):
    """A task that waits for a worker."""

    plan_id: str
    task_id: str
    agent_id: str
    pool: str
    since: str
    why: str
    """What has to happen until a worker takes it."""


@dataclass(slots=True)
class _Turn:
    """What one sync found out, besides what every answer says."""

    acknowledged: list[str] = field(default_factory=list)


class FleetAgents:
    """Leaves jobs to agents elsewhere, and counts how those of workers ended. Implements `Performer`."""

    def __init__(self, deps: Deps, agents: RemoteAgents) -> None:
        self._deps = deps
        self._agents = agents
        self._workers = Workers(deps)
        self._logs = WorkerLogs(deps, agents)

    async def perform(self, job: Job) -> Performance:
        """Offer a job, and wait for its result."""
        alarm = asyncio.create_task(self._watch_wait(job)) if job.profile.pool is not None else None
        try:
            performance = await self._agents.perform(job)
        finally:
            if alarm is not None:
                alarm.cancel()
                await asyncio.gather(alarm, return_exceptions=True)
        if job.profile.pool is not None:
            performance = await self._logs.close(job, performance)
            if performance.how == "lost" and await self._agents.keep_snapshot(job):
                performance = replace(performance, error=join([performance.error, task_words.INTERRUPTED()]))
            worker = await self._agents.find_worker(job)
            if worker:
                await self._workers.count_ending(worker, performance.how)
        return performance

    async def _watch_wait(self, job: Job) -> None:
        """Alert people when no worker takes a job for long."""
        if self._deps.limits.worker_wait_seconds <= 0:
            return
        offers, task = self._agents.offers, TaskName(job.board, job.plan_id, job.task_id)
        while (offer := offers.find(task)) is None or offer.job is not job:
            await offers.news.wait()
        await asyncio.sleep(self._deps.limits.worker_wait_seconds)
        if not offer.taken.is_set():
            await alert_waiting(self._deps, job)


class WorkerSync:
    """Answers workers."""

    def __init__(
        self,
        deps: Deps,
        agents: RemoteAgents,
        report: Callable[[TaskName, Note, Caller], object],
        checks: CheckLeases | None = None,
    ) -> None:
        """`report` takes what an attempt tells of itself. Without `checks` verifiers have nothing to do."""
        self.checks = checks
        self._deps = deps
        self._agents = agents
        self._report = report
        self._timing = LeaseTiming(deps.limits.worker_ttl_seconds)
        self.workers = Workers(deps)
        self.logs = WorkerLogs(deps, agents)
        self._contacts = deps.worker_contacts
        self._reports: dict[str, tuple[AttemptReport, ...]] = {}
        """What workers said last of their attempts."""

    async def sync(self, worker: str, request: SyncRequest) -> SyncAnswer:
        """Take the state of a worker, and answer with what is wanted of it. Waits for news if there is none.

        Raises UsageError for a worker that was removed, or speaks another version.
        """
        require_protocol(request.protocol)
        row = await self._find(worker)
        if request.facts is not None:
            await self.workers.keep_facts(row, request.facts)
            row = await self._find(worker)
        loop, turn = asyncio.get_running_loop(), _Turn()
        busy = bool(request.attempts or request.checks)
        wait = min(request.wait_seconds, LONGEST_WAIT, self._timing.renew if busy else LONGEST_WAIT)
        deadline = loop.time() + wait
        self._hear(worker, request)
        for report in request.attempts:
            await self._take_report(row, report, turn)
        if self.checks is not None and row.role == "verifier":
            await self.checks.take_reports(row, request.checks)
            row = await self._find(worker)
        with self._hanging(worker):
            while True:
                news = self._find_news(row)
                answer = await self._answer(row, request, turn)
                left = deadline - loop.time()
                if left <= 0 or turn.acknowledged or answer.offers or any(map(_is_news, answer.desired)):
                    return answer
                if {each.lease for each in answer.checks} != {each.lease for each in request.checks}:
                    return answer
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, self._find_recheck(request))):
                        await news.wait()
                row = await self._find(worker)

    def _find_news(self, row: WorkerRow) -> asyncio.Event:
        if row.role == "verifier" and self.checks is not None:
            return self.checks.news
        return self._agents.offers.news

    def _find_recheck(self, request: SyncRequest) -> float:
        """Return the seconds after which the answer may be another without news.

        What was offered to a worker that does not react is anyone's then. And what has just ended here ends in the
        store a moment later.
        """
        settled = all(self._agents.offers.find(_task(each)) is not None for each in request.attempts)
        return self._timing.suspect if settled else min(_SETTLE, self._timing.suspect)

    async def _find(self, worker: str) -> WorkerRow:
        row = await self.workers.find(worker)
        if row is None:
            hint = "enrol it again, with a new invitation"
            raise UsageError(Code.TOKEN_REFUSED, "this worker was removed", hint=hint)
        return row

    def _hear(self, worker: str, request: SyncRequest) -> None:
        before, now = self._contacts.get(worker), asyncio.get_running_loop().time()
        busy = sum(1 for each in request.attempts if each.phase not in {"ended", "gone"}) + len(request.checks)
        hanging = before.hanging if before is not None else 0
        self._contacts[worker] = WorkerContact(now, hanging, request.slots, busy, request.draining)
        self._reports[worker] = request.attempts

    @contextmanager
    def _hanging(self, worker: str) -> Iterator[None]:
        contact = self._contacts[worker]
        self._contacts[worker] = contact._replace(hanging=contact.hanging + 1)
        try:
            yield
        finally:
            contact, now = self._contacts[worker], asyncio.get_running_loop().time()
            self._contacts[worker] = contact._replace(hanging=contact.hanging - 1, heard=now)

    async def _take_report(self, row: WorkerRow, report: AttemptReport, turn: _Turn) -> None:
        """Take what a worker tells of an attempt: that it accepts it, how far it is, its result, or its loss."""
        offer = self._agents.offers.find_for_worker(_task(report), report.epoch)
        if offer is not None and report.phase == "accepted" and offer.offered_to == row.id:
            place = await self.workers.keep_place(row, offer.job.agent_id)
            if self.checks is not None:
                self.checks.avoid(offer.job.agent_id, place)
            await self._agents.accept(offer, row.id)
        if offer is not None and offer.worker == row.id:
            offer.hear()
            if report.phase == "gone":
                offer.give_up(row.name)
            elif offer.is_news(report.notes):
                caller = Caller("agent", offer.job.agent_id, _subject(report))
                self._report(_task(report), Note(report.usage, report.progress[:500]), caller)
        if report.result is not None and await self._is_stored(row, report):
            turn.acknowledged.append(report.result.sha256)

    async def _is_stored(self, row: WorkerRow, report: AttemptReport) -> bool:
        """Store a result. Whether the worker may forget it: it is stored, or does not count any more."""
        caller = await access.identify_as_worker_attempt(self._deps, row.id, _subject(report))
        if caller is None or report.result is None:
            return True
        try:
            await self._agents.finish(_task(report), caller, {"performance": report.result.performance})
        except MachineError:  # this engine is starting or ending: the next sync brings it again
            return False
        except UsageError:  # it comes too late, or another result came first
            return True
        return True

    async def _answer(self, row: WorkerRow, request: SyncRequest, turn: _Turn) -> SyncAnswer:
        desired = [await self._decide(row, report) for report in request.attempts]
        return SyncAnswer(
            protocol=PROTOCOL,
            time=self._deps.stamp(),
            ttl_seconds=self._timing.ttl,
            state=row.state,
            offers=tuple(await self._offer(row, request)),
            desired=tuple(desired),
            checks=tuple(await self._decide_checks(row, request)),
            acknowledged=tuple(turn.acknowledged),
        )

    async def _decide_checks(self, row: WorkerRow, request: SyncRequest) -> list[DesiredCheck]:
        """Decide which checks a verifier makes."""
        if row.role != "verifier" or self.checks is None:
            return []
        standing = judge_standing(self._deps, row, await self.workers.list_paused_pools())
        return await self.checks.decide(row, replace(standing, free=request.slots), request.checks)

    async def explain_check(self, plan_id: str, task_id: str) -> str:
        """Say why a task waits for a verifier; empty if it does not."""
        if self.checks is None:
            return ""
        paused = await self.workers.list_paused_pools()

        def stand(row: WorkerRow) -> WorkerStanding:
            return judge_standing(self._deps, row, paused)

        return await self.checks.explain(plan_id, task_id, stand)

    async def _decide(self, row: WorkerRow, report: AttemptReport) -> DesiredAttempt:
        """Decide what a worker does with an attempt that it has."""
        name = _attempt_fields(report)
        offer = self._agents.offers.find_for_worker(_task(report), report.epoch)
        if offer is not None and offer.worker == row.id:
            job = self._describe(offer) if report.phase == "accepted" else None
            return DesiredAttempt(**name, do="run", job=job)
        if offer is None and await self._is_kept(row, report):
            return DesiredAttempt(**name, do="run")
        return DesiredAttempt(**name, do="stop", why="the attempt is over, or belongs to another worker")

    def _describe(self, offer: AttemptOffer) -> WorkerJob:
        """Describe everything that a worker needs for an attempt."""
        job, address = offer.job, address_of(offer.job)
        prepare = job.repo.prepare if job.repo is not None else None
        return WorkerJob(
            agent_id=AgentId(job.agent_id),
            lease=job.lease,
            attempt=job.attempt,
            profile=job.profile,
            command=hidden_checks.hide_command(job.command),
            prompt=self._deps.secret_guard.secrets.redact(job.prompt),
            root=str(self._deps.root.path.absolute()),
            timeout_seconds=job.timeout,
            inputs=tuple(
                JobInput(name=each.input_name, path=each.path, sha256=each.sha256, size=each.size)
                for each in job.inputs
            ),
            outputs=job.outputs,
            types=dict(job.types),
            repository=_describe_base(address, job.base.onto, prepare or "") if address and job.base else None,
            log_bytes=LARGEST,
            snapshot_seconds=self._deps.limits.worker_snapshot_seconds,
        )

    async def _is_kept(self, row: WorkerRow, report: AttemptReport) -> bool:
        """Whether the store says that the worker has an attempt which this engine does not take care of yet."""
        if self._agents.offers.find(_task(report)) is not None:
            return False
        return await access.identify_as_worker_attempt(self._deps, row.id, _subject(report)) is not None

    async def _offer(self, row: WorkerRow, request: SyncRequest) -> list[AttemptName]:
        """Offer a worker what it can do. What it was offered before and does not report is anyone's again."""
        # Nothing is awaited between the look at the offers and the choice: else many workers get the same one.
        paused = await self.workers.list_paused_pools() if self._agents.offers.list_for_workers() else frozenset()
        now, listed = asyncio.get_running_loop().time(), {_task(each) for each in request.attempts}
        waiting: list[tuple[AttemptOffer, WorkerNeeds]] = []
        for offer in self._agents.offers.list_for_workers():
            if offer.offered_to == row.id and offer.task not in listed:
                offer.offer_to("")
            needs = needs_of(offer.job.profile)
            free = not offer.offered_to or now - offer.offered_at >= self._timing.suspect
            if needs is not None and free:
                waiting.append((offer, needs))
        if not waiting:
            return []
        standing = judge_standing(self._deps, row, paused)
        picked = [waiting[place][0] for place in pick_offers([needs for _, needs in waiting], standing)]
        for offer in picked:
            offer.offer_to(row.id)
        return [AttemptName(**_offer_fields(offer)) for offer in picked]

    async def describe(self) -> list[WorkerView]:
        """Describe all workers."""
        found: list[WorkerView] = []
        paused = await self.workers.list_paused_pools()
        for row in await self.workers.list_all():
            standing, contact = judge_standing(self._deps, row, paused), self._contacts.get(row.id)
            reports = self._reports.get(row.id, ()) if standing.liveness != "lost" else ()
            running = [f"{each.plan_id}/{each.task_id}" for each in reports]
            found.append(
                {
                    "id": row.id,
                    "name": row.name,
                    "pool": row.pool,
                    "role": row.role,
                    "labels": sorted(standing.labels),
                    "state": standing.state,
                    "reason": row.reason,
                    "liveness": standing.liveness,
                    "paused": standing.paused,
                    "slots": contact.slots if contact is not None else 0,
                    "attempts": running,
                    "failures": row.failures,
                    "facts": _read_object(bytes(row.facts)),
                }
            )
        return found

    async def list_waiting(self) -> list[WaitingTask]:
        """List the tasks that wait for a worker, those first that wait longest, and why they do."""
        now, wall = asyncio.get_running_loop().time(), self._deps.now()
        return [
            {
                "plan_id": offer.job.plan_id,
                "task_id": offer.job.task_id,
                "agent_id": offer.job.agent_id,
                "pool": offer.job.profile.pool or "",
                "since": format_instant(wall - timedelta(seconds=now - offer.since)),
                "why": await explain_waiting(self._deps, offer.job.profile),
            }
            for offer in self._agents.offers.list_for_workers()[:MOST_WAITING]
        ]

    def wake(self) -> None:
        """Make the answers that wait anew: the state of a worker or a pool was changed."""
        self._agents.offers.wake()
        if self.checks is not None:
            self.checks.wake()


def _describe_base(address: RemoteRepositoryAddress, onto: str, prepare: str) -> RepositoryBase:
    snapshot = f"{address['submit'].removesuffix('/tree')}/snapshot"
    return RepositoryBase(**address, onto=onto, prepare=prepare, snapshot=snapshot)


def _is_news(desired: DesiredAttempt) -> bool:
    return desired.do == "stop" or desired.job is not None


def _read_object(data: bytes) -> dict[str, Any]:
    found: Any = wire.read(data)
    return dict(found)


def _task(name: AttemptName) -> TaskName:
    return TaskName(name.board, name.plan_id, name.task_id)


def _subject(name: AttemptName) -> TokenSubject:
    return TokenSubject(name.board, name.plan_id, name.task_id, name.epoch)


def _attempt_fields(name: AttemptName) -> dict[str, Any]:
    return {"board": name.board, "plan_id": name.plan_id, "task_id": name.task_id, "epoch": name.epoch}


def _offer_fields(offer: AttemptOffer) -> dict[str, Any]:
    job = offer.job
    return {"board": job.board, "plan_id": job.plan_id, "task_id": job.task_id, "epoch": job.epoch}
