"""Watches the branches of ended plans: a commit there can outdate what a plan proved."""

from __future__ import annotations

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.engine.proof import watched_branches
from agenttalk.engine.proof.watched_branches import (
    StaleTasks,
    find_watched_repository,
    list_watched_plans,
    log_unreadable_branch,
)
from agenttalk.engine.runs.state import DispatcherState
from agenttalk.engine.runs.steps import StepWriter


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

    async def find_stale_tasks(self, plan_id: str | None = None) -> StaleTasks:
        """Return the tasks that are stale and not stored as such yet, of one plan or of all. Writes nothing."""
        state = self._state
        return await watched_branches.find_stale_tasks(
            state.deps, state.prover, lambda store: state.board(store).sheets, plan_id
        )
