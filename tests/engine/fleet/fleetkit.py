"""Workers in the process of a test: the real sync and the real process of a worker, joined without HTTP."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.proving.worker_trees import WorkerTrees
from agenttalk.adapters.result_spool import FileSpool
from agenttalk.adapters.signatures import WorkerKey
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.contracts.worker import (
    AttemptName,
    AttemptReport,
    CheckReport,
    Enrolment,
    JobInput,
    RepositoryBase,
    SyncAnswer,
    SyncRequest,
    WorkerFacts,
    WorkerRole,
)
from agenttalk.engine.agents.program import ProgramAgents
from agenttalk.engine.agents.remote import RemoteAgents
from agenttalk.engine.core import access
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import EngineLimits
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.fleet.check_process import CheckProcess
from agenttalk.engine.fleet.sync import WorkerSync
from agenttalk.engine.fleet.worker_process import WorkerProcess
from agenttalk.ports.fleet import RelayedAnswer, RelayedRequest
from agenttalk.rules.core.tokens import TokenSubject
from agenttalk.rules.fleet.verify_policy import HERE, VerifyPolicy
from agenttalk.wiring.provers import make_verifier_machine
from agenttalk.wiring.root import open_root
from kits.plankit import Engine, engine
from kits.standingkit import PlanStanding

FACTS = WorkerFacts(version="1", machine="m1", system="Linux", cores=2, drivers=("script",))
FAR = {"driver": "script", "pool": "far", "sandbox": "plain"}


def script(text: str, **keys: Any) -> dict[str, Any]:
    """An agent of the pool `far`, with its program."""
    return {**FAR, "argv": [sys.executable, "-c", f"import os, pathlib\n{text}\n"], **keys}


WRITES = "(pathlib.Path(os.environ['AGENTTALK_OUTPUTS']) / 'note.txt').write_text('from afar'); print('wrote it')"


async def until(seen: Callable[[], Any]) -> None:
    """Wait for something that another process does."""
    while True:
        if seen():
            return
        await asyncio.sleep(0.005)


@dataclass
class Fleet:
    """An engine, and what answers its workers."""

    engine: Engine
    remote: RemoteAgents
    sync: WorkerSync

    async def enrol(
        self,
        name: str = "one",
        *labels: str,
        pool: str = "far",
        facts: WorkerFacts = FACTS,
        role: WorkerRole = "agents",
        key: str = "",
    ) -> str:
        """A new worker; its id."""
        token, key = f"inv_{name:-<30}", key or f"{name:-<43}"
        await self.sync.workers.invite(token, pool, labels, by="ada", role=role)
        enrolment = Enrolment(protocol=1, name=name, public_key=key, facts=facts)
        return (await self.sync.workers.enrol(token, enrolment)).worker

    async def ended(self) -> PlanStanding:
        """How the plan stands when it is over. Until then it may wait for a worker."""
        return await self.engine.until(lambda found: found.result not in {"running", "waiting"})

    async def ask(
        self,
        worker: str,
        *attempts: AttemptReport,
        checks: tuple[CheckReport, ...] = (),
        slots: int = 1,
        wait: float = 0.0,
    ) -> SyncAnswer:
        """One sync by hand."""
        told = SyncRequest(protocol=1, slots=slots, attempts=attempts, checks=checks, wait_seconds=wait)
        answer = await self.sync.sync(worker, SyncRequest.from_json(told.as_json()))
        return SyncAnswer.from_json(answer.as_json())


@asynccontextmanager
async def fleet(
    root: Path, *, ttl: float = 600.0, alert: float = 600.0, proving: bool = False, verify: VerifyPolicy = HERE
) -> AsyncIterator[Fleet]:
    """An engine that has workers."""
    limits = EngineLimits(worker_ttl_seconds=ttl, worker_wait_seconds=alert)
    async with engine(root, limits=limits, proving=proving, verify=verify) as running:
        assert running.elsewhere is not None
        watches = running.dispatcher.watches

        def report(task: TaskName, note: Any, caller: Caller) -> None:
            assert caller.attempt is not None
            watches.report(task.board, task.plan_id, task.task_id, caller.attempt.epoch, note)

        yield Fleet(running, running.elsewhere, WorkerSync(running.deps, running.elsewhere, report, running.checks))


@dataclass
class DirectLink:
    """The link of a worker, with faults on demand."""

    fleet: Fleet
    worker: str
    is_down: bool = False
    """Whether nothing gets through."""
    lost_answers: int = 0
    """How many of the next syncs reach the engine, but their answers do not come back."""
    lost_log_answers: int = 0
    """The same for pieces of logs."""
    asked: list[SyncRequest] = field(default_factory=list)

    def _connect(self) -> None:
        if self.is_down:
            raise MachineError(Code.ENGINE_UNREACHABLE, "the network is down")

    async def sync(self, request: SyncRequest) -> SyncAnswer:
        self._connect()
        self.asked.append(request)
        answer = await self.fleet.sync.sync(self.worker, SyncRequest.from_json(request.as_json()))
        if self.lost_answers:
            self.lost_answers -= 1
            raise MachineError(Code.ENGINE_UNREACHABLE, "the answer got lost")
        self._connect()
        return SyncAnswer.from_json(answer.as_json())

    async def _caller(self, attempt: AttemptName) -> tuple[TaskName, Caller]:
        self._connect()
        subject = TokenSubject(attempt.board, attempt.plan_id, attempt.task_id, attempt.epoch)
        caller = await access.identify_as_worker_attempt(self.fleet.engine.deps, self.worker, subject)
        return TaskName(*subject[:3]), caller or Caller("fleet", self.worker)

    async def fetch_input(self, attempt: AttemptName, file: JobInput) -> bytes:
        task, caller = await self._caller(attempt)
        return await self.fleet.remote.read_input(task, caller, file.name, file.path)

    async def submit_file(self, attempt: AttemptName, output: str, path: str, data: bytes) -> None:
        task, caller = await self._caller(attempt)
        await self.fleet.remote.submit(task, caller, output, path, data)

    async def submit_pack(self, base: RepositoryBase, pack: bytes) -> None:
        raise NotImplementedError

    async def submit_snapshot(self, base: RepositoryBase, pack: bytes) -> None:
        raise NotImplementedError

    async def relay(self, attempt: AttemptName, request: RelayedRequest) -> RelayedAnswer:
        raise NotImplementedError

    async def send_log(self, attempt: AttemptName, at: int, data: bytes) -> int:
        task, caller = await self._caller(attempt)
        following = await self.fleet.sync.logs.append(task, caller, at, data)
        if self.lost_log_answers:
            self.lost_log_answers -= 1
            raise MachineError(Code.ENGINE_UNREACHABLE, "the answer got lost")
        return following

    async def fetch_check_file(self, lease: str, sha256: str) -> bytes:
        self._connect()
        assert self.fleet.sync.checks is not None
        source = self.fleet.sync.checks.find_source(self.worker, lease)
        if source is None:
            raise UsageError(Code.LEASE_LOST, "this worker does not have this check")
        return await source.read(sha256)

    def check_remote(self, lease: str) -> tuple[str, str]:
        return "", lease

    def git_remote(self, base: RepositoryBase) -> tuple[str, str]:
        raise NotImplementedError


class BootClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Worker:
    """A worker at work."""

    process: WorkerProcess
    link: DirectLink
    clock: BootClock
    running: asyncio.Task[None]

    async def phase(self, wanted: str) -> None:
        """Wait until its one attempt is in a phase."""
        while [each.phase for each in self.process.attempts] != [wanted]:
            assert not self.running.done(), self.running.exception()
            await asyncio.sleep(0.005)

    async def idle(self) -> None:
        """Wait until it has no attempt any more."""
        while self.process.attempts:
            assert not self.running.done(), self.running.exception()
            await asyncio.sleep(0.005)


@asynccontextmanager
async def worker(
    folder: Path,
    link: DirectLink,
    *,
    slots: int = 1,
    facts: WorkerFacts = FACTS,
    dies: bool = False,
    key: WorkerKey | None = None,
) -> AsyncIterator[Worker]:
    """The process of a worker. One that `dies` hands nothing in when the block ends. One with a key is a verifier."""
    for each in ("agents", "system_runtime"):
        (folder / "root" / each).mkdir(parents=True, exist_ok=True)
    processes = LocalProcesses()
    async with open_root(folder / "root") as deps:
        performers = {"script": ProgramAgents(deps, ScriptDriver(processes, grace=0.3))}
        clock, stop = BootClock(), asyncio.Event()
        trees = WorkerTrees(folder / "root", deps.clock)
        driver = ScriptDriver(processes, grace=0.3)
        machine = make_verifier_machine(folder / "root", deps, driver)
        checks = CheckProcess(link.worker, machine, link, facts, key.sign) if key is not None else None
        made = WorkerProcess(
            deps, performers, processes, link, trees, FileSpool(folder / "spool"), facts,
            slots=slots, monotonic=clock, pause=0.01, checks=checks,
        )  # fmt: skip
        running = asyncio.create_task(made.run(stop))
        try:
            yield Worker(made, link, clock, running)
        finally:
            stop.set()
            await asyncio.gather(running, return_exceptions=dies)
            await trees.close()
            await machine.close()
