"""Finds the claimed commands that can run, and has people asked for inputs that do not come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import parse_instant, write_time
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.contracts.errors import AgentTalkError, Code, MissingError
from agenttalk.contracts.human import HumanInterventionRequest
from agenttalk.engine.core import outbox_writer, records
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.core.attempt_paths import TURNS
from agenttalk.engine.inbox.archive import build_archive_path
from agenttalk.engine.inbox.origins import PlanFileFacts
from agenttalk.engine.messages import recall
from agenttalk.engine.people import questions
from agenttalk.engine.runs.command_leases import ClaimedCommand
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.inbox import (
    ADD_TASK,
    CLAIMED_ORDERS,
    INPUTS_OF,
    ORDER_OF,
    WAIT_FOR_INPUTS,
    ClaimedOrderRow,
)
from agenttalk.ports.statements.messages import TASK, MessageTaskRow
from agenttalk.ports.storage import Tx
from agenttalk.rules.messages import inbox_inputs
from agenttalk.rules.messages.inbox_inputs import InboxFiles, InputResolution
from agenttalk.rules.text import question_words
from agenttalk.rules.text.catalogue import with_messages

_FILES: Final = 20_000
"""Files of one folder that a command can find."""
_DEPTH: Final = 24


class InputSource(NamedTuple):
    """The place of an input file."""

    path: str
    """Below the root."""
    short: str
    """Its path as the agent sees it."""
    sha256: str | None = None
    """Its hash, if it was archived."""
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReadyCommand:
    """A command that can run."""

    order: ClaimedCommand
    resolution: InputResolution
    sources: dict[str, InputSource] = field(repr=False)


@dataclass(slots=True)
class CommandScan:
    """The claimed commands of a plan: ready, waiting, asked about."""

    ready: list[ReadyCommand] = field(default_factory=list)
    waiting: int = 0
    asked: int = 0
    tasks: set[str] = field(default_factory=set)
    """Tasks that have commands."""


_Mark: TypeAlias = tuple[str, str, int]
"""Board, plan and delivery."""


class CommandScanner:
    """Scans claimed commands in turn, so that none starves however many wait."""

    def __init__(self) -> None:
        self._looked: dict[_Mark, int] = {}
        """The round in which each was scanned last."""
        self._ready: set[_Mark] = set()
        """Those that could run in their last scan."""
        self._round = 0

    async def scan(self, seat: AgentInPlan, running: int | None, ground: PlanFileFacts) -> CommandScan:
        """Scan the next few commands of a plan, except for the one that is `running`.

        While the plan's files contradict each other, none of them begins.
        """
        rows = await seat.store.read(CLAIMED_ORDERS, plan_id=seat.plan_id, receiver=seat.agent_id)
        self._round += 1
        first: dict[str, ClaimedOrderRow] = {}
        for row in sorted(rows, key=lambda each: each.id):
            first.setdefault(row.task_id, row)  # of one task one after the other
        queue = [row for row in first.values() if row.id != running]
        here = (seat.store.name, seat.plan_id)
        looked = CommandScan(tasks={row.task_id for row in queue})
        shelf = _LazyShelf(seat)
        chosen = self._choose(queue, here, seat.deps.limits.resumed_messages_per_tick)
        for row in chosen:
            mark = (*here, row.id)
            self._looked[mark] = self._round
            self._ready.discard(mark)
            ready = await self._scan_command(seat, row, shelf, looked, ground)
            if ready is not None:
                looked.ready.append(ready)
                self._ready.add(mark)
        looked.waiting += len(queue) - len(chosen)
        open_ones = {(*here, row.id) for row in rows}
        self._looked = {mark: n for mark, n in self._looked.items() if mark[:2] != here or mark in open_ones}
        self._ready = {mark for mark in self._ready if mark[:2] != here or mark in open_ones}
        looked.ready.sort(key=lambda each: (each.order.priority, each.order.delivery))
        return looked

    def _choose(self, queue: list[ClaimedOrderRow], here: tuple[str, str], limit: int) -> list[ClaimedOrderRow]:
        """Choose the commands with the oldest scans, and the first of those that are known to be ready."""
        by_rank = sorted(queue, key=lambda row: (row.priority, row.id))
        best = next((row for row in by_rank if (*here, row.id) in self._ready), None)
        by_rank.sort(key=lambda row: self._looked.get((*here, row.id), 0))
        chosen = by_rank[:limit]
        return chosen if best is None or best in chosen else [best, *chosen]

    async def _scan_command(
        self, seat: AgentInPlan, row: ClaimedOrderRow, shelf: _LazyShelf, looked: CommandScan, ground: PlanFileFacts
    ) -> ReadyCommand | None:
        [(envelope, consumed_at, state)] = await seat.store.read(ORDER_OF, id=row.id)
        if state != "claimed" or consumed_at is None:
            return None
        command = CommandEnvelope.from_bytes(bytes(envelope)).payload.command
        if ground.contradiction is not None:
            looked.waiting += 1
            return None
        if await _is_outdated(seat, command, ground):
            return None
        order = ClaimedCommand(row.id, row.message_id, row.task_id, row.priority, row.seq, command, consumed_at)
        sources = await shelf.sources(order)
        resolution = inbox_inputs.resolve(command, InboxFiles(sources))
        tasks = await seat.store.read(TASK, plan_id=seat.plan_id, task_id=row.task_id)
        now = seat.deps.now()
        since, known = _waiting(tasks[0] if tasks else None, row.id)
        step = inbox_inputs.next_step(command, resolution, waiting_since=since or now, now=now)
        if step == "run":
            return ReadyCommand(order, resolution, sources)
        looked.waiting += 1
        earlier: str | None = tasks[0].request_id if known is not None else None
        spent = earlier is not None and await questions.is_spent(seat.store, earlier, plan_id=seat.plan_id)
        asks = step == "ask" and (earlier is None or spent)
        if known is None or known[1] != resolution.missing or asks:
            looked.asked += int(asks)
            request_id = _request_id(seat, order, earlier, spent=spent) if step == "ask" else None
            missing = resolution.missing
            await seat.store.transact(partial(_block, seat=seat, order=order, missing=missing, request_id=request_id))
        return None


async def _is_outdated(seat: AgentInPlan, command: Command, ground: PlanFileFacts) -> bool:
    """Whether a command was made for an earlier DAG of a plan that the engine does not run. Then it is taken back."""
    new = ground.facts.dag_sha256 if ground.facts else None
    old = command.dag_ref.sha256 if command.dag_ref else None
    if new is None or old is None or old == new:
        return False
    recalled = partial(recall.withdraw_outdated, old=old, new=new, deps=seat.deps, at=seat.deps.stamp())
    return bool(await seat.store.transact(lambda tx: recalled(tx, seat.plan_id, [command.task_id])))


def _waiting(task: MessageTaskRow | None, delivery: int) -> tuple[Any, tuple[str, tuple[str, ...]] | None]:
    """Return since when a command waits, its state and missing inputs; None when it does not wait yet."""
    if task is None or task.delivery != delivery or task.waiting_since is None:
        return None, None
    missing: Any = wire.read(bytes(task.missing)) if task.missing is not None else []
    return parse_instant(task.waiting_since), (task.state, tuple(missing))


def _request_id(seat: AgentInPlan, order: ClaimedCommand, earlier: str | None, *, spent: bool) -> str:
    """Name the question: one for each command, and another one if an answer did not bring all inputs."""
    if earlier is not None and not spent:
        return earlier
    return records.derive_id("request", "/".join([seat.plan_id, order.message_id, *([earlier] if earlier else [])]))


def _block(
    tx: Tx, *, seat: AgentInPlan, order: ClaimedCommand, missing: tuple[str, ...], request_id: str | None
) -> None:
    at = seat.deps.stamp()
    about = {"plan_id": seat.plan_id, "task_id": order.task_id}
    tx.run(ADD_TASK, **about, agent_id=seat.agent_id, at=at)
    state = "BLOCKED_WAITING_HUMAN" if request_id else "BLOCKED_WAITING_INPUT"
    rows = tx.run(
        WAIT_FOR_INPUTS,
        **about,
        state=state,
        missing=wire.write(list(missing)),
        request_id=request_id,
        delivery=order.delivery,
        at=at,
    )
    if not rows:
        return  # it is leased: an earlier command of the task runs
    blocking: dict[str, object] = {
        "reason": "MISSING_INPUTS",
        "missing": list(missing),
        "started_at": write_time(parse_instant(rows[0].waiting_since)),
    }
    if request_id:
        blocking["request_id"] = request_id
        _ask(tx, seat, order, missing, request_id, at)
    tx.record(f"task.{state.lower()}", f"{seat.plan_id}/{order.task_id}", {**order.subject.as_json(), **blocking})
    outbox_writer.report_state(
        tx,
        seat,
        order.task_id,
        state,
        at=at,
        message_id=order.message_id,
        command_id=order.command.command_id,
        blocking=blocking,
    )


def build_question(
    seat: AgentInPlan, order: ClaimedCommand, request_id: str, at: str, **said: Any
) -> HumanInterventionRequest:
    """Build a question to people about a claimed command."""
    return HumanInterventionRequest.from_json(
        with_messages(
            {
                "request_id": request_id,
                "plan_id": seat.plan_id,
                "created_at": write_time(parse_instant(at)),
                "created_by": {
                    "agent_id": seat.agent_id,
                    "task_id": order.task_id,
                    "command_id": order.command.command_id,
                },
                "severity": "HIGH",
                **said,
            }
        )
    )


def hand_request_over(tx: Tx, seat: AgentInPlan, request: HumanInterventionRequest) -> None:
    """Queue a question for the agent's outbox, too: another party's router may bring it to people."""
    outbox_writer.queue_control_file(
        tx, seat, f"human_intervention_request_{request.request_id}.json", request.to_bytes() + b"\n"
    )


def _ask(tx: Tx, seat: AgentInPlan, order: ClaimedCommand, missing: tuple[str, ...], request_id: str, at: str) -> None:
    """Ask people for what is missing; asking twice asks once."""
    command_id = order.command.command_id
    needed = {"files": [{"name": name, "deliver_to_agent_id": seat.agent_id} for name in missing]}
    title = question_words.MISSING_INPUTS(task=order.task_id, count=len(missing))
    request = build_question(
        seat, order, request_id, at, type="MISSING_FILE", title=title, blocking=True, needed=needed
    )
    if not questions.ask(tx, request, plan_id=seat.plan_id, at=at):
        return
    hand_request_over(tx, seat, request)
    records.alert(
        tx,
        at=at,
        plan_id=seat.plan_id,
        code=Code.WAIT_FOR_INPUTS_TIMEOUT,
        message=f"task {order.task_id!r} waits longer than {order.command.timeout} s for: {', '.join(missing)}",
        key=order.message_id,
        source=records.RecordSource(seat.agent_id, order.task_id, command_id),
        details={"request_id": request_id, "missing": list(missing)},
    )


class _LazyShelf:
    """The input files of an agent, read when the first command asks for them."""

    def __init__(self, seat: AgentInPlan) -> None:
        self._seat = seat
        self._archived: dict[str, InputSource] | None = None

    async def sources(self, order: ClaimedCommand) -> dict[str, InputSource]:
        """Return the files that a command can find: archived ones, others beside them, its task's folder."""
        command = order.command
        if not command.required_inputs and not command.resolved_inputs:
            return {}
        if self._archived is None:
            self._archived = await self._read()
        folder = root_layout.task_folder(self._seat.agent_id, self._seat.plan_id, order.task_id)
        own = await asyncio.to_thread(_files_in, self._seat.root, folder, frozenset({TURNS}))
        return {**{path: InputSource(f"{folder}/{path}", path) for path in own}, **self._archived}

    async def _read(self) -> dict[str, InputSource]:
        seat = self._seat
        hidden = frozenset({root_layout.HISTORY, root_layout.INPUT_INDEX})
        lying = await asyncio.to_thread(_files_in, seat.root, seat.inputs, hidden)
        found = {path: InputSource(f"{seat.inputs}/{path}", path.split("/", 2)[-1]) for path in lying}
        rows = await seat.store.read(INPUTS_OF, plan_id=seat.plan_id, agent_id=seat.agent_id)
        for row in rows:
            where = build_archive_path(row.task_id, row.output_name, row.path)
            found[where] = InputSource(f"{seat.inputs}/{where}", row.path, row.sha256, row.message_id)
        return found


def _files_in(root: Folder, folder: str, hidden: frozenset[str]) -> list[str]:
    """List the regular files below a folder, without the `hidden` names at its top."""
    found: list[str] = []
    try:
        with root.open_folder(folder) as top:
            for path in _walk(top, "", hidden, _DEPTH):
                found.append(path)
                if len(found) >= _FILES:
                    break
    except AgentTalkError:
        return found  # it is not there yet, or something else is in its place
    return found


def _walk(folder: Folder, above: str, hidden: frozenset[str], depth: int) -> Iterator[str]:
    for entry in sorted(folder.scan()):
        if entry.name in hidden or not entry.is_text or entry.name.startswith(".agenttalk-"):
            continue
        if entry.kind == "regular" and entry.nlink == 1:
            yield f"{above}{entry.name}"
        elif entry.kind == "folder" and depth:
            try:
                with folder.open_folder(entry.name) as inner:
                    yield from _walk(inner, f"{above}{entry.name}/", frozenset(), depth - 1)
            except MissingError:
                continue
