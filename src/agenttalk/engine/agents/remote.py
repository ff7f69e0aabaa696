"""Agents that work elsewhere (driver `remote`): they ask for work, give signs of life, and hand their results in.

Nothing is ever sent to them. An attempt is offered until its agent takes it; from then on it has to be heard of again
and again, else the attempt is lost and its task is offered again. What it hands in is committed before the answer, and
a restart of the engine goes on with the same attempt. A write that comes too late is refused in its transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypedDict

from pydantic import TypeAdapter, ValidationError

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import RelativePath, parse_instant
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, ConflictError, MachineError, UsageError
from agenttalk.engine.agents import performances
from agenttalk.engine.agents.offers import AttemptOffer, AttemptOffers
from agenttalk.engine.budgets.turn_monitor import TurnMonitor
from agenttalk.engine.core import access, boards, records, task_comments, trace_context
from agenttalk.engine.core.access import ELSEWHERE, Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.ports.agents import Job
from agenttalk.ports.statements.agents import DROP_HANDED_IN, HAND_IN, HANDED_IN, QUEUED_FOR, HandedInRow
from agenttalk.ports.statements.core import HOLD_ATTEMPT
from agenttalk.ports.statements.plans import SET_PHASE
from agenttalk.ports.storage import Tx
from agenttalk.ports.transport import RepositoryTransport
from agenttalk.rules.agents import results
from agenttalk.rules.agents.results import TurnFault
from agenttalk.rules.checks import hidden_checks
from agenttalk.rules.core.tokens import token_hash
from agenttalk.rules.fleet.liveness import LeaseTiming
from agenttalk.rules.proof.performance import OutputContent, Performance, SubmittedWork
from agenttalk.rules.text import turn_words

_PATH: Final[TypeAdapter[str]] = TypeAdapter(RelativePath)
OFFERED: Final = "offered"
"""The phase of an attempt that no remote agent has taken yet."""
SNAPSHOT: Final = "snapshot"
"""The kind of row for a tree that is handed in while its agent works."""
MOST_FILES: Final = 2_000
"""Files that one attempt may hand in."""


class TakenAttempt(TypedDict):
    """An attempt that a remote agent has."""

    task: str
    board: str
    epoch: int
    attempt: int
    since: str


class RemoteInput(TypedDict):
    """A file of an input that a remote agent can download."""

    name: str
    path: str
    sha256: str
    size: int


class RemoteRepositoryAddress(TypedDict):
    """The addresses at which a remote agent fetches what it builds on and hands in its tree."""

    fetch: str
    """The path that git fetches from, with the token of the attempt."""
    ref: str
    commit: str
    submit: str
    """The path that takes a pack."""


class ClaimedAttempt(TakenAttempt):
    """All that a remote agent needs for an attempt."""

    plan_id: str
    task_id: str
    agent_id: str
    token: str | None
    prompt: str
    command: JsonObject
    inputs: list[RemoteInput]
    outputs: list[str]
    timeout_seconds: float
    heartbeat_seconds: float
    traceparent: str | None
    repository: RemoteRepositoryAddress | None


class RemoteQueue(TypedDict):
    """The tasks that a remote agent has taken, those it could take, and those that wait behind them."""

    agent_id: str
    taken: list[TakenAttempt]
    offered: list[str]
    queued: list[str]


class HandedInFile(TypedDict):
    """A file of an output that a remote agent handed in."""

    output: str
    path: str
    sha256: str
    size: int


class HandedInResult(TypedDict):
    """A result that a remote agent handed in."""

    task: str
    epoch: int
    sha256: str


class RemoteRecords:
    """Reads and writes what the store knows of attempts that remote agents have: claims, files, results."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def read_rows(self, job: Job) -> list[HandedInRow]:
        """Read what was handed in for an attempt, its claim included."""
        store = await self._deps.stores.board(job.board)
        return await store.read(HANDED_IN, **about_attempt(job))

    async def enter_phase(self, job: Job, phase: str) -> None:
        """Write the phase of an attempt."""
        store = await self._deps.stores.board(job.board)
        about = {"plan_id": job.plan_id, "task_id": job.task_id, "lease": job.lease, "phase": phase}
        await store.transact(lambda tx: tx.run(SET_PHASE, **about))

    async def write_claim(self, job: Job, key: str, at: str, worker: str = "") -> bool:
        """Write that the agent took an attempt; False if it was taken before, or another attempt has the task."""
        store = await self._deps.stores.board(job.board)
        token = token_hash(job.token)

        def work(tx: Tx) -> bool:
            about = {"plan_id": job.plan_id, "task_id": job.task_id}
            taken = any(row.kind == "claim" for row in tx.run(HANDED_IN, **about_attempt(job)))
            if taken or not tx.run(HOLD_ATTEMPT, **about, epoch=job.epoch, token=token):
                return False
            tx.run(DROP_HANDED_IN, **about, epoch=job.epoch)
            hand_in(tx, job, "claim", name=key, path=worker, at=at)
            tx.run(SET_PHASE, **about, lease=job.lease, phase=ELSEWHERE)
            tx.record("turn.taken", f"{job.plan_id}/{job.task_id}", _taken_body(job, worker))
            return True

        return await store.transact(work)

    async def close(self, job: Job) -> list[HandedInRow]:
        """Read what was handed in, and refuse everything that comes after it."""
        store = await self._deps.stores.board(job.board)
        at = self._deps.stamp()

        # One transaction reads the result and closes the attempt: a result that comes in between is either read here
        # or refused, so none is lost.
        def work(tx: Tx) -> list[HandedInRow]:
            rows = tx.run(HANDED_IN, **about_attempt(job))
            if not any(row.kind == "result" for row in rows):
                hand_in(tx, job, "lost", at=at)
            return rows

        return await store.transact(work)

    async def read_performance(
        self, job: Job, result: HandedInRow, rows: list[HandedInRow], seconds: float
    ) -> Performance:
        """Read the performance of an attempt from the result and the files that were handed in."""
        answer: Any = wire.read(bytes(result.body), limit=wire.DOCUMENT_LIMIT)
        made = tuple([await self._read_output(job, row) for row in rows if row.kind == "artifact"])
        if job.profile.pool is not None:
            return performances.read_worker_performance(answer["performance"], made, _submitted(job, rows), seconds)
        usage = answer.get("usage") or {}
        if answer.get("error"):
            return Performance("crashed", error=str(answer["error"])[: results.TAIL], seconds=seconds, usage=usage)
        outcome = results.read_result(
            wire.write(answer), b"", score_required=job.command.score_required, may_refuse=job.profile.self_assessment
        )
        if isinstance(outcome, TurnFault) and outcome.code is Code.AGENT_UNFIT:
            return Performance("unfit", error=outcome.message, seconds=seconds, usage=usage)
        missing = results.find_missing_outputs(job.command, {each.output_name for each in made})
        submitted = _submitted(job, rows)
        fault = outcome if isinstance(outcome, TurnFault) else missing
        if isinstance(outcome, TurnFault) or fault is not None:
            code, error = (fault.code, fault.message) if fault is not None else (None, "")
            return Performance(
                "finished", outputs=made, code=code, error=error, seconds=seconds, usage=usage, submitted=submitted
            )
        return Performance(
            "finished",
            result=outcome.value,
            score=outcome.score,
            explanation=outcome.explanation,
            outputs=made,
            seconds=seconds,
            usage=usage,
            claims=outcome.claims,
            submitted=submitted,
        )

    async def _read_output(self, job: Job, row: HandedInRow) -> OutputContent:
        blobs = await self._deps.stores.blobs(job.board)
        return OutputContent(
            row.name, row.path, row.sha256, row.size, await blobs.get(row.sha256) if row.size <= records.SMALL else None
        )

    async def read_content(self, job: Job, sha256: str) -> bytes:
        """Read a content by its hash."""
        return await (await self._deps.stores.blobs(job.board)).get(sha256)


class RemoteAgents:
    """Carries out jobs by leaving them to agents that come for them. One loop uses it."""

    def __init__(
        self,
        deps: Deps,
        *,
        at_work: Callable[[str], None] = lambda _: None,
        transport: RepositoryTransport | None = None,
    ) -> None:
        """`at_work` gets the lease of each attempt that an agent claims; `transport` moves trees there and back."""
        self._deps = deps
        self.transport = transport
        self._records = RemoteRecords(deps)
        self._at_work = at_work
        self._patience = deps.limits.remote_silence_seconds
        self.offers = AttemptOffers()

    async def perform(self, job: Job) -> Performance:
        """Offer a job and wait for its result. One that was taken before is not offered again."""
        if job.repo is not None and (self.transport is None or job.base is None):
            return Performance("not_started", error=turn_words.NO_REPOSITORY())
        offer = AttemptOffer(job, traceparent=await trace_context.make_traceparent(self._deps, job))
        rows = {row.kind: row for row in await self._records.read_rows(job)}
        claim = rows.get("claim")
        await self._records.enter_phase(job, OFFERED if claim is None else ELSEWHERE)
        if claim is not None:
            offer.mark_taken(key=claim.name, at=claim.at, worker=claim.path)
        if "result" in rows:  # it was handed in to an engine that ended then
            offer.ended.set()
        self.offers.add(offer)
        try:
            await offer.taken.wait()
            self._at_work(job.lease)
            if isinstance(job.watch, TurnMonitor):
                job.watch.begin_program()
            return await self._handed_in(offer)
        finally:
            self.offers.remove(offer)

    async def _handed_in(self, offer: AttemptOffer) -> Performance:
        """Wait for the result. That it does not come any more is decided in a transaction, so that none is lost."""
        loop, job, patience = asyncio.get_running_loop(), offer.job, self._patience_for(offer.job)
        spent = (self._deps.now() - parse_instant(offer.at)).total_seconds()
        deadline = loop.time() + job.timeout - min(max(0.0, spent), job.timeout)
        while True:
            left = min(deadline, offer.heard + patience) - loop.time()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, left)):
                    await offer.ended.wait()
            late = loop.time() >= deadline
            if not offer.ended.is_set() and not late and loop.time() < offer.heard + patience:
                continue
            rows = await self._records.close(job)
            seconds = max(0.0, (self._deps.now() - parse_instant(offer.at)).total_seconds())
            said = next((row for row in rows if row.kind == "result"), None)
            if said is not None:
                return await self._records.read_performance(job, said, rows, seconds)
            if late:
                error = turn_words.LATE_ELSEWHERE(seconds=float(job.timeout))
                return Performance("timeout", error=error, seconds=seconds)
            error = turn_words.LOST(agent=job.agent_id, seconds=float(patience))
            if offer.gone:
                error = turn_words.LOST_BY_WORKER(worker=offer.gone)
            return Performance("lost", error=error, seconds=seconds)

    def _patience_for(self, job: Job) -> float:
        """Return the seconds of silence after which an attempt is lost."""
        if job.profile.pool is None:
            return self._patience
        return LeaseTiming(job.profile.worker_ttl_seconds or self._deps.limits.worker_ttl_seconds).lost

    async def describe_offers(self, agent_id: str) -> RemoteQueue:
        """Describe the attempts that an agent has taken and could take, and the tasks that wait behind them."""
        own = self.offers.list_for_agent(agent_id)
        queued = []
        for board in await boards.list_boards(self._deps):
            queued += [
                f"{row.plan_id}/{row.task_id}" for row in await board.read(QUEUED_FOR, agent_id=agent_id, limit=100)
            ]
        return {
            "agent_id": agent_id,
            "taken": [self._shown(each) for each in own if each.taken.is_set()],
            "offered": [_name(each.job) for each in own if not each.taken.is_set()],
            "queued": queued,
        }

    async def claim(self, agent_id: str, *, key: str | None = None, wait: float = 0.0) -> ClaimedAttempt | None:
        """Give an agent what is offered to it; None when nothing is, also after a `wait`.

        The same key again gets the same attempt again. Raises ConflictError while the agent has another one.
        """
        deadline = asyncio.get_running_loop().time() + wait
        while True:
            news = self.offers.news
            for offer in self.offers.list_for_agent(agent_id):
                if offer.taken.is_set():
                    return self._again(offer, key)
                at = self._deps.stamp()
                if await self._records.write_claim(offer.job, key or "", at):
                    offer.mark_taken(key=key or "", at=at)
                    return self._described(offer)
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return None
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await news.wait()

    async def accept(self, offer: AttemptOffer, worker: str) -> None:
        """Give an attempt to a worker, unless another has it by now."""
        at = self._deps.stamp()
        if not offer.taken.is_set() and await self._records.write_claim(offer.job, "", at, worker):
            offer.mark_taken(key="", at=at, worker=worker)

    async def find_worker(self, job: Job) -> str:
        """Find the worker that had an attempt; empty if none had it."""
        return next((row.path for row in await self._records.read_rows(job) if row.kind == "claim"), "")

    async def keep_snapshot(self, job: Job) -> bool:
        """Keep what a lost attempt had handed in so far, so that the next one begins with it. Whether there was any."""
        rows = await self._records.read_rows(job) if self.transport is not None and job.base is not None else []
        packs = [row.sha256 for row in rows if row.kind == SNAPSHOT]
        if self.transport is None or job.base is None or not packs:
            return False
        return await self.transport.keep_work(job, SubmittedWork(job.base.start, job.base.onto, packs[0]))

    def _again(self, offer: AttemptOffer, key: str | None) -> ClaimedAttempt:
        if key is not None and key == offer.key:
            return self._described(offer)
        shown = _name(offer.job)
        raise ConflictError(
            Code.STORE_CONFLICT,
            f"{offer.job.agent_id} has {shown} already, under epoch {offer.job.epoch}",
            hint="go on with that, or hand in a result that says what went wrong",
        )

    def _shown(self, offer: AttemptOffer) -> TakenAttempt:
        job = offer.job
        return {"task": _name(job), "board": job.board, "epoch": job.epoch, "attempt": job.attempt, "since": offer.at}

    def _described(self, offer: AttemptOffer) -> ClaimedAttempt:
        """Describe everything that an agent needs for the job."""
        job = offer.job
        return {
            **self._shown(offer),
            "plan_id": job.plan_id,
            "task_id": job.task_id,
            "agent_id": job.agent_id,
            "token": job.token or None,
            "prompt": self._deps.secret_guard.secrets.redact(job.prompt),
            "command": hidden_checks.hide_command(job.command).as_json(),
            "inputs": [
                {"name": each.input_name, "path": each.path, "sha256": each.sha256, "size": each.size}
                for each in job.inputs
            ],
            "outputs": list(job.outputs),
            "timeout_seconds": job.timeout,
            "heartbeat_seconds": self._patience_for(job) / 3,
            "traceparent": offer.traceparent or None,
            "repository": address_of(job),
        }

    def record_heartbeat(self, caller: Caller) -> None:
        """Record a sign of life of an attempt."""
        if caller.attempt is not None:
            offer = self.offers.find(TaskName(*caller.attempt.task))
            if offer is not None and offer.job.epoch == caller.attempt.epoch:
                offer.hear()

    async def find_job(self, task: TaskName, caller: Caller) -> Job:
        """Find the job of an attempt that was taken.

        Raises UsageError for one that is carried out here, MachineError for one that is not taken care of yet.
        """
        offer = self.offers.find(task)
        if offer is not None and caller.attempt is not None and offer.job.epoch == caller.attempt.epoch:
            return offer.job
        if (
            caller.attempt is not None
            and await access.identify_as_attempt(self._deps, caller, caller.attempt) is not None
        ):
            raise MachineError(Code.ENGINE_UNREACHABLE, "the engine is just starting or ending", hint="try again")
        hint = "a program that was started here finds its inputs in a folder, and puts its outputs into another"
        raise UsageError(Code.NOT_ALLOWED, "this attempt does not belong to a remote agent", hint=hint)

    async def read_input(self, task: TaskName, caller: Caller, name: str, path: str) -> bytes:
        """Read an input file of an attempt. Raises UsageError when there is none of that name."""
        job = await self.find_job(task, caller)
        for each in job.inputs:
            if (each.input_name, each.path) == (name, path):
                return each.data if each.data is not None else await self._records.read_content(job, each.sha256)
        known = ", ".join(f"{each.input_name}/{each.path}" for each in job.inputs[:20]) or "none"
        raise UsageError(Code.NAME_UNKNOWN, f"there is no input {name[:80]!r} with a file {path[:200]!r}", hint=known)

    async def submit(self, task: TaskName, caller: Caller, name: str, path: str, data: bytes) -> HandedInFile:
        """Take in a file of an output. Another one of the same name and path takes its place.

        Raises UsageError when it may not be handed in, or comes too late.
        """
        job = await self.find_job(task, caller)
        self._require_allowed(job, name, path, data)
        sha256 = await (await self._deps.stores.blobs(job.board)).put(data)
        at, store = self._deps.stamp(), await self._deps.stores.board(job.board)

        def work(tx: Tx) -> None:
            rows = read_open_attempt(tx, task, caller, job)
            others = [row for row in rows if row.kind == "artifact" and (row.name, row.path) != (name, path)]
            if (
                len(others) >= MOST_FILES
                or sum(row.size for row in others) + len(data) > self._deps.limits.payload_bytes
            ):
                raise UsageError(Code.FILE_TOO_LARGE, "this is more than an attempt may hand in", hint="hand in less")
            hand_in(tx, job, "artifact", name=name, path=path, sha256=sha256, size=len(data), at=at)

        await store.transact(work)
        return {"output": name, "path": path, "sha256": sha256, "size": len(data)}

    def _require_allowed(self, job: Job, name: str, path: str, data: bytes) -> None:
        if name not in job.outputs:
            known = ", ".join(job.outputs[:50]) or "none"
            raise UsageError(Code.NAME_UNKNOWN, f"the task has no output {name[:80]!r}", hint=f"its outputs: {known}")
        if not _is_inside(path):
            raise UsageError(Code.PATH_OUTSIDE_FOLDER, f"{path[:200]!r} is not a path inside an output")
        found = self._deps.secret_guard.secrets.find_name(data) if self._deps.secret_guard.secrets else None
        if found:
            hint = "hand it over without the secret"
            raise UsageError(Code.SECRET_EXPOSED, f"{path!r} holds the value of {found}, so it is not taken", hint=hint)

    async def finish(self, task: TaskName, caller: Caller, said: Mapping[str, Any]) -> HandedInResult:
        """Take in the result of an attempt, which ends it. Handing in the same result again is allowed.

        Raises UsageError when it comes too late, ConflictError when another was handed in before.
        """
        job = await self.find_job(task, caller)
        data = wire.write(self._deps.secret_guard.secrets.redact_json(dict(said)))
        sha256, at = wire.sha256(data), self._deps.stamp()
        store = await self._deps.stores.board(job.board)

        def work(tx: Tx) -> None:
            rows = read_open_attempt(tx, task, caller, job, again=sha256)
            if not any(row.kind == "result" for row in rows):
                hand_in(tx, job, "result", sha256=sha256, size=len(data), body=data, at=at)

        await store.transact(work)
        offer = self.offers.find(task)
        if offer is not None and offer.job is job:
            offer.ended.set()
        return {"task": _name(job), "epoch": job.epoch, "sha256": sha256}


def _taken_body(job: Job, worker: str) -> dict[str, object]:
    body: dict[str, object] = {"lease": job.lease, "epoch": job.epoch}
    return {**body, "worker": worker} if worker else body


def _is_inside(path: str) -> bool:
    """Whether a path can be that of a file inside an output."""
    try:
        return root_layout.is_safe_payload(_PATH.validate_python(path))
    except ValidationError:
        return False


def read_open_attempt(tx: Tx, task: TaskName, caller: Caller, job: Job, *, again: str = "") -> list[HandedInRow]:
    """Read what was handed in so far. Raises UsageError or ConflictError when nothing more is accepted."""
    task_comments.require_current_attempt(tx, task, caller)
    rows = tx.run(HANDED_IN, **about_attempt(job))
    kinds = {row.kind: row for row in rows}
    if "lost" in kinds or "claim" not in kinds:
        raise UsageError(Code.LEASE_LOST, f"attempt {job.epoch} does not have {task.subject} any more")
    if "result" in kinds and kinds["result"].sha256 != again:
        hint = "a result ends the attempt; what comes behind it does not count"
        raise ConflictError(Code.STORE_CONFLICT, f"the result of {task.subject} was handed in already", hint=hint)
    return rows


def hand_in(
    tx: Tx,
    job: Job,
    kind: str,
    *,
    at: str,
    name: str = "",
    path: str = "",
    sha256: str = "",
    size: int = 0,
    body: bytes = b"",
) -> None:
    """Write something that was handed in for an attempt. The same kind, name and path again replaces it."""
    tx.run(HAND_IN, **about_attempt(job), kind=kind, name=name, path=path, sha256=sha256, size=size, body=body, at=at)


def about_attempt(job: Job) -> dict[str, str | int]:
    """Name an attempt, as the statements do."""
    return {"plan_id": job.plan_id, "task_id": job.task_id, "epoch": job.epoch}


def address_of(job: Job) -> RemoteRepositoryAddress | None:
    """Return where the repository of an attempt is fetched and handed in; None if it has none."""
    if job.base is None:
        return None
    task = f"/api/projects/{job.board}/tasks/{job.plan_id}:{job.task_id}"
    return {
        "fetch": f"{task}/repository/{job.epoch}.git",
        "ref": f"refs/heads/agenttalk/{job.plan_id}",
        "commit": job.base.start,
        "submit": f"{task}/repository/{job.epoch}/tree",
    }


def _submitted(job: Job, rows: list[HandedInRow]) -> SubmittedWork | None:
    """Return what was handed in of the repository. Without a pack the agent changed nothing there."""
    if job.base is None:
        return None
    packs = [row.sha256 for row in rows if row.kind == "tree"]
    return SubmittedWork(job.base.start, job.base.onto, "".join(packs))


def _name(job: Job) -> str:
    return f"{job.plan_id}/{job.task_id}"
