"""Turns forge events into tasks on the board `_toolchain`.

One transaction reads what is known about the things of an event, decides what follows and writes it. Processing an
event again changes nothing: keys, sightings and held failures depend on the event, not on the delivery that brought it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from itertools import count
from typing import Any, Final, Literal

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import format_instant
from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.forge import ForgeEvent, Sighting
from agenttalk.contracts.plan import Policies
from agenttalk.contracts.toolchain import ProposedTask
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import toolchain_questions
from agenttalk.engine.plans import board_run
from agenttalk.engine.plans.definition import DefinitionCache
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.toolchain import forge_names
from agenttalk.ports.kinds import KindTask
from agenttalk.ports.statements.messages import TASK
from agenttalk.ports.statements.toolchain import (
    ADD_TOOLCHAIN_TASK,
    DROP_OLD_FAILURES,
    HELD_FAILURES_OF,
    HOLD_FAILURE,
    PUT_SIGHTING,
    SIGHTING,
    SIGHTINGS_WITH_HEAD,
    TOOLCHAIN_BY_KEY,
    TOOLCHAIN_KNOWN,
    TOOLCHAIN_PAGE_OPEN,
    WARN_OPERATOR,
    KnownTaskRow,
)
from agenttalk.ports.storage import Tx
from agenttalk.rules.prompts.toolchain_steps import ForgeAddresses, ForgeContent, StepStyle, render_task
from agenttalk.rules.text import toolchain_words
from agenttalk.rules.text.message import join
from agenttalk.rules.toolchain import dedup_keys, deployments, event_tasks, reconciliation, sightings
from agenttalk.rules.toolchain.accounts import ForgeRegistry
from agenttalk.rules.toolchain.deployments import NewestCommit
from agenttalk.rules.toolchain.proposal import DeploymentOutcome, EventDecision, ForgeKnowledge, KnownTask
from agenttalk.rules.toolchain.reconciliation import ForgeSnapshot

BOARD: Final = "_toolchain"
FAILURE_RETENTION: Final = timedelta(days=14)
"""How long a failure waits for a pull request with its commit."""
_SIGHTING_LIMIT: Final = 32 * 1024 * 1024
_PAGE: Final = 500
_LATELY: Final = 32 * 1024
"""Bytes of a sighting that is kept in memory for a while."""
_NOTHING: Final = ForgeContent()
_NOT_IDLE: Final = frozenset({"RUNNING", "COMPLETED", "FAILED", "SKIPPED"})


@dataclass(frozen=True, slots=True)
class ToolchainLimits:
    """Limits on posts, retries and waiting."""

    comments_per_hour: int = 20
    """Texts that the engine posts at one place of a forge in an hour."""
    failures: int = 3
    """Failures in a row after which the engine stops asking a source for a while."""
    probe_after: float = 15.0
    """Seconds after which the engine asks that source again."""
    remind_after: int = 7200
    """Seconds without a report after which the engine reminds the agent."""
    escalate_after: int = 21600
    """Seconds without a report after which the engine informs the lead."""


@dataclass(frozen=True, slots=True)
class ToolchainSetup:
    """The configuration for forge events."""

    registry: ForgeRegistry = field(default_factory=ForgeRegistry)
    places: Mapping[str, ForgeAddresses] = field(default_factory=dict)
    """Source → its kind and its addresses."""
    profiles: Mapping[str, AgentProfile] = field(default_factory=dict)
    style: Callable[[str], StepStyle] = lambda _: StepStyle()
    """Agent → the style of its task descriptions."""
    policies: Policies = field(default_factory=Policies)
    timeout: int | None = None
    """Seconds that a turn may take."""
    retry_times: int = 1
    caps: ToolchainLimits = field(default_factory=ToolchainLimits)


@dataclass(frozen=True, slots=True)
class EventOutcome:
    """The changes that one event made."""

    made: tuple[str, ...] = ()
    """Ids of new tasks."""
    tasks: tuple[ProposedTask, ...] = ()
    """The new tasks, in the same order."""
    withdrawn: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why they were withdrawn, in the same order."""
    restored: tuple[str, ...] = ()
    warnings: int = 0
    decision: EventDecision = field(default_factory=EventDecision)

    def as_text(self) -> str:
        """Summarize the outcome in one line, shown with the delivery."""
        words = toolchain_words.DELIVERY
        parts = [
            *([words["made"](tasks=", ".join(self.made))] if self.made else []),
            *([words["withdrew"](tasks=", ".join(self.withdrawn))] if self.withdrawn else []),
            *([words["restored"](tasks=", ".join(self.restored))] if self.restored else []),
            *([words["warned"](count=self.warnings)] if self.warnings else []),
            *([words["kept"]()] if self.decision.held else []),
        ]
        return join(parts) if parts else self.decision.ignored


class ToolchainBoard:
    """The board `_toolchain`. `engine_url` returns the address to which agents report."""

    def __init__(self, deps: Deps, setup: ToolchainSetup, engine_url: Callable[[], str]) -> None:
        self._deps = deps
        self.setup = setup
        self._engine_url = engine_url
        self._sheets = DefinitionCache(deps.submitted, traced=deps.traced)
        self._last = (0, 0)

    async def process_events(
        self, events: Sequence[tuple[ForgeEvent, Mapping[str, ForgeContent]]]
    ) -> list[EventOutcome]:
        """Decide about events, one after the other, in one transaction.

        Each event comes with what was read at the forge for its tasks, by the key of the task.
        """
        store = await self._deps.stores.board(BOARD)

        def work(tx: Tx) -> list[EventOutcome]:
            moves = self._begin(tx)
            outcomes = [self._decide(moves, event, content) for event, content in events]
            moves.finish()
            return outcomes

        return await store.transact(work)

    async def preview_decision(self, event: ForgeEvent) -> EventDecision:
        """Decide what would follow from an event, and write nothing."""
        if not self._deps.stores.has_board(BOARD):
            return event_tasks.decide(event, self.setup.registry, ForgeKnowledge())
        store = await self._deps.stores.board(BOARD)

        def work(tx: Tx) -> EventDecision:
            placed = forge_names.resolve_repository_name(tx, event)
            return event_tasks.decide(placed, self.read_registry(tx, event.source), read_known_state(tx, placed))

        return await store.transact(work)

    def read_registry(self, tx: Tx, source: str) -> ForgeRegistry:
        """Return the registry with the names that accounts of a source have now."""
        return forge_names.apply_renames(tx, source, self.setup.registry)

    async def warn(self, problem: Problem) -> None:
        """Warn the operators. A repeated warning is only counted."""
        store = await self._deps.stores.board(BOARD)

        def work(tx: Tx) -> None:
            moves = self._begin(tx)
            _warn(tx, problem, moves.now)
            moves.finish()

        await store.transact(work)

    async def add_task(self, task: ProposedTask) -> str | None:
        """Make a task without an event, unless a task has its key. Returns the id of a new task."""
        store = await self._deps.stores.board(BOARD)
        return await store.transact(lambda tx: self.add_task_within(tx, task))

    def add_task_within(self, tx: Tx, task: ProposedTask) -> str | None:
        """Make a task in an open transaction, unless a task has its key. Returns the id of a new task."""
        at = self._deps.stamp()
        board_run.open_run(tx, self.setup.policies, self.setup.profiles, at)
        self._sheets.forget(BOARD)
        moves = PlanTransaction(tx, self._deps, self._sheets, at)
        made = self._make(moves, task, _NOTHING)
        moves.finish()
        return made

    async def reconcile(
        self, found: ForgeSnapshot | NewestCommit, content: Mapping[str, ForgeContent], *, dry_run: bool = False
    ) -> list[tuple[ForgeEvent, EventOutcome]]:
        """Update tasks to what the forge shows of a pull request, an issue or a deployment, in one transaction.

        With `dry_run` the transaction is rolled back.
        """
        store = await self._deps.stores.board(BOARD)
        registry = self.setup.registry

        def work(tx: Tx) -> list[tuple[ForgeEvent, EventOutcome]]:
            moves = self._begin(tx)
            written = []
            for shown in derive_events(found, registry):
                forge_names.remember_names(tx, shown, registry)
                event, now = forge_names.resolve_repository_name(tx, shown), self.read_registry(tx, shown.source)
                forge_names.note_deletion(tx, event, moves.now)
                decision = _decided(found, event, now, read_known_state(tx, event))
                written.append((event, self._write(moves, event, decision, content)))
            moves.finish()
            if dry_run:
                raise _UndoneError(written)
            return written

        try:
            return await store.transact(work)
        except _UndoneError as undone:
            return undone.written

    def _begin(self, tx: Tx) -> PlanTransaction:
        at = self._deps.stamp()
        board_run.open_run(tx, self.setup.policies, self.setup.profiles, at)
        self._sheets.forget(BOARD)
        return PlanTransaction(tx, self._deps, self._sheets, at)

    def _decide(self, moves: PlanTransaction, event: ForgeEvent, content: Mapping[str, ForgeContent]) -> EventOutcome:
        tx = moves.tx
        forge_names.remember_names(tx, event, self.setup.registry)
        placed = forge_names.resolve_repository_name(tx, event)
        forge_names.note_deletion(tx, placed, moves.now)
        decision = event_tasks.decide(placed, self.read_registry(tx, event.source), read_known_state(tx, placed))
        return self._write(moves, placed, decision, content)

    def _write(
        self, moves: PlanTransaction, event: ForgeEvent, decision: EventDecision, content: Mapping[str, ForgeContent]
    ) -> EventOutcome:
        tx = moves.tx
        for sighting in decision.sightings:
            _remember(tx, sighting)
        if decision.deployed is not None:
            _remember_deployed(tx, decision.deployed, moves.now)
        if decision.held:
            _hold(tx, event, moves.now, format_instant(self._deps.now() - FAILURE_RETENTION))
        made = {task.key: self._make(moves, task, content.get(task.key, _NOTHING)) for task in decision.tasks}
        replaced = [(key, "another task takes its place") for task in decision.tasks for key in task.replaces]
        gone = [*replaced, *((task.key, task.reason) for task in decision.withdrawn)]
        withdrawn = [(self._withdraw(moves, key, why), why) for key, why in gone]
        restored = [self._restore(moves, key) for key in decision.restored]
        for problem in decision.warnings:
            _warn(tx, problem, moves.now)
        return EventOutcome(
            made=_some(made.values()),
            tasks=tuple(task for task in decision.tasks if made[task.key] is not None),
            withdrawn=_some(task_id for task_id, _ in withdrawn),
            reasons=tuple(why for task_id, why in withdrawn if task_id is not None),
            restored=_some(restored),
            warnings=len(decision.warnings),
            decision=decision,
        )

    def _make(self, moves: PlanTransaction, task: ProposedTask, content: ForgeContent) -> str | None:
        kind = self._deps.kinds[BOARD]
        task_id = self._new_id(moves.tx)
        place = replace(self.setup.places.get(task.source, ForgeAddresses("gitea", "")), engine_url=self._engine_url())
        text = render_task(task, task_id, place, content, self.setup.style(task.assignee))
        must_haves = {
            "event_type": text.must_haves.event_type,
            "action_type": text.must_haves.action_type,
            "steps": list(text.must_haves.steps),
            "context": text.must_haves.context,
            "from": text.must_haves.sender,
            "source": text.must_haves.source,
        }
        if not moves.tx.run(
            ADD_TOOLCHAIN_TASK,
            task_id=task_id,
            key=task.key,
            action_type=task.action_type,
            title=text.title,
            description=text.description,
            assignee=task.assignee,
            assigned_by=text.must_haves.sender,
            must_haves=wire.write(must_haves),
            source=task.source,
            object=task.object,
            head_sha=task.head_sha,
            basis=task.basis,
            hop=task.hop,
            reviewer=task.reviewer,
            verdict=task.context.get("result"),
            event_at=task.at,
            at=moves.now,
        ):
            return None
        body = {"key": task.key, "action_type": task.action_type, "assignee": task.assignee, "title": text.title}
        moves.tx.record("toolchain.task", f"{BOARD}/{task_id}", body)
        added = kind.task(moves.tx, task_id) or _as_kind_task(task, task_id, text.title, text.description, moves.now)
        limits = {"retry_times": self.setup.retry_times}
        board_run.add_task(
            moves, kind, added, **limits, **({"timeout": self.setup.timeout} if self.setup.timeout else {})
        )
        return task_id

    def _new_id(self, tx: Tx) -> str:
        """Return `tc-<milliseconds since 1970>`, with a number behind it when a millisecond gets several tasks."""
        now = int(self._deps.now().timestamp() * 1000)
        last, used = self._last
        for number in count(used + 1 if now == last else 1):
            task_id = f"tc-{now}" if number == 1 else f"tc-{now}-{number}"
            if not tx.run(TASK, plan_id=BOARD, task_id=task_id):
                self._last = (now, number)
                return task_id
        raise AssertionError("numbers do not end")

    def _withdraw(self, moves: PlanTransaction, key: str, why: str) -> str | None:
        rows = moves.tx.run(TOOLCHAIN_BY_KEY, key=key)
        if not rows or rows[0].state in _NOT_IDLE:
            return None
        row = rows[0]
        board_run.withdraw(moves, row.task_id, row.state, row.delivery, why)
        return str(row.task_id)

    def _restore(self, moves: PlanTransaction, key: str) -> str | None:
        rows = moves.tx.run(TOOLCHAIN_BY_KEY, key=key)
        if not rows or progress_of(rows[0].state, rows[0].epoch) != "withdrawn":
            return None
        board_run.restore(moves, self._deps.kinds[BOARD], rows[0].task_id)
        return str(rows[0].task_id)


class _UndoneError(Exception):
    """Rolls a dry run back, and carries what it would have written."""

    def __init__(self, written: list[tuple[ForgeEvent, EventOutcome]]) -> None:
        super().__init__("dry run")
        self.written = written


def _some(ids: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(task_id for task_id in ids if task_id is not None)


def derive_events(found: ForgeSnapshot | NewestCommit, registry: ForgeRegistry) -> tuple[ForgeEvent, ...]:
    """Derive the events that would have led to what a forge shows."""
    return (
        deployments.make_events(found, registry)
        if isinstance(found, NewestCommit)
        else reconciliation.make_events(found, registry)
    )


def _decided(
    found: ForgeSnapshot | NewestCommit, event: ForgeEvent, registry: ForgeRegistry, known: ForgeKnowledge
) -> EventDecision:
    if isinstance(found, NewestCommit):
        return deployments.decide(found, event, registry, known)
    return reconciliation.decide(found, event, registry, known)


def progress_of(state: str, epoch: int) -> Literal["waiting", "begun", "ended", "withdrawn"]:
    """Return the progress of a task in the terms of the event rules. It has begun once an agent got it."""
    if state == "SKIPPED":
        return "withdrawn"
    if state in {"COMPLETED", "FAILED"}:
        return "ended"
    return "waiting" if state in {"PENDING", "READY"} and epoch == 0 else "begun"


def read_known_state(tx: Tx, event: ForgeEvent) -> ForgeKnowledge:
    """Read what is known about the things of an event. Each lookup goes through an index."""
    if event.name == "repository_deleted":
        return ForgeKnowledge(tasks=tuple(_open_in(tx, event.source, event.repository.key)))
    found, before = ForgeKnowledge(), None
    for _ in range(2):
        wanted = event_tasks.find_lookup_keys(event, found)
        if wanted == before:
            break  # the first round found no further things to look up
        before = wanted
        objects, heads = sorted(wanted.objects), sorted(wanted.commits)
        seen: dict[str, Any] = {}
        for key in objects:
            seen |= dict(tx.run(SIGHTING, object=key))
        for head in heads:
            seen |= dict(tx.run(SIGHTINGS_WITH_HEAD, head=head))
        rows = [row for key in sorted({*objects, *heads}) for row in tx.run(TOOLCHAIN_KNOWN, object=key)]
        held = [row for head in heads for row in tx.run(HELD_FAILURES_OF, head=head)]
        found = ForgeKnowledge(
            tasks=tuple(_known_task(row) for row in rows),
            sightings=tuple(_sighting(bytes(seen[key])) for key in sorted(seen)),
            held=tuple(ForgeEvent.model_validate(_read(row.event)) for row in held),
            gone=forge_names.is_repository_deleted(tx, event),
        )
    return found


def _open_in(tx: Tx, source: str, repository: str) -> Iterator[KnownTask]:
    """Yield the open tasks of a repository. This reads the open tasks of all repositories."""
    starts = tuple(f"{dedup_keys.repository_of(source, repository)}{mark}" for mark in "#@")
    objects, after = set[str](), 0
    while rows := tx.run(TOOLCHAIN_PAGE_OPEN, after=after, limit=_PAGE):
        after = rows[-1].id
        objects |= {row.object for row in rows if row.object.startswith(starts)}
    for key in sorted(objects):
        tasks = (_known_task(row) for row in tx.run(TOOLCHAIN_KNOWN, object=key))
        yield from (task for task in tasks if task.state in {"waiting", "begun"})


def _sighting(data: bytes) -> Sighting:
    """Parse a stored sighting. Events about one thing follow each other, so the last small ones are cached."""
    return _seen_lately(data) if len(data) <= _LATELY else Sighting.model_validate(_read(data))


@lru_cache(maxsize=64)
def _seen_lately(data: bytes) -> Sighting:
    return Sighting.model_validate(_read(data))


def _read(data: Any) -> Any:
    return wire.read(bytes(data), limit=_SIGHTING_LIMIT)


def _known_task(row: KnownTaskRow) -> KnownTask:
    return KnownTask(
        key=row.key,
        action_type=row.action_type,
        assignee=row.assignee,
        object=row.object,
        state=progress_of(row.state, row.epoch),
        idle=row.state not in _NOT_IDLE and row.epoch > 0,
        head_sha=row.head_sha,
        basis=row.basis,
        hop=row.hop,
        at=row.event_at,
        reviewer=row.reviewer,
        verdict=row.verdict,
        done_at=row.closed_at or "" if row.state == "COMPLETED" else "",
    )


def _remember_deployed(tx: Tx, deployed: DeploymentOutcome, at: str) -> None:
    """Remember the last deployment. Events may arrive in any order, so an older one does not replace a newer one."""
    for row in tx.run(SIGHTING, object=deployed.key):
        if _read(row.body)["at"] > deployed.at:
            return
    body = {"sha": deployed.sha, "at": deployed.at, "noted_at": at, "good": deployed.good}
    tx.run(PUT_SIGHTING, object=deployed.key, head="", body=wire.write(body))


def _remember(tx: Tx, sighting: Sighting) -> None:
    pull = sighting.pull_request
    head = dedup_keys.commit_of(sighting.source, sighting.repository, pull.head_sha) if pull else ""
    body = wire.write(sighting.model_dump(mode="json", exclude_defaults=True))
    tx.run(PUT_SIGHTING, object=sightings.object_of(sighting), head=head, body=body)


def _hold(tx: Tx, event: ForgeEvent, at: str, before: str) -> None:
    """Keep a failed check until its pull request is seen, and delete those past `FAILURE_RETENTION`.

    The delivery is left out, so that a second delivery of one failure adds no second row.
    """
    ran = event.status or event.run
    if ran is None or not ran.sha:
        return
    body = wire.write(event.model_copy(update={"delivery": ""}).model_dump(mode="json", exclude_defaults=True))
    head = dedup_keys.commit_of(event.source, event.repository.key, ran.sha)
    tx.run(DROP_OLD_FAILURES, before=before)
    tx.run(HOLD_FAILURE, head=head, sha256=wire.sha256(body), event=body, at=at)


def _warn(tx: Tx, problem: Problem, at: str) -> None:
    """Warn the operators. A repeated warning is only counted."""
    digest = wire.sha256(f"{problem.code} {problem.message}".encode("utf-8", "replace"))
    about = {"code": str(problem.code), "message": problem.message, "hint": problem.hint}
    [(times,)] = tx.run(WARN_OPERATOR, sha256=digest, **about, at=at)
    if problem.code == Code.FORGE_HOPS_EXCEEDED:
        toolchain_questions.ask_once(tx, f"hops/{problem.field}", problem.message, problem.hint, at=at)
    if times == 1:
        records.alert(
            tx,
            at=at,
            plan_id=BOARD,
            code=problem.code,
            message=problem.message,
            key=digest,
            severity="WARNING",
        )


def _as_kind_task(task: ProposedTask, task_id: str, title: str, description: str, at: str) -> KindTask:
    return KindTask(
        board=BOARD,
        task_id=task_id,
        agent_id=task.assignee,
        title=title,
        description=description,
        action_type=task.action_type,
        steps=(),
        context=task.context,
        sender="system",
        source=task.source,
        key=task.key,
        object=task.object,
        head_sha=task.head_sha,
        hop=task.hop,
        event_at=task.at,
        made_at=at,
    )
