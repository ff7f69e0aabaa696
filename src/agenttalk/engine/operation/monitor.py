"""The monitor: publishes where plans and agents stand, and tells people what does not add up."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MissingError
from agenttalk.contracts.generation import Repair
from agenttalk.contracts.record import StatusHeartbeat, TaskStateReport
from agenttalk.engine.core import records
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.unchanged_folders import UnchangedFolders
from agenttalk.engine.messages import control_files, form_notices, outbox_reader, plan_journal, published_files
from agenttalk.engine.messages.plan_registry import UNROUTED, PlanRegistry, RoutedPlan
from agenttalk.engine.messages.router import check_conservation
from agenttalk.engine.messages.standing_files import ReadControlFile, StandingFiles
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.messages import ADD_PLAN, COUNTED_TASKS, PLANS
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.messages import foreign_forms
from agenttalk.rules.messages.control_files import ControlFile
from agenttalk.rules.messages.routes import Rejection

UNREADABLE: Final = "UNREADABLE"
"""The status of an agent whose sign of life cannot be read."""
STALE: Final = timedelta(seconds=90)
"""A heartbeat that is older than three slow polls is a bad sign."""
_LIMIT: Final = 64 * 1024


@dataclass(slots=True)
class MonitorReport:
    """The observations of a pass of the monitor."""

    plans: dict[str, dict[str, int]] = field(default_factory=dict)
    """Plan → state → number of tasks."""
    agents: dict[str, str] = field(default_factory=dict)
    """Agent → health."""
    lost: int = 0
    """Messages that are in no state, or in two."""
    problems: list[dict[str, str]] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Return it as JSON."""
        return asdict(self)


class Monitor:
    """Watches a root. Never changes what became of a message; of tasks it knows what our store and their agents say."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._plans = PlanRegistry(deps)
        self._shown: published_files.StatusMarks = {}
        self._standing = StandingFiles(deps)
        self._quiet = UnchangedFolders()

    async def pass_(self) -> MonitorReport:
        """Look at everything once and publish it."""
        seen = MonitorReport()
        await self._read_states(await self._plans.refresh())
        for board in await list_boards(self._deps):
            await self._report_board(board, seen)
        await self._agents(seen)
        for board in await list_boards(self._deps):
            try:
                await published_files.publish(self._deps, board)
            except AgentTalkError as error:
                seen.problems.append({"code": str(error.code), "message": error.message, "hint": error.hint})
        return seen

    async def _read_states(self, plans: dict[str, RoutedPlan]) -> None:
        """Take over the states that agents of foreign plans report: another router may bring the messages."""
        root, agents = self._deps.root, sorted(self._plans.agents)
        found = await asyncio.to_thread(outbox_reader.read_outboxes, root, agents, self._quiet, self._standing.keys)
        for plan_id, files in found.files.items():
            plan = plans.get(plan_id)
            if plan is None or plan.origin != "foreign" or plan.halted is not None:
                continue
            batch: list[ReadControlFile] = []
            for each in files:
                said = (
                    await asyncio.to_thread(control_files.read_control_file, self._deps, each)
                    if each.control == "task_state"
                    else None
                )
                batch += (
                    [(each, *said)] if said and isinstance(said[1], ControlFile) else []
                )  # a router refuses the others
            if batch:
                self._standing.remember(
                    batch, await plan.board.transact(partial(self._take_in, batch=batch, plan=plan))
                )

    def _take_in(self, tx: Tx, batch: list[ReadControlFile], plan: RoutedPlan) -> list[control_files.CollectOutcome]:
        at = self._deps.stamp()
        return [
            control_files.collect_control_file(
                tx, found, data, said, plan, self._deps, at, believed=self._is_brought(plan.plan_id, said)
            )
            for found, data, said in batch
        ]

    def _is_brought(self, plan_id: str, said: ControlFile | Rejection) -> bool:
        """Whether the journal says that the command of a state was brought to the agent whose state it is."""
        report = said.document if isinstance(said, ControlFile) else None
        if not isinstance(said, ControlFile) or not isinstance(report, TaskStateReport) or report.message_id is None:
            return False
        return plan_journal.has_command(self._deps.root, plan_id, report.message_id, said.owner, report.task_id)

    async def _report_board(self, board: Store, seen: MonitorReport) -> None:
        for plan_id, origin, *_ in await board.read(PLANS):
            lost = await check_conservation(board, plan_id, self._deps.stamp())
            seen.lost += abs(lost)
            if plan_id in self._deps.kinds and origin == "virtual":
                continue  # a board's own run never ends, so that counting its tasks would take ever longer
            if await board.read(COUNTED_TASKS, plan_id=plan_id):
                seen.plans[plan_id] = dict(await board.read(COUNTED_TASKS, plan_id=plan_id))
            await published_files.publish_status(self._deps, board, plan_id, self._shown)

    async def _agents(self, seen: MonitorReport) -> None:
        board = (await list_boards(self._deps))[0]
        now = self._deps.now()
        for agent_id in sorted(self._plans.agents):
            try:
                status, repairs = await asyncio.to_thread(_heartbeat, self._deps.root, agent_id)
            except MissingError:
                continue
            except AgentTalkError as error:
                seen.agents[agent_id] = UNREADABLE
                message = f"{root_layout.HEARTBEAT} of {agent_id}: {error.message}"
                seen.problems.append({"code": str(error.code), "message": message, "hint": error.hint})
                continue
            age = max(timedelta(0), now - status.last_heartbeat)
            stale = max(STALE, timedelta(seconds=9 * self._deps.limits.poll_seconds))
            health = "CRITICAL" if age > stale else status.health
            seen.agents[agent_id] = health
            body = {**status.as_json(), "health": health}
            await board.transact(
                partial(_show_agent, agent_id=agent_id, body=body, repairs=repairs, at=self._deps.stamp())
            )


def _show_agent(tx: Tx, agent_id: str, body: JsonObject, repairs: tuple[Repair, ...], at: str) -> None:
    records.publish_file(tx, f"agent_status/{agent_id}.json", body)
    if repairs:
        tx.run(ADD_PLAN, plan_id=UNROUTED, origin="virtual")
        form_notices.note_repairs(tx, UNROUTED, agent_id, root_layout.HEARTBEAT, repairs, at=at)


def _heartbeat(root: Folder, agent_id: str) -> tuple[StatusHeartbeat, tuple[Repair, ...]]:
    """Read an agent's sign of life, and the repairs that it needed. Raises MissingError without one."""
    data = root.read(f"{root_layout.agent_folder(agent_id)}/{root_layout.HEARTBEAT}", _LIMIT)
    said, repairs = foreign_forms.normalize_document(StatusHeartbeat, wire.read(data, limit=_LIMIT))
    status = StatusHeartbeat.from_json(said)
    if status.agent_id != agent_id:
        raise InputError(
            Code.PRODUCER_MISMATCH, f"it is that of {status.agent_id!r}", hint="an agent writes only its own"
        )
    return status, repairs
