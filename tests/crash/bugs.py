"""Bugs that are planted to see that they are found. Each changes the product in a process that was forked for it."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.proving.candidates import CandidateProver
from agenttalk.adapters.store import queries, writer
from agenttalk.adapters.store.worker import WorkItem, settle
from agenttalk.adapters.workspaces.branch import PlanBranch
from agenttalk.contracts.core import root_layout
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.records import JournalMessage
from agenttalk.engine.inbox import conclusion, current_turn
from agenttalk.engine.inbox import turn as inbox_turn
from agenttalk.engine.inbox.ready_commands import ReadyCommand
from agenttalk.engine.inbox.turn import TurnSetting
from agenttalk.engine.messages import admission
from agenttalk.engine.messages.admission import AdmissionOutcome
from agenttalk.engine.messages.incoming_file import IncomingFile
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.proof import regressions
from agenttalk.engine.proof import release as proof_release
from agenttalk.engine.proof.plan_closer import PlanCloser
from agenttalk.engine.runs import leases, resume
from agenttalk.engine.runs.attempt import AttemptBuilder
from agenttalk.engine.runs.steps import StepWriter
from agenttalk.engine.toolchain.forge_posts import ForgePoster
from agenttalk.ports.agents import ProgramTurn, TurnEnd
from agenttalk.ports.statements.plans import SET_PHASE
from agenttalk.ports.storage import Tx
from agenttalk.rules.core.task_states import State
from crash.snapshot import LOG


def plant(name: str) -> None:
    """Plant a bug in this process; none for an empty name."""
    if name:
        BUGS[name]()


def _acknowledge_before_commit() -> None:
    """The writer answers whoever waits, and then commits."""
    real = writer.DatabaseWriter._sync
    mine: dict[writer.DatabaseWriter, list[WorkItem[writer.Work]]] = {}
    run = writer.DatabaseWriter._run_works

    def run_works(self: writer.DatabaseWriter, batch: writer.WriteBatch, jobs: list[WorkItem[writer.Work]]) -> None:
        mine[self] = jobs
        run(self, batch, jobs)

    def sync(self: writer.DatabaseWriter, batch: writer.WriteBatch) -> None:
        jobs = mine.pop(self, [])
        settle(jobs)
        for loop in {job.future.get_loop() for job in jobs if job.future is not None}:
            _let_it_hear(loop)
        real(self, batch)

    _replace(writer.DatabaseWriter, _run_works=run_works, _sync=sync)


def _let_it_hear(loop: asyncio.AbstractEventLoop) -> None:
    """Wait until those whom a loop has told have gone on as far as they can."""
    heard = threading.Event()

    async def rounds() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        heard.set()

    asyncio.run_coroutine_threadsafe(rounds(), loop)
    heard.wait(10)


def _start_before_commit() -> None:
    """A program runs, and then it is recorded that it is about to."""

    async def take_turn(
        seat: AgentInPlan, setting: TurnSetting, ready: ReadyCommand, attempt: AttemptBuilder
    ) -> State | None:
        inputs = await inbox_turn.read_inputs(seat, ready)
        attempt.inputs = inputs.files
        granted = inbox_turn._lease_to(attempt, ready.order, attempt.render_prompt())
        performance = await inbox_turn.run_job(seat, setting.runner, granted)
        await seat.store.transact(lambda tx: inbox_turn._inject(tx, seat, ready.order, granted, inputs))
        return await conclusion.conclude(seat, ready.order, granted, performance)

    _replace(current_turn, take_turn=take_turn)


def _deliver_before_commit() -> None:
    """A message is put into inboxes, and then it is accepted."""
    real = admission._send

    def send(
        tx: Tx, arrival: IncomingFile, letter: JournalMessage, message: int, targets: tuple[str, ...], *rest: Any
    ) -> AdmissionOutcome:
        deps: Deps = rest[1]
        for receiver in targets:
            box = root_layout.box_folder(receiver, "inbox", letter.plan_id)
            deps.root.write(f"{box}/{arrival.found.name}", arrival.data, parents=True)
        return real(tx, arrival, letter, message, targets, *rest)

    _replace(admission, _send=send)


def _no_epoch_check() -> None:
    """A turn that once had a lease still has it."""
    _drop_epoch_check("end_turn")
    _drop_epoch_check("holds_lease")


def _drop_epoch_check(name: str) -> None:
    for statements in (queries.load_statements("sqlite"), queries.load_silent_statements("sqlite")):
        statement = statements[name].replace(" AND epoch = :epoch AND lease = :lease", "")
        if statement == statements[name]:
            raise RuntimeError(f"{name} checks nothing")
        statements[name] = statement


def _turn_before_commit() -> None:
    """A turn begins, and then it is recorded that the one before it has ended and that it has its lease."""
    real_step, real_begin, real_grant = StepWriter.run, StepWriter.begin, leases.lease_next_tasks
    early: dict[int, Callable[[LeasedAttempt], None]] = {}
    begun: set[str] = set()

    async def step(
        self: StepWriter, board: Any, do: Callable[[Any], Any], *, after: Sequence[LeasedAttempt] = ()
    ) -> Any:
        loop, log = asyncio.get_running_loop(), self._state.deps.root.path / LOG

        def begin(granted: LeasedAttempt) -> None:
            begun.add(granted.job.lease)
            before = _length(log)
            loop.call_soon_threadsafe(real_begin, self, board, granted)
            _wait_until(lambda: _length(log) > before)

        def work(moves: Any) -> Any:
            if after:
                early[id(moves)] = begin
            return do(moves)

        return await real_step(self, board, work, after=after)

    def grant(moves: Any, desk: Any, agents: Any) -> list[LeasedAttempt]:
        granted = real_grant(moves, desk, agents)
        begin = early.pop(id(moves), None)
        for each in granted if begin else ():
            begin(each)  # type: ignore[misc]
        return granted

    def begin_once(self: StepWriter, board: Any, granted: LeasedAttempt) -> None:
        if granted.job.lease not in begun:
            real_begin(self, board, granted)

    _replace(StepWriter, run=step, begin=begin_once)
    _replace(leases, lease_next_tasks=grant)


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.002)


def _no_check_at_the_end_of_a_turn() -> None:
    """A process that once had a task ends its turn."""
    _drop_epoch_check("end_turn")


def _process_without_keeper() -> None:
    """With each program another one starts that nobody owns."""
    real = ScriptDriver.run

    def start(cwd: Path) -> None:
        subprocess.Popen(["sleep", "60"], cwd=cwd, env={}, stdout=subprocess.DEVNULL, start_new_session=True)

    async def run(self: ScriptDriver, turn: ProgramTurn) -> TurnEnd:
        start(turn.cwd)
        return await real(self, turn)

    _replace(ScriptDriver, run=run)


def _verify_what_is_not_kept() -> None:
    """Verifying begins, and nothing is written down of what is verified."""
    _replace(
        resume,
        keep_performance=lambda tx, job, _: tx.run(SET_PHASE, **_about(job), lease=job.lease, phase="verifying"),
    )


def _about(job: Any) -> dict[str, str]:
    return {"plan_id": job.plan_id, "task_id": job.task_id}


def _join_after_commit() -> None:
    """Whoever broke a check is sent back, and then it is recorded that it has to keep the check."""
    real_join, real_look = regressions._join, PlanCloser._try_to_end
    late: list[tuple[Any, ...]] = []

    async def look_once(self: PlanCloser) -> bool:
        more = await real_look(self)
        while late:
            await self.step(partial(_later, real_join, late.pop()))
        return more

    _replace(regressions, _join=lambda _, *about: late.append(about))
    _replace(PlanCloser, _try_to_end=look_once)


def _later(do: Callable[..., None], about: tuple[Any, ...], moves: Any) -> None:
    do(moves, *about)


def _replace(where: Any, **new: Any) -> None:
    for name, value in new.items():
        assert hasattr(where, name), name
        setattr(where, name, value)


def _archive_after_the_decision() -> None:
    """What is shipped is archived only once the decision is committed."""
    left: list[tuple[Any, ...]] = []
    real, archive = proof_release.decide_release, proof_release._archive

    async def release(deps: Deps, store: Any, plan_id: str, prover: Any, **more: Any) -> Any:
        found = await real(deps, store, plan_id, prover, **more)
        while left:
            await store.transact(lambda tx: archive(tx, *left.pop()))
        return found

    _replace(proof_release, decide_release=release, _archive=lambda _, *rest: left.append(rest))


def _post_without_looking() -> None:
    """What was begun before is posted again without a look whether it is there."""

    async def found(*_: object) -> None:
        return None

    _replace(ForgePoster, _find_earlier_post=found)


def _branch_before_commit() -> None:
    """The branch moves, and then it is recorded that the work is done."""
    real = CandidateProver._advance

    async def advance(self: CandidateProver, work: Any, *rest: Any) -> Any:
        async def land(proof: Any) -> bool:
            await work.space.follow(proof.move.after, at=self._clock.now())
            return bool(await work.land(proof))

        return await real(self, replace(work, land=land), *rest)

    _replace(CandidateProver, _advance=advance)


def _branch_that_does_not_follow() -> None:
    """The tip moves, and the branch stays where it is."""
    _replace(PlanBranch, follow=lambda _, tip, __: tip)


BUGS: dict[str, Callable[[], None]] = {
    "acknowledgement before commit": _acknowledge_before_commit,
    "effect before commit": _start_before_commit,
    "delivery before commit": _deliver_before_commit,
    "no epoch check": _no_epoch_check,
    "turn before commit": _turn_before_commit,
    "no check at the end of a turn": _no_check_at_the_end_of_a_turn,
    "process without keeper": _process_without_keeper,
    "archive after the decision": _archive_after_the_decision,
    "verifying what is not kept": _verify_what_is_not_kept,
    "joined after commit": _join_after_commit,
    "posted without looking": _post_without_looking,
    "branch before commit": _branch_before_commit,
    "branch that does not follow": _branch_that_does_not_follow,
}
