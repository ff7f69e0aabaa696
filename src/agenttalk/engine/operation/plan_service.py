"""Use cases of plans for the doors: submit, revise, control and verify them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import Code, MachineError, Problem
from agenttalk.contracts.plan import PlanManifest
from agenttalk.engine.core import boards, trace_context
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_status import TaskView
from agenttalk.engine.operation.passes import Passes
from agenttalk.engine.plans import submission
from agenttalk.engine.proof.plan_closer import VerifiedPlan
from agenttalk.engine.proof.watched_branches import StaleTasks
from agenttalk.engine.runs import plan_actions
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.engine.runs.plan_actions import ActionResult, PlanAction
from agenttalk.engine.views import explain, plan_status
from agenttalk.engine.views.activity import ActivityReader
from agenttalk.engine.views.models.plans import PlanView
from agenttalk.engine.views.models.tasks import TaskExplanation

NO_FILES: Final[Mapping[str, bytes]] = MappingProxyType({})


class PlanService:
    """The actions of doors on plans. Where no dispatcher runs, plans can only be read."""

    def __init__(
        self,
        deps: Deps,
        dispatcher: Dispatcher | None,
        passes: Passes,
        explain_check: Callable[[str, str], Awaitable[str]] | None = None,
    ) -> None:
        """`explain_check` says why a task waits for a verifier; empty if it does not."""
        self._explain_check = explain_check
        self._deps = deps
        self._dispatcher = dispatcher
        self._passes = passes
        self._activities = _make_reader(deps, dispatcher) if dispatcher is not None else None

    async def submit(
        self,
        dag: TaskDag,
        manifest: PlanManifest,
        profiles: Mapping[str, AgentProfile],
        files: Mapping[str, bytes] = NO_FILES,
        *,
        traceparent: str = "",
    ) -> bool:
        """Have a plan run. Returns False when it was submitted before.

        `files` are those of its checks, by their hashes. `traceparent` names the trace of the caller, if there is one.
        """
        await submission.store_check_files(self._deps, boards.DEFAULT, dag, files)
        also = trace_context.make_parent_recorder(dag.plan_id, traceparent)
        new = await submission.submit(self._deps, dag, manifest, profiles, also=also)
        dispatcher = self._require_dispatcher()
        await dispatcher.operator.adopt_plan(dag.plan_id)
        if not new:
            await dispatcher.branches.record_stale_tasks_of(dag.plan_id)
        return new

    async def list_remarks(self, dag: TaskDag, manifest: PlanManifest) -> list[Problem]:
        """Return what people should know about a plan and its repository before it begins."""
        return await self._require_dispatcher().operator.remarks(dag, manifest)

    async def apply(
        self,
        dag: TaskDag,
        manifest: PlanManifest,
        profiles: Mapping[str, AgentProfile],
        files: Mapping[str, bytes] = NO_FILES,
        *,
        by: str,
    ) -> dict[str, list[str]]:
        """Apply a new revision of a plan. Returns the tasks that were added, changed and removed."""
        board = await boards.board_of(self._deps, dag.plan_id)
        await submission.store_check_files(self._deps, board.name, dag, files)
        return (await self._require_dispatcher().operator.apply(dag, manifest, profiles, by=by)).as_json()

    async def read_status(self, plan_id: str) -> PlanView:
        """Return the status of a plan."""
        status = await plan_status.read_plan_status(self._deps, plan_id, await self.find_stale_tasks(plan_id))
        await self.add_activities(plan_id, status["tasks"])
        return status

    async def add_activities(self, plan_id: str, tasks: Iterable[TaskView]) -> None:
        """Add to the views of tasks what they are doing at this moment. That is read from memory, not from the store.

        Where no dispatcher runs, nothing is known of it.
        """
        if self._activities is not None and self._dispatcher is not None:
            board = await boards.board_of(self._deps, plan_id)
            self._activities.add_to(board.name, plan_id, tasks, self._dispatcher.busy_agents)

    async def explain(self, plan_id: str, task_id: str) -> TaskExplanation:
        """Explain the state of a task."""
        told = await explain.explain_task(self._deps, plan_id, task_id, await self.find_stale_tasks(plan_id))
        waits = await self._explain_check(plan_id, task_id) if self._explain_check is not None else ""
        return {**told, "moves_on": waits} if waits else told

    async def find_stale_tasks(self, plan_id: str) -> frozenset[str]:
        """Return the tasks of an ended plan that are stale because its branch has moved, and are not stored as such.

        Views show them as stale before the watch of the branches stores it.
        """
        return (await self.find_all_stale_tasks(plan_id)).get(plan_id, frozenset())

    async def find_all_stale_tasks(self, plan_id: str | None = None) -> StaleTasks:
        """Return the same of every plan, by plan."""
        return {} if self._dispatcher is None else await self._dispatcher.branches.find_stale_tasks(plan_id)

    async def settle(self, plan_id: str) -> PlanView:
        """Have a plan settle, and return its status.

        A plan that seems to wait is believed only when a full pass changes nothing: then answers that were given and
        messages that were left in folders are taken into account.
        """
        dispatcher = self._require_dispatcher()
        await dispatcher.branches.record_stale_tasks(plan_id)
        status = await self.read_status(plan_id)
        while status["result"] not in {"running", "paused"} and status["state"] != "ENDED":
            before = status["tasks"]
            await dispatcher.wait_for_dispatch()
            await self._passes.run("route", None)
            await dispatcher.wait_for_dispatch()
            status = await self.read_status(plan_id)
            if status["tasks"] == before:
                break
        return status

    async def verify(self, plan_id: str, task_id: str | None = None, *, by: str) -> VerifiedPlan:
        """Check now whether what a plan, or a task of it, proved still holds."""
        report = await self._require_dispatcher().operator.verify(plan_id, task_id)
        board = await boards.board_of(self._deps, plan_id)
        await board.transact(lambda tx: tx.record("verify.asked", plan_id, {"by": by, "task_id": task_id}))
        return report

    async def record_merge(self, plan_id: str, *, by: str, commit: str, into: str | None, stale: bool) -> None:
        """Record that a person merged the work of a plan."""
        await self._require_dispatcher().operator.record_merge(plan_id, by=by, commit=commit, into=into, stale=stale)

    async def carry_out(self, plan_id: str, action: PlanAction) -> ActionResult:
        """Pause, resume, cancel or release a plan; retry, abort, override or rework one of its tasks."""
        return await plan_actions.carry_out_action(self._deps, self._require_dispatcher(), plan_id, action)

    def _require_dispatcher(self) -> Dispatcher:
        if self._dispatcher is None:
            hint = "start 'agenttalk serve' or 'agenttalk run'"
            raise MachineError(Code.ENGINE_UNREACHABLE, "this process does not run plans", hint=hint)
        return self._dispatcher


def _make_reader(deps: Deps, dispatcher: Dispatcher) -> ActivityReader:
    # The secrets are looked up at each call, because new ones become known.
    return ActivityReader(dispatcher.watches, deps.clock.now, deps.secret_guard.secrets.redact)
