"""The process of a worker: exchanges its state with its engine, runs what that wants, and keeps what was made.

The sync comes first and does nothing else. What takes time runs beside it. What was made is on the disk before it
is sent, and stays there until the engine acknowledges it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MachineError, UsageError
from agenttalk.contracts.plan import Workspace
from agenttalk.contracts.worker import (
    PROTOCOL,
    AttemptName,
    AttemptPhase,
    AttemptReport,
    DesiredAttempt,
    SyncAnswer,
    SyncRequest,
    WorkerFacts,
    WorkerJob,
    WorkerResult,
)
from agenttalk.engine.agents.performances import performance_to_json, read_performance
from agenttalk.engine.core import records
from agenttalk.engine.core.boards import DEFAULT
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.fleet.check_process import CheckProcess
from agenttalk.engine.fleet.work_sender import WorkSender
from agenttalk.ports.agents import InputContent, Interruption, Job, Performer, Processes
from agenttalk.ports.fleet import AttemptTrees, EngineLink, ResultSpool, WorkFolder
from agenttalk.rules.agents.progress_notes import Note, read_note
from agenttalk.rules.core.tokens import attempt_token
from agenttalk.rules.fleet.liveness import STANDARD, LeaseTiming, must_stop
from agenttalk.rules.proof.performance import Performance

LOG = logging.getLogger(__name__)
IDLE_WAIT: Final = 20.0
"""Seconds for which an engine may let an idle worker wait."""
PAUSE: Final = 1.0
"""Seconds until the next try, when the engine does not answer."""
LOOK: Final = 60.0
"""Seconds between two looks at the contact, at most."""
LOG_PAUSES: Final = 2
"""Such pauses between two looks at a log that grows."""


class WorkerMonitor:
    """Takes what a job tells of itself, for the next sync. Implements `JobMonitor`."""

    def __init__(self) -> None:
        self.interruption = Interruption()
        self.usage: Mapping[str, Any] = {}
        self.progress = ""
        self.notes = 0
        """How many notes there were. The engine takes each once."""

    def hear(self, line: bytes) -> None:
        """Take a line of the program's output."""
        note = read_note(line)
        if note is not None:
            self.note(note)

    def note(self, note: Note) -> None:
        """Take usage and progress."""
        self.usage = dict(note.usage) or self.usage
        self.progress = note.progress or self.progress
        self.notes += 1

    def report_unsafe(self, what: str) -> None:
        """Take that the agent tried something forbidden."""
        self.note(Note({}, what))

    def enter(self, phase: str, detail: str = "") -> None:
        """Take what is done for the job."""

    def count_tests(self, done: int | None, total: int | None) -> None:
        """Take how far a check is. A worker makes none."""


@dataclass(slots=True)
class WorkerAttempt:
    """An attempt that a worker has."""

    name: AttemptName
    phase: AttemptPhase = "accepted"
    lease: str = ""
    job: WorkerJob | None = None
    monitor: WorkerMonitor = field(default_factory=WorkerMonitor)
    result: WorkerResult | None = None
    outputs: list[list[Any]] = field(default_factory=list)
    sender: WorkSender | None = None
    """Sends its log and snapshots of its tree."""
    task: asyncio.Task[None] | None = None

    @property
    def key(self) -> str:
        """Its name in the spool."""
        return key_of(self.name)

    def timing(self, usual: LeaseTiming) -> LeaseTiming:
        """Return how long it goes on without an answer of the engine: as its agent says, or as usual."""
        own = self.job.profile.worker_ttl_seconds if self.job is not None else None
        return LeaseTiming(float(own)) if own else usual


def key_of(name: AttemptName) -> str:
    """Return the name of an attempt as a file name."""
    return f"{name.board}+{name.plan_id}+{name.task_id}+{name.epoch}"


class WorkerProcess:
    """Runs attempts for an engine."""

    def __init__(  # noqa: PLR0913 - each is a collaborator of its own
        self,
        deps: Deps,
        performers: Mapping[str, Performer],
        processes: Processes,
        link: EngineLink,
        trees: AttemptTrees,
        spool: ResultSpool,
        facts: WorkerFacts,
        *,
        slots: int,
        monotonic: Callable[[], float],
        pause: float = PAUSE,
        checks: CheckProcess | None = None,
    ) -> None:
        """`monotonic` is a clock that goes on while the machine sleeps; it alone decides when contact was lost.

        A verifier makes `checks`.
        """
        self._checks = checks
        self._deps = deps
        self._performers = performers
        self._processes = processes
        self._link = link
        self._trees = trees
        self._spool = spool
        self._facts: WorkerFacts | None = facts
        self._slots = slots
        self._monotonic = monotonic
        self._pause = pause
        self._timing = STANDARD
        self._contact = monotonic()
        self._attempts: dict[str, WorkerAttempt] = {}
        self._changed = checks.changed if checks is not None else asyncio.Event()
        self._is_draining = False
        self._beats = [self._contact, self._contact]
        """When the loops that exchange and that watch began their last rounds."""

    @property
    def attempts(self) -> list[WorkerAttempt]:
        """The attempts that it has."""
        return list(self._attempts.values())

    @property
    def beat(self) -> float:
        """When the slower of its loops began its last round."""
        return min(self._beats)

    def drain(self) -> None:
        """Take nothing new, and end when all is handed in."""
        self._is_draining = True
        self._changed.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, or it was drained. Raises UsageError when the engine does not know it any more."""
        await self._restore()
        watchdog = asyncio.create_task(self._watch_contact())
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                has_checks = self._checks is not None and not self._checks.is_idle
                if self._is_draining and not self._attempts and not has_checks:
                    break
                exchange = asyncio.create_task(self._exchange())
                await asyncio.wait([exchange, stopped], return_when=asyncio.FIRST_COMPLETED)
                if not exchange.done():
                    exchange.cancel()
                    with suppress(asyncio.CancelledError):
                        await exchange
                    break
                exchange.result()
        finally:
            watchdog.cancel()
            stopped.cancel()
            if self._checks is not None:
                await self._checks.end_all()
            tasks = [each.task for each in self.attempts if each.task is not None and not each.task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _exchange(self) -> None:
        """Make one sync. News of an attempt cut a waiting one short, and the next one brings them."""
        self._changed.clear()
        self._beats[0] = self._monotonic()
        request, sent = self._build_request(), self._monotonic()
        asking = asyncio.create_task(self._link.sync(request))
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait([asking, changed], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                return
            answer = asking.result()
        except MachineError as error:
            LOG.warning("%s", error.message, extra={"action": "worker.sync"})
            with suppress(TimeoutError):
                async with asyncio.timeout(min(self._pause, self._timing.renew)):
                    await self._changed.wait()
            return
        finally:
            for each in (asking, changed):
                each.cancel()
            await asyncio.gather(asking, changed, return_exceptions=True)
        # From when it was sent: the engine's clock for this worker began at the latest when it came.
        self._contact, self._timing = sent, LeaseTiming(answer.ttl_seconds)
        self._facts = None
        self._apply(answer)

    def _build_request(self) -> SyncRequest:
        reports = tuple(_report(each) for each in self._attempts.values())
        fresh = any(each.phase in {"accepted", "ended", "gone"} for each in self._attempts.values())
        fresh = fresh or (self._checks is not None and self._checks.has_news)
        return SyncRequest(
            protocol=PROTOCOL,
            slots=self._slots,
            facts=self._facts,
            draining=self._is_draining,
            attempts=reports,
            checks=tuple(self._checks.list_reports()) if self._checks is not None else (),
            wait_seconds=0.0 if fresh or self._facts is not None else IDLE_WAIT,
        )

    def _apply(self, answer: SyncAnswer) -> None:
        if self._checks is not None:
            self._checks.apply(answer.checks)
        known = set(answer.acknowledged)
        for attempt in self.attempts:
            if attempt.result is not None and attempt.result.sha256 in known:
                self._forget(attempt)
        for desired in answer.desired:
            attempt_or_none = self._attempts.get(key_of(desired))
            if attempt_or_none is not None:
                self._follow(attempt_or_none, desired)
        for offer in answer.offers:
            if key_of(offer) not in self._attempts and not self._is_draining:
                self._attempts[key_of(offer)] = WorkerAttempt(offer)

    def _follow(self, attempt: WorkerAttempt, desired: DesiredAttempt) -> None:
        if desired.do == "run":
            if desired.job is not None and attempt.phase == "accepted":
                attempt.job, attempt.lease, attempt.phase = desired.job, desired.job.lease, "running"
                attempt.task = asyncio.create_task(self._carry_out(attempt, desired.job))
        elif attempt.task is not None and not attempt.task.done():
            attempt.task.add_done_callback(lambda _: self._forget(attempt))
            attempt.task.cancel()
        elif attempt.result is None or attempt.phase == "gone":
            self._forget(attempt)

    def _forget(self, attempt: WorkerAttempt) -> None:
        if self._attempts.get(attempt.key) is attempt:
            del self._attempts[attempt.key]
            self._spool.drop(attempt.key)
            self._changed.set()

    async def _watch_contact(self) -> None:
        """End all processes once the engine was not reached for too long, also while a sync waits."""
        while True:
            self._beats[1] = self._monotonic()
            silent = self._monotonic() - self._contact
            if must_stop(silent, self._timing) or any(
                must_stop(silent, each.timing(self._timing)) for each in self.attempts
            ):
                await self._end_running(silent)
            left = [ttl - silent for each in self.attempts if (ttl := each.timing(self._timing).ttl) > silent]
            await asyncio.sleep(min(*left, self._timing.renew / 2, LOOK))

    async def _end_running(self, silent: float) -> None:
        """End the processes of attempts that run, and report these as gone. Results that are there are kept."""
        if self._checks is not None:
            await self._checks.end_all()
        late = [each for each in self.attempts if must_stop(silent, each.timing(self._timing))]
        running = [each for each in late if each.phase == "running" and each.task is not None]
        for attempt in running:
            LOG.warning("%s: the engine was not reached, so it is ended", attempt.key, extra={"action": "worker.lost"})
            attempt.phase = "gone"
            if attempt.task is not None:
                attempt.task.cancel()
        await asyncio.gather(*(each.task for each in running if each.task is not None), return_exceptions=True)
        self._attempts = {
            key: each for key, each in self._attempts.items() if each.phase != "accepted" or each not in late
        }
        if running:
            self._changed.set()

    async def _restore(self) -> None:
        """Take up what an earlier process left: results go on, programs are ended and reported as gone."""
        for key, record in (await asyncio.to_thread(self._spool.read_all)).items():
            attempt = WorkerAttempt(AttemptName.from_json(record["name"]), "gone", record["lease"])
            attempt.job = job = WorkerJob.from_json(record["job"])
            attempt.sender = self._make_sender(attempt, job)
            self._attempts[key] = attempt
            if "performance" in record:
                self._keep_result(attempt, read_performance(record["performance"]))
                attempt.task = asyncio.create_task(self._hand_in(attempt))
            else:
                await self._processes.end(attempt.lease)
                await attempt.sender.send_last_log()

    def _make_sender(self, attempt: WorkerAttempt, job: WorkerJob) -> WorkSender:
        every = LOG_PAUSES * self._pause
        return WorkSender(self._deps.root, self._link, self._trees, attempt.name, job, log_seconds=every)

    async def _carry_out(self, attempt: WorkerAttempt, told: WorkerJob) -> None:
        """Run an attempt, keep what it made, and hand that in."""
        record = {"name": _name(attempt.name).as_json(), "lease": told.lease, "job": told.as_json()}
        await asyncio.to_thread(self._spool.write, attempt.key, record)
        attempt.sender = self._make_sender(attempt, told)
        following = asyncio.create_task(attempt.sender.follow())
        pack = b""
        try:
            try:
                performance = await self._perform(attempt, told)
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            if told.repository is not None and performance.how == "finished":
                pack = await self._trees.take(attempt.name, told)
        except InputError as error:
            performance = Performance("crashed", error=error.message)
        except AgentTalkError as error:
            performance = Performance("not_started", error=error.message)
        except Exception as error:  # a fault of ours or of this machine, not of the agent
            LOG.exception("%s: its driver failed", attempt.key, extra={"action": "worker.perform"})
            performance = Performance("not_started", error=f"{type(error).__name__}: {error}")
        self._keep_result(attempt, performance)
        record["performance"] = performance_to_json(performance)
        await asyncio.to_thread(self._spool.write, attempt.key, record, pack)
        await self._hand_in(attempt)

    def _keep_result(self, attempt: WorkerAttempt, performance: Performance) -> None:
        attempt.phase = "handing_in"
        attempt.outputs = performance_to_json(performance)["outputs"]
        said = performance_to_json(replace(performance, outputs=()))
        attempt.result = WorkerResult(sha256=wire.sha256(wire.write(said)), performance=said)

    async def _perform(self, attempt: WorkerAttempt, told: WorkerJob) -> Performance:
        performer = self._performers.get(told.profile.driver)
        if performer is None:
            return Performance("not_started", error=f"this worker does not have the driver {told.profile.driver!r}")
        job = await self._make_job(attempt, told)
        if told.repository is not None:
            folder = await self._trees.begin(attempt.name, told, self._link.git_remote(told.repository))
            job = _place(job, folder, self._deps.root.path.absolute())
        return await performer.perform(job)

    async def _make_job(self, attempt: WorkerAttempt, told: WorkerJob) -> Job:
        """Build the job as the engine would for its own machine. Its token opens nothing."""
        name, root = attempt.name, str(self._deps.root.path.absolute())
        blobs = await self._deps.stores.blobs(DEFAULT)
        inputs = []
        for file in told.inputs:
            data = await self._link.fetch_input(name, file)
            if wire.sha256(data) != file.sha256:
                raise MachineError(Code.BLOB_MISSING, f"the input {file.name}/{file.path} came with another content")
            sha256 = file.sha256 if len(data) <= records.SMALL else await blobs.put(data)
            small = data if len(data) <= records.SMALL else None
            inputs.append(InputContent(file.name, file.path, sha256, len(data), small))
        return Job(
            name.plan_id,
            name.task_id,
            told.agent_id,
            DEFAULT,
            told.lease,
            name.epoch,
            told.attempt,
            attempt_token(DEFAULT, name.plan_id, name.task_id, name.epoch, secrets.token_urlsafe(18)),
            told.profile.model_copy(update={"pool": None, "needs": ()}),
            told.command,
            told.prompt.replace(told.root, root),
            told.timeout_seconds,
            tuple(inputs),
            dict(told.types),
            tuple(told.outputs),
            watch=attempt.monitor,
        )

    async def _hand_in(self, attempt: WorkerAttempt) -> None:
        """Hand in files and work, however often the engine has to be asked. Then the result goes with the syncs."""
        if attempt.sender is not None:
            with suppress(UsageError):  # a log that is not taken is a hole, and no fault of the work
                await self._insist(attempt.sender.send_log)
        try:
            blobs = await self._deps.stores.blobs(DEFAULT)
            for output in attempt.outputs:
                name, path, sha256, _, small = output
                data = b64decode(small) if small is not None else await blobs.get(sha256)
                await self._insist(partial(self._link.submit_file, attempt.name, name, path, data))
            base = attempt.job.repository if attempt.job is not None else None
            pack = await asyncio.to_thread(self._spool.read_pack, attempt.key)
            if base is not None and pack:
                await self._insist(partial(self._link.submit_pack, base, pack))
        except UsageError as error:  # it is refused: the engine judges the attempt by that
            self._keep_result(attempt, Performance("crashed", error=error.message))
        attempt.phase = "ended"
        self._changed.set()
        if attempt.job is not None and attempt.job.repository is not None:
            await self._trees.drop(attempt.name, attempt.job)

    async def _insist(self, ask: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await ask()
            except MachineError as error:
                LOG.warning("%s", error.message, extra={"action": "worker.hand_in"})
                await asyncio.sleep(min(self._pause, self._timing.renew))
            else:
                return


def _place(job: Job, folder: WorkFolder, root: Path) -> Job:
    cwd = str(folder.path.relative_to(root))
    return replace(job, cwd=cwd, readonly=folder.readonly, repo=Workspace(repo=str(folder.path)))


def _report(attempt: WorkerAttempt) -> AttemptReport:
    name, monitor = attempt.name, attempt.monitor
    return AttemptReport(
        board=name.board,
        plan_id=name.plan_id,
        task_id=name.task_id,
        epoch=name.epoch,
        phase=attempt.phase,
        notes=monitor.notes,
        usage=dict(monitor.usage),
        progress=monitor.progress,
        result=attempt.result if attempt.phase == "ended" else None,
    )


def _name(name: AttemptName) -> AttemptName:
    return AttemptName(board=name.board, plan_id=name.plan_id, task_id=name.task_id, epoch=name.epoch)
