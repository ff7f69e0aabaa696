"""Use cases of plans for the doors: submit, revise, control and verify them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import AgentTalkError, Code, MachineError
from agenttalk.contracts.plan import PlanManifest
from agenttalk.engine.core import boards, trace_context
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.passes import Passes
from agenttalk.engine.plans import submission
from agenttalk.engine.runs import plan_actions
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.engine.runs.plan_actions import PlanAction
from agenttalk.engine.views import plan_status
from agenttalk.engine.views.models.plans import PlanView

LOG = logging.getLogger(__name__)
NO_FILES: Final[Mapping[str, bytes]] = MappingProxyType({})


class PlanService:
    """What doors do with plans. Where no dispatcher runs, plans can only be read."""

    def __init__(self, deps: Deps, dispatcher: Dispatcher | None, passes: Passes) -> None:
        self._deps = deps
        self._dispatcher = dispatcher
        self._passes = passes

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
            await dispatcher.operator.check_branch(dag.plan_id)  # what it proved may not hold any more
        return new

    async def list_remarks(self, dag: TaskDag, manifest: PlanManifest) -> list[JsonObject]:
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
    ) -> JsonObject:
        """Apply a new revision of a plan. Returns the tasks that were added, changed and removed."""
        board = await boards.board_of(self._deps, dag.plan_id)
        await submission.store_check_files(self._deps, board.name, dag, files)
        return (await self._require_dispatcher().operator.apply(dag, manifest, profiles, by=by)).as_json()

    async def read_status(self, plan_id: str) -> PlanView:
        """Return the status of a plan, after a look at its branch: what it proved may not hold any more."""
        await self.check_branches(plan_id)
        return (await plan_status.read_plan_status(self._deps, plan_id)).as_json()

    async def read_settled_status(self, plan_id: str) -> PlanView:
        """Return the status of a plan once it has settled.

        A plan that seems to wait is believed only when a full pass changes nothing: then answers that were given and
        messages that were left in folders are taken into account.
        """
        status = await self.read_status(plan_id)
        while status["result"] not in {"running", "paused"} and status["state"] != "ENDED":
            before = status["tasks"]
            await self._require_dispatcher().wait_for_dispatch()
            await self._passes.run("route", None)
            await self._require_dispatcher().wait_for_dispatch()
            status = await self.read_status(plan_id)
            if status["tasks"] == before:
                break
        return status

    async def verify(self, plan_id: str, task_id: str | None = None, *, by: str) -> JsonObject:
        """Check now whether what a plan, or a task of it, proved still holds."""
        report = await self._require_dispatcher().operator.verify(plan_id, task_id)
        board = await boards.board_of(self._deps, plan_id)
        await board.transact(lambda tx: tx.record("verify.asked", plan_id, {"by": by, "task_id": task_id}))
        return report

    async def check_branches(self, plan_id: str | None = None) -> None:
        """Find out whether the branches of ended plans have moved since. No check is run for it.

        A plan whose repository cannot be read is left as it is.
        """
        if self._dispatcher is None:
            return
        try:
            operator = self._dispatcher.operator
            await (operator.check_all_branches() if plan_id is None else operator.check_branch(plan_id))
        except AgentTalkError as error:
            LOG.warning("%s: %s", plan_id, error.message, extra={"action": "branches"})

    async def record_merge(self, plan_id: str, *, by: str, commit: str, into: str | None, stale: bool) -> None:
        """Record that a person merged the work of a plan."""
        await self._require_dispatcher().operator.record_merge(plan_id, by=by, commit=commit, into=into, stale=stale)

    async def carry_out(self, plan_id: str, action: PlanAction) -> Any:
        """Pause, resume, cancel or release a plan; retry, abort, override or rework one of its tasks."""
        return await plan_actions.carry_out_action(self._deps, self._require_dispatcher(), plan_id, action)

    def _require_dispatcher(self) -> Dispatcher:
        if self._dispatcher is None:
            hint = "start 'agenttalk serve' or 'agenttalk run'"
            raise MachineError(Code.ENGINE_UNREACHABLE, "this process does not run plans", hint=hint)
        return self._dispatcher
