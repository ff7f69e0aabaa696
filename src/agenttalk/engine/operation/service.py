"""The use cases of an engine that its doors call, grouped by concept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.engine.agents.remote import RemoteAgents
from agenttalk.engine.agents.remote_repository import RemoteRepository
from agenttalk.engine.core import boards
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.idempotency import IdempotencyKeys
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.fleet.check_leases import CheckLeases
from agenttalk.engine.fleet.sync import WorkerSync
from agenttalk.engine.mail.board import MailBoard
from agenttalk.engine.operation.day_budget import DayBudget
from agenttalk.engine.operation.message_service import MessageService
from agenttalk.engine.operation.passes import Passes, PassRunner
from agenttalk.engine.operation.plan_service import PlanService
from agenttalk.engine.operation.schedules import Scheduler
from agenttalk.engine.operation.sessions import Sessions
from agenttalk.engine.operation.trace_export import TraceExporter
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.engine.toolchain.receiver import DeliveryReceiver
from agenttalk.engine.toolchain.reconciler import Reconciler, ReconcileResult
from agenttalk.engine.views import root_status
from agenttalk.engine.views.feed import Feed, silent_changes
from agenttalk.engine.views.models.root import RootStatus
from agenttalk.rules.agents.progress_notes import Note


class CollectionSize(TypedDict):
    """How much of one kind was removed."""

    count: int
    bytes: int


class CollectionItem(TypedDict):
    """Something that was removed."""

    kind: str
    path: str
    bytes: int


class ChainVerification(TypedDict):
    """The result of checking one chain of the ledger."""

    chain: str
    intact: bool
    entries: int
    head: str
    broken: Mapping[str, object] | None
    """The first entry that does not fit, and why."""
    unsealed: list[int]


class ReloadReport(TypedDict):
    """Settings that changed, and those that need a restart."""

    changed: list[str]
    needs_restart: list[str]


class CollectionReport(TypedDict):
    """What was removed, or would be."""

    dry_run: bool
    freed: dict[str, CollectionSize]
    """What was removed, by its kind."""
    bytes: int
    items: list[CollectionItem]
    """The beginning of a long list."""


class ProgressReceipt(TypedDict):
    """Whether a report counts, and why the attempt is stopped if it is."""

    counted: bool
    stopped: str | None


@dataclass(frozen=True, slots=True)
class EngineTools:
    """The tools of an engine that need adapters. A process without those has none of them."""

    collect: Callable[..., Awaitable[CollectionReport]] | None = None
    """Removes garbage."""
    reload: Callable[[str], Awaitable[ReloadReport]] | None = None
    """Reads the settings again, in the name of a person."""
    verify_ledger: Callable[[], list[ChainVerification]] | None = None
    """Checks every chain of the ledger. It blocks."""
    commits: Callable[[], Mapping[str, tuple[int, int]]] = dict
    """Returns for each database how many commits there were, and how many works they carried."""
    schedules: Scheduler | None = None
    tracing: TraceExporter | None = None


NO_TOOLS: Final = EngineTools()


class Service:
    """The use cases of an engine, or of a part that serves its agents.

    It has what needs a running part: a dispatcher, a lock, a wake-up, a setting. Doors call a view or a use case that
    needs nothing but the store directly with `deps`; a method that only passes the call on does not belong here.

    `passes` are the parts that can be asked for a pass, `nudge` wakes the router, and `turn` is held while files are
    moved that the router moves, too. `is_ready` says whether work is being done.
    """

    def __init__(  # noqa: PLR0913 - each is a collaborator of its own
        self,
        deps: Deps,
        *,
        passes: Mapping[str, PassRunner] | None = None,
        nudge: Callable[[], None] = lambda: None,
        turn: asyncio.Lock | None = None,
        dispatcher: Dispatcher | None = None,
        receiver: DeliveryReceiver | None = None,
        reconciler: Reconciler | None = None,
        post: MailBoard | None = None,
        elsewhere: RemoteAgents | None = None,
        checks: CheckLeases | None = None,
        day_cost_usd: float | None = None,
        tools: EngineTools = NO_TOOLS,
        is_ready: Callable[[], bool] = lambda: False,
    ) -> None:
        self.deps = deps
        self.post = post or MailBoard(deps)
        """Sends letters."""
        self.receiver = receiver or DeliveryReceiver(deps, {}, lambda: None)
        """Stores webhooks."""
        self.reconciler = reconciler
        """Reads the forges, if one can be read."""
        self.tools = tools
        self.passes = Passes(passes or {})
        self._fleet = WorkerSync(deps, elsewhere, self.report_progress, checks) if elsewhere is not None else None
        explain_check = self._fleet.explain_check if self._fleet is not None else None
        self.plans = PlanService(deps, dispatcher, self.passes, explain_check)
        answered = dispatcher.nudge if dispatcher is not None else lambda: None
        self.messages = MessageService(deps, nudge, answered, turn or asyncio.Lock())
        self.day = DayBudget(deps, dispatcher, day_cost_usd)
        self.keys = IdempotencyKeys(deps, set())
        """Has repeated requests with a key carried out once."""
        self.sessions = Sessions(deps)
        """Sessions of browsers."""
        self.feed = Feed(deps, dispatcher.subscribe_changes if dispatcher is not None else silent_changes)
        """Sends news to followers."""
        self._dispatcher = dispatcher
        self._elsewhere = elsewhere
        self._is_ready = is_ready

    @property
    def ready(self) -> bool:
        """Whether work is being done: after the start, and before the end has begun."""
        return self._is_ready()

    async def read_status(self) -> RootStatus:
        """Return the status of the whole root."""
        stale = await self.plans.find_all_stale_tasks()
        status = await root_status.read_root_status(self.deps, self.day.configured, stale)
        for plan in status["plans"]:
            if plan["tasks"] and plan["origin"] == "engine":
                await self.plans.add_activities(plan["plan_id"], plan["tasks"])
        return status

    def redact(self, value: Any) -> Any:
        """Return a JSON value without secrets."""
        return self.deps.secret_guard.secrets.redact_json(value)

    def record_heartbeat(self, caller: Caller) -> None:
        """Record that an attempt is alive."""
        if self._elsewhere is not None:
            self._elsewhere.record_heartbeat(caller)

    def report_progress(self, task: TaskName, note: Note, caller: Caller) -> ProgressReceipt:
        """Take a report of a running attempt. Returns whether it counts, and why the attempt is stopped if it is."""
        if caller.attempt is None or self._dispatcher is None:
            return {"counted": False, "stopped": None}
        stopped = self._dispatcher.watches.report(task.board, task.plan_id, task.task_id, caller.attempt.epoch, note)
        return {"counted": True, "stopped": stopped}

    async def reconcile(self, *, dry_run: bool, by: str) -> ReconcileResult:
        """Read the forges now. Returns what was done about it, or would be. Raises UsageError when none can be read."""
        if self.reconciler is None:
            raise UsageError(
                Code.NAME_UNKNOWN,
                "there is no forge that can be read",
                hint="give a source a token: sources.NAME.token_env or token_file",
            )
        if not dry_run:
            system = await self.deps.stores.board(boards.SYSTEM)
            await system.transact(lambda tx: tx.record("reconcile.asked", "toolchain", {"by": by}))
        return await self.reconciler.pass_(dry_run=dry_run)

    @property
    def remote_agents(self) -> RemoteAgents:
        """What gives work to remote agents. Raises MachineError where no engine runs."""
        if self._elsewhere is None:
            hint = "start 'agenttalk serve'"
            raise MachineError(Code.ENGINE_UNREACHABLE, "this process gives no work to remote agents", hint=hint)
        return self._elsewhere

    @property
    def has_fleet(self) -> bool:
        """Whether this process answers workers."""
        return self._fleet is not None

    @property
    def fleet(self) -> WorkerSync:
        """What answers workers. Raises MachineError where no engine runs."""
        if self._fleet is None:
            hint = "start 'agenttalk serve'"
            raise MachineError(Code.ENGINE_UNREACHABLE, "this process gives no work to workers", hint=hint)
        return self._fleet

    @property
    def repositories(self) -> RemoteRepository:
        """What serves repositories to remote agents. Raises MachineError where no engine runs."""
        return RemoteRepository(self.deps, self.remote_agents)

    @property
    def scheduling(self) -> Scheduler:
        """The schedules. Raises MachineError where none are kept."""
        if self.tools.schedules is None:
            hint = "start 'agenttalk serve'"
            raise MachineError(Code.ENGINE_UNREACHABLE, "this process has no schedules", hint=hint)
        return self.tools.schedules
