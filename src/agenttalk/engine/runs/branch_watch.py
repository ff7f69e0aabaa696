"""Watches the branches of ended plans: a commit there can outdate what a plan proved."""

from __future__ import annotations

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.proof import watched_branches
from agenttalk.engine.proof.watched_branches import (
    StaleTasks,
    find_watched_repository,
    list_watched_plans,
    log_unreadable_branch,
    read_repository,
)
from agenttalk.engine.runs.state import DispatcherState
from agenttalk.engine.runs.steps import StepWriter
from agenttalk.ports.statements.plans import OPEN_RUNS
from agenttalk.ports.statements.proof import TIP


class BranchWatch:
    """Compares branches with the commit at which each plan ended. No check is run for it.

    A branch that cannot be read is logged, and does not keep the others from being compared.
    """

    def __init__(self, state: DispatcherState, steps: StepWriter) -> None:
        self._state = state
        self._steps = steps

    async def record_stale_tasks(self, plan_id: str | None = None) -> None:
        """Compare a branch, or all of them, and store which evidence is stale. A plan with stale evidence goes on."""
        async for name in list_watched_plans(self._state.deps, plan_id):
            try:
                await self.record_stale_tasks_of(name)
            except AgentTalkError as error:
                log_unreadable_branch(name, error)

    async def record_stale_tasks_of(self, plan_id: str) -> bool:
        """Do the same for one plan. Returns whether any of its evidence is stale. Raises what the repository raises."""
        board = await self._state.board_of(plan_id)
        repo = await find_watched_repository(board.store, plan_id)
        if repo is None:
            return False
        stale = await self._steps.closer_of(board, plan_id).check_branch(repo)
        if stale:
            self._state.nudge()
        return stale

    async def settle_open_plans(self) -> None:
        """Bring the branches of plans that have not ended to their tips: an engine may have died before it did."""
        if (prover := self._state.prover) is None:
            return
        for store in await list_boards(self._state.deps):
            for row in await store.read(OPEN_RUNS):
                if not await store.read(TIP, plan_id=row.plan_id):
                    continue
                try:
                    repo = await read_repository(store, row.plan_id)
                    if repo is not None:
                        await prover.settle(row.plan_id, repo)
                except AgentTalkError as error:
                    log_unreadable_branch(row.plan_id, error)

    async def find_stale_tasks(self, plan_id: str | None = None) -> StaleTasks:
        """Return the tasks that are stale and not stored as such yet, of one plan or of all. Writes nothing."""
        prover = self._state.prover
        return await watched_branches.find_stale_tasks(self._state.deps, prover, lambda: prover, plan_id)
