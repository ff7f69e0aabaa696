"""Checks that verifiers make: who gets which, what they answer, and what follows when one is silent or lies.

A lease is a check at one verifier, under an id that is never used again. It stands in memory alone: the next engine has
checks without a result made again, and what comes under an old lease does not count.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from agenttalk.contracts.core.base import parse_instant
from agenttalk.contracts.worker import CheckReport, DesiredCheck, Verification, WorkerFacts
from agenttalk.engine.core.boards import SYSTEM
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.fleet import verifier_trials
from agenttalk.engine.fleet.verifier_trials import VerifierTrials
from agenttalk.engine.fleet.workers import Workers
from agenttalk.ports.statements.fleet import ADD_VERIFICATION, MACHINES_OF_AGENT, MACHINES_OF_AGENTS, WorkerRow
from agenttalk.ports.storage import Tx
from agenttalk.ports.verification import CheckRequest, CheckSource
from agenttalk.rules.core.task_states import TurnEnding
from agenttalk.rules.fleet.assignment import (
    NOWHERE,
    MachineStart,
    WorkerNeeds,
    WorkerStanding,
    find_near_matches,
    pick_offers,
)
from agenttalk.rules.fleet.liveness import LeaseTiming
from agenttalk.rules.fleet.verification import make_statement, read_result, review_result, settle_double
from agenttalk.rules.fleet.waiting import explain_wait
from agenttalk.rules.proof.evidence import CheckResult, VerifierSeal
from agenttalk.rules.text import check_words, turn_words

MOST_FAULTS: Final = 3
"""How many verifiers may say that they cannot make a check, until it counts as one that could not run."""
_FAILED: Final[TurnEnding] = "not_started"


@dataclass(slots=True)
class CheckLease:
    """A check that waits for a verifier, or is at one."""

    request: CheckRequest
    needs: WorkerNeeds
    id: str = ""
    worker: str = ""
    """The verifier that has it; empty while none has it."""
    place: MachineStart = NOWHERE
    """The machine of that verifier."""
    heard: float = 0.0
    """When that verifier was heard of last, by the clock of the loop."""
    faults: list[str] = field(default_factory=list)
    """Why verifiers could not make it."""
    trial: bool | None = None
    """How it has to end, where the engine knows that: then it tries its verifier."""
    only: str = ""
    """The verifier that it tries."""
    since: str = ""
    """When it was given to its verifier."""
    answer: asyncio.Future[CheckResult] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class CheckLeases:
    """Gives checks to verifiers. One loop uses it. Implements `Verifiers`."""

    def __init__(self, deps: Deps, own: MachineStart) -> None:
        """`own` is the engine's machine, where agents run that no worker has."""
        self._deps = deps
        self._own = own
        self._workers = Workers(deps)
        self._timing = LeaseTiming(deps.limits.worker_ttl_seconds)
        self._open: list[CheckLease] = []
        """In the order in which they came."""
        self._trials = VerifierTrials(deps)
        self._news = asyncio.Event()

    @property
    def news(self) -> asyncio.Event:
        """An event that is set when a verifier may have to do something else."""
        return self._news

    def wake(self) -> None:
        """Set the event, and begin a new one."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def verify(self, request: CheckRequest) -> CheckResult:
        """Have a check made; see the port. Two verifiers make it where the operator wants that."""
        first = await self._obtain(request, ())
        if not self._deps.verify.double or not first.seals:
            return first
        row = await self._workers.find(first.seals[0].worker)
        facts = WorkerFacts.model_validate_json(bytes(row.facts)) if row is not None else None
        place = MachineStart(first.seals[0].machine, facts.start if facts is not None else "")
        second = await self._obtain(request, ((first.seals[0].public_key, place),))
        return settle_double(first, second)

    async def _obtain(self, request: CheckRequest, answered: tuple[tuple[str, MachineStart], ...]) -> CheckResult:
        """Wait until a verifier has made a check. One that is lost is given to another."""
        needs = await self._find_needs(request, answered)
        lease = CheckLease(request, needs)
        self._open.append(lease)
        request.waits()
        self.wake()
        loop = asyncio.get_running_loop()
        try:
            while not lease.answer.done():
                left = lease.heard + self._timing.lost - loop.time() if lease.worker else None
                if left is not None and left <= 0:
                    self._release(lease)
                    left = None
                with suppress(TimeoutError):
                    # It looks again often enough to notice that its verifier has fallen silent.
                    await asyncio.wait_for(
                        asyncio.shield(lease.answer), min(left or self._timing.renew, self._timing.renew)
                    )
            return lease.answer.result()
        finally:
            self._open.remove(lease)
            self.wake()

    async def _find_needs(
        self, request: CheckRequest, answered: tuple[tuple[str, MachineStart], ...] = ()
    ) -> WorkerNeeds:
        subject, order = request.subject, request.order
        system = await self._deps.stores.board(SYSTEM)
        if subject.agent_id:
            rows = await system.read(MACHINES_OF_AGENT, agent_id=subject.agent_id)
        else:  # what is shipped is the work of any agent
            rows = await system.read(MACHINES_OF_AGENTS)
        avoided = {MachineStart(*row) for row in rows} | (set() if subject.is_elsewhere else {self._own})
        return WorkerNeeds(
            self._deps.verify.pool,
            tier=order.sandbox,
            isolated=order.ground.required or order.isolation == "required",
            role="verifier",
            avoided=frozenset(avoided),
            answered=answered,
        )

    def _release(self, lease: CheckLease) -> None:
        """Take a check from its verifier. A later result of it does not count."""
        lease.id, lease.worker = "", ""
        lease.request.waits()
        self.wake()

    def avoid(self, agent_id: str, place: MachineStart) -> None:
        """Keep the checks of an agent's work from a machine on which that agent begins to run."""
        for lease in self._open:
            if lease.trial is None and lease.request.subject.agent_id in {agent_id, ""}:
                lease.needs = replace(lease.needs, avoided=lease.needs.avoided | {place})
                if lease.worker and lease.place.is_shared_with(place):
                    self._release(lease)

    def find_source(self, worker: str, lease_id: str) -> CheckSource | None:
        """Find what serves a check to the verifier that has it; None if it has no such check."""
        lease = self._find(worker, lease_id)
        return lease.request.source if lease is not None else None

    def _find(self, worker: str, lease_id: str) -> CheckLease | None:
        found = (each for each in self._open if each.id == lease_id and each.worker == worker)
        return next(found, None) if lease_id else None

    async def take_reports(self, row: WorkerRow, reports: Sequence[CheckReport]) -> None:
        """Take what a verifier tells of its checks. What it does not have does not count."""
        now = asyncio.get_running_loop().time()
        for each in self._open:
            if each.worker == row.id:
                each.heard = now
        for report in reports:
            lease = self._find(row.id, report.lease)
            if lease is None or lease.answer.done():
                continue
            if report.done is not None:
                lease.request.count(report.done, report.total)
            if report.fault:
                await self._take_fault(lease, row, report.fault[:500])
            elif report.verification is not None:
                await self._take_verification(lease, row, report.verification)

    async def _take_fault(self, lease: CheckLease, row: WorkerRow, why: str) -> None:
        await self._workers.count_ending(row.id, _FAILED)
        lease.faults.append(why)
        if lease.trial is None and len(lease.faults) >= MOST_FAULTS:
            detail = check_words.NO_VERIFICATION(why=lease.faults[-1])
            lease.answer.set_result(replace(lease.request.about, passed=False, reason="not_started", detail=detail))
        elif lease.trial is None:
            self._release(lease)
        else:
            self._open.remove(lease)

    async def _take_verification(self, lease: CheckLease, row: WorkerRow, said: Verification) -> None:
        """Take a signed result. One whose signature or machine is not the verifier's has it put into quarantine."""
        statement = make_statement(lease.id, row.id, lease.request.order, said)
        facts = WorkerFacts.model_validate_json(bytes(row.facts))
        signature = _decode(said.signature)
        is_own = signature is not None and self._deps.is_signed(row.public_key, statement, signature)
        if not is_own or said.machine != facts.machine:
            await self._distrust(row, str(turn_words.VERIFIER_FORGES()))
            return
        if lease.trial is not None:
            self._open.remove(lease)
            if verifier_trials.is_right(said.result, passes=lease.trial):
                if not self._has_trial(row.id):
                    await self._trials.accept(row.id, lease.since)
            else:
                found = "passed" if said.result.passed else said.result.reason
                await self._distrust(row, str(turn_words.VERIFIER_LIES(found=found)))
            self.wake()
            return
        seal = VerifierSeal(
            row.id, row.name, said.machine, said.sandbox, row.public_key, _encode(statement), said.signature
        )
        request, order = lease.request, lease.request.order
        result = replace(
            read_result(request.about, said.result),
            started=parse_instant(lease.since),
            ended=self._deps.now(),
            by=f"verifier {row.name}",
            seals=(seal,),
        )
        required = order.ground.required or order.isolation == "required"
        result = review_result(order.check, result, request.base, isolated_only=required)
        held = lease.id
        await self._keep(lease, row)
        await self._workers.count_ending(row.id, "finished")
        if self._find(row.id, held) is lease and not lease.answer.done():  # it may have been taken away meanwhile
            lease.answer.set_result(result)

    async def _keep(self, lease: CheckLease, row: WorkerRow) -> None:
        """Write that a verifier made a check, before its result counts: if it turns out to lie, that is known."""
        subject, system = lease.request.subject, await self._deps.stores.board(SYSTEM)
        about = {
            "lease": lease.id,
            "worker": row.id,
            "of_board": subject.board,
            "plan_id": subject.plan_id,
            "task_id": subject.task_id,
            "check_id": lease.request.about.id,
            "key": lease.request.key,
            "at": self._deps.stamp(),
        }

        def work(tx: Tx) -> None:
            tx.run(ADD_VERIFICATION, **about)

        await system.transact(work)

    async def _distrust(self, row: WorkerRow, why: str) -> None:
        """Give a verifier nothing more. What it found since it was last tried does not count any more."""
        for each in [each for each in self._open if each.worker == row.id]:
            if each.trial is None:
                self._release(each)
            else:
                self._open.remove(each)
        await verifier_trials.distrust(self._deps, self._workers, row, why)
        self.wake()

    async def decide(
        self, row: WorkerRow, standing: WorkerStanding, reports: Sequence[CheckReport]
    ) -> list[DesiredCheck]:
        """Decide which checks a verifier has. `standing` says how many it may have."""
        listed = {report.lease for report in reports}
        own = [each for each in self._open if each.worker == row.id and not each.answer.done()]
        able = standing.state == "active" and not standing.paused
        for each in own:
            if each.id not in listed and not able:  # it never got it
                self._release(each)
        own = [each for each in own if each.worker == row.id]
        own += self._assign(row, replace(standing, free=standing.free - len(own)))
        return [DesiredCheck(lease=each.id, order=None if each.id in listed else each.request.order) for each in own]

    def _assign(self, row: WorkerRow, standing: WorkerStanding) -> list[CheckLease]:
        waiting = [each for each in self._open if not each.worker and not each.only and not each.answer.done()]
        picked = [waiting[place] for place in pick_offers([each.needs for each in waiting], standing)]
        if _is_able(standing) and not self._has_trial(row.id):
            self._open += [
                CheckLease(request, WorkerNeeds(row.pool, role="verifier"), trial=passes, only=row.id)
                for request, passes in self._trials.draw(row.id, is_busy=bool(picked))
            ]
        if self._has_trial(row.id):  # it gets work once it has answered what the engine knows
            picked = [each for each in self._open if each.only == row.id and not each.worker][: max(0, standing.free)]
            picked = picked if _is_able(standing) else []
        for lease in picked:
            lease.id, lease.worker, lease.place = self._deps.ids.new("check"), row.id, standing.started
            lease.heard, lease.since = asyncio.get_running_loop().time(), self._deps.stamp()
            lease.request.begins()
        return picked

    def _has_trial(self, worker: str) -> bool:
        return any(each.only == worker for each in self._open)

    async def explain(self, plan_id: str, task_id: str, judge: Callable[[WorkerRow], WorkerStanding]) -> str:
        """Say why a task waits for a verifier; empty if none of its checks does."""
        waiting = [
            each
            for each in self._open
            if not each.worker and (each.request.subject.plan_id, each.request.subject.task_id) == (plan_id, task_id)
        ]
        if not waiting:
            return ""
        workers = [judge(row) for row in await self._workers.list_all()]
        return explain_wait(waiting[0].needs, find_near_matches(waiting[0].needs, workers))


def _is_able(standing: WorkerStanding) -> bool:
    return standing.state == "active" and not standing.paused and standing.liveness == "online"


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
