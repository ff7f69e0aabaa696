"""The workers of an engine in its store: invited, enrolled, drained, quarantined, removed; and their pools."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import format_instant
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.worker import (
    PROTOCOL,
    Enrolled,
    Enrolment,
    Invitation,
    WorkerFacts,
    WorkerRole,
    WorkerState,
)
from agenttalk.engine.core import records
from agenttalk.engine.core.boards import SYSTEM
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.agents import Job
from agenttalk.ports.statements.fleet import (
    ADD_INVITATION,
    ADD_MACHINE_AGENT,
    ADD_POOL,
    ADD_WORKER,
    DROP_INVITATIONS,
    MACHINES_OF_AGENT,
    PAUSE_POOL,
    PAUSED_POOLS,
    POOL_ROLE,
    SET_WORKER_FACTS,
    SET_WORKER_STATE,
    TAKE_INVITATION,
    WORKER,
    WORKERS,
    MachineRow,
    WorkerRow,
)
from agenttalk.ports.storage import Tx
from agenttalk.rules.core.task_states import TurnEnding
from agenttalk.rules.core.tokens import token_hash
from agenttalk.rules.core.worker_tokens import worker_id
from agenttalk.rules.fleet.assignment import MachineStart, WorkerStanding, find_near_matches, needs_of
from agenttalk.rules.fleet.liveness import LeaseTiming, Liveness, judge_contact
from agenttalk.rules.fleet.quarantine import count_failures, is_quarantined
from agenttalk.rules.fleet.waiting import explain_wait
from agenttalk.rules.text import turn_words

INVITED_FOR: Final = timedelta(minutes=15)
"""How long an invitation is good."""
_SHOWN: Final = 12


class Workers:
    """Reads and writes what the store knows of workers."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def invite(
        self, token: str, pool: str, labels: Sequence[str], *, by: str, role: WorkerRole = "agents"
    ) -> Invitation:
        """Accept a token with which one worker can enrol in a pool.

        Raises UsageError when the workers of the pool have another role.
        """
        system, now = await self._deps.stores.board(SYSTEM), self._deps.now()
        at, until = format_instant(now), format_instant(now + INVITED_FOR)
        made = Invitation(id=token_hash(token)[:_SHOWN], pool=pool, labels=tuple(labels), role=role, expires_at=until)

        def work(tx: Tx) -> None:
            tx.run(DROP_INVITATIONS, at=at)
            tx.run(ADD_POOL, pool=pool, role=role)
            [known] = tx.run(POOL_ROLE, pool=pool)
            if known.role != role:
                hint = "take another pool: agents and those who check their work are kept apart"
                raise UsageError(Code.OPTION_INVALID, f"the pool {pool!r} has the role {known.role!r}", hint=hint)
            told = wire.to_text(list(labels))
            tx.run(ADD_INVITATION, hash=token_hash(token), pool=pool, labels=told, role=role, at=at, expires_at=until)
            about = {"invitation": made.id, "labels": list(labels), "role": role, "by": by}
            tx.record("worker.invited", f"pools/{pool}", about)

        await system.transact(work)
        return made

    async def enrol(self, token: str, enrolment: Enrolment) -> Enrolled:
        """Enrol a worker. The same worker with the same token again changes nothing.

        Raises UsageError when the token is unknown, too old, or was used by another worker.
        """
        require_protocol(enrolment.protocol)
        system, at = await self._deps.stores.board(SYSTEM), self._deps.stamp()
        own = worker_id(enrolment.public_key)
        about = {"id": own, "name": enrolment.name, "public_key": enrolment.public_key, "at": at}

        def work(tx: Tx) -> Enrolled:
            rows = tx.run(TAKE_INVITATION, hash=token_hash(token), at=at, worker=own)
            if not rows:
                hint = "make a new one with 'agenttalk worker invite'"
                raise UsageError(Code.TOKEN_REFUSED, "this invitation is used, too old or unknown", hint=hint)
            pool, labels, role = rows[0]
            if not tx.run(WORKER, id=own):
                facts = wire.write(enrolment.facts.as_json())
                tx.run(ADD_WORKER, **about, pool=pool, labels=labels, role=role, facts=facts)
                tx.record("worker.enrolled", f"workers/{own}", {"name": enrolment.name, "pool": pool, "role": role})
            return Enrolled(worker=own, pool=pool, labels=tuple(read_labels(labels)), role=role, time=at)

        return await system.transact(work)

    async def find(self, worker: str) -> WorkerRow | None:
        """Find a worker by its id; None if there is none, or it was removed."""
        rows = await (await self._deps.stores.board(SYSTEM)).read(WORKER, id=worker)
        return rows[0] if rows and rows[0].state != "removed" else None

    async def list_all(self) -> list[WorkerRow]:
        """List the workers that were not removed."""
        return await (await self._deps.stores.board(SYSTEM)).read(WORKERS)

    async def list_paused_pools(self) -> frozenset[str]:
        """List the pools that are paused."""
        return frozenset(row.pool for row in await (await self._deps.stores.board(SYSTEM)).read(PAUSED_POOLS))

    async def keep_facts(self, row: WorkerRow, facts: WorkerFacts) -> None:
        """Keep the facts of a worker, if they have changed."""
        body = wire.write(facts.as_json())
        if body != bytes(row.facts):
            system = await self._deps.stores.board(SYSTEM)
            await system.transact(lambda tx: tx.run(SET_WORKER_FACTS, id=row.id, facts=body))

    async def keep_place(self, row: WorkerRow, agent_id: str) -> MachineStart:
        """Keep that an agent runs on the machine of a worker, before it does: no verifier there checks its work."""
        facts = WorkerFacts.model_validate_json(bytes(row.facts))
        place = MachineRow(facts.machine, facts.start)
        system = await self._deps.stores.board(SYSTEM)
        if place not in await system.read(MACHINES_OF_AGENT, agent_id=agent_id):
            about = {"agent_id": agent_id, "machine": place.machine, "start": place.start, "at": self._deps.stamp()}
            await system.transact(lambda tx: tx.run(ADD_MACHINE_AGENT, **about))
        return MachineStart(*place)

    async def set_state(self, name: str, state: WorkerState, *, by: str, reason: str = "") -> WorkerRow:
        """Change the state of the worker that has this name or id, and forget its failures.

        Raises UsageError when no worker, or more than one, has that name.
        """
        named = [row for row in await self.list_all() if name in {row.id, row.name}]
        if len(named) != 1:
            known = ", ".join(f"{row.name} ({row.id})" for row in named) or "'agenttalk worker list' lists them"
            message = f"{len(named)} workers are called {name[:80]!r}" if named else f"there is no worker {name[:80]!r}"
            raise UsageError(Code.NAME_UNKNOWN, message, hint=known)
        await self._write_state(named[0].id, state, 0, reason, by)
        return named[0]._replace(state=state, failures=0, reason=reason)

    async def count_ending(self, worker: str, how: TurnEnding) -> None:
        """Count how an attempt of a worker ended. One that fails by itself again and again is quarantined."""
        row = await self.find(worker)
        if row is None or (failures := count_failures(row.failures, how)) == row.failures:
            return
        state, reason = row.state, row.reason
        if is_quarantined(failures) and state == "active":
            state, reason = "quarantined", str(turn_words.WORKER_FAILS(count=failures))
        await self._write_state(row.id, state, failures, reason, "engine", changed=state != row.state)

    async def pause_pool(self, pool: str, *, paused: bool, by: str) -> None:
        """Pause a pool, or let it go on. What its workers have goes on in any case."""
        system = await self._deps.stores.board(SYSTEM)

        def work(tx: Tx) -> None:
            tx.run(PAUSE_POOL, pool=pool, paused=int(paused))
            tx.record("pool.paused" if paused else "pool.resumed", f"pools/{pool}", {"by": by})

        await system.transact(work)

    async def _write_state(
        self, worker: str, state: WorkerState, failures: int, reason: str, by: str, *, changed: bool = True
    ) -> None:
        system = await self._deps.stores.board(SYSTEM)

        def work(tx: Tx) -> None:
            tx.run(SET_WORKER_STATE, id=worker, state=state, failures=failures, reason=reason)
            if changed:
                tx.record(f"worker.{state}", f"workers/{worker}", {"by": by, "reason": reason})

        await system.transact(work)


async def explain_waiting(deps: Deps, profile: AgentProfile) -> str:
    """Say why a task of an agent waits for a worker, as far as the store knows; empty if it needs none."""
    needs = needs_of(profile)
    if needs is None:
        return ""
    workers = Workers(deps)
    paused = await workers.list_paused_pools()
    # A process that has not heard of any worker knows nothing of them: it has just started, or it is not the engine.
    judge = partial(judge_standing, deps) if deps.worker_contacts else to_standing
    standings = [judge(row, paused) for row in await workers.list_all()]
    return explain_wait(needs, find_near_matches(needs, standings))


def judge_standing(deps: Deps, row: WorkerRow, paused: Collection[str]) -> WorkerStanding:
    """Return a worker as the choice of tasks sees it, by its row and by what this process heard of it."""
    now, contact = asyncio.get_running_loop().time(), deps.worker_contacts.get(row.id)
    liveness = judge_contact(contact, now, LeaseTiming(deps.limits.worker_ttl_seconds))
    if contact is None:
        return to_standing(row, paused, liveness=liveness)
    return to_standing(row, paused, liveness=liveness, free=contact.free, drains=contact.is_draining)


async def alert_waiting(deps: Deps, job: Job) -> None:
    """Alert people to a task that no worker has taken for so long. Once for each lease."""
    why = await explain_waiting(deps, job.profile)
    board, at = await deps.stores.board(job.board), deps.stamp()

    def work(tx: Tx) -> None:
        records.alert(
            tx,
            at=at,
            plan_id=job.plan_id,
            code=Code.WORKER_MISSING,
            message=f"no worker has taken task {job.task_id!r} yet: {why}",
            key=job.lease,
            severity="WARNING",
            source=records.RecordSource(job.agent_id, job.task_id, job.command.command_id),
        )

    await board.transact(work)


def to_standing(
    row: WorkerRow, paused: Collection[str], *, liveness: Liveness = "online", free: int = 1, drains: bool = False
) -> WorkerStanding:
    """Return a worker as the choice of tasks sees it."""
    facts = WorkerFacts.model_validate_json(bytes(row.facts))
    return WorkerStanding(
        row.id,
        row.name,
        row.pool,
        frozenset(read_labels(row.labels)),
        frozenset(facts.drivers),
        frozenset(facts.programs),
        frozenset(facts.sandboxes),
        "draining" if drains and row.state == "active" else row.state,
        liveness,
        row.pool in paused,
        free,
        row.role,
        row.public_key,
        MachineStart(facts.machine, facts.start),
    )


def read_labels(text: str) -> list[str]:
    """Read the labels of a row."""
    found: Any = wire.read(text.encode())
    return [str(each) for each in found]


def require_protocol(version: int) -> None:
    """Raise UsageError for a version of the protocol that this release does not speak."""
    if not PROTOCOL - 1 <= version <= PROTOCOL:
        message = f"the worker speaks version {version} of the protocol, and this engine {PROTOCOL}"
        raise UsageError(Code.OPTION_INVALID, message, hint="install the release of the engine on the worker's machine")
