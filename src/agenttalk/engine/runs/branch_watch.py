"""Watches the branches of ended plans: a commit there can outdate what a plan proved."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Final

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.contracts.plan import PlanManifest, Workspace
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.runs.state import BoardState, DispatcherState
from agenttalk.engine.runs.steps import StepWriter
from agenttalk.ports.statements.messages import PLAN_MANIFEST
from agenttalk.ports.statements.proof import WATCHED_BRANCH, WATCHED_BRANCHES

LOG = logging.getLogger(__name__)
_PAGE: Final = 100
"""Branches that are read from the store at once."""
StaleTasks = dict[str, frozenset[str]]
"""The stale tasks of each plan."""


class BranchWatch:
    """Compares branches with the commit at which each plan ended. No check is run for it.

    A branch that cannot be read is logged, and does not keep the others from being compared.
    """

    def __init__(self, state: DispatcherState, steps: StepWriter) -> None:
        self._state = state
        self._steps = steps

    async def record_stale_tasks(self, plan_id: str | None = None) -> None:
        """Compare a branch, or all of them, and store which evidence is stale. A plan with stale evidence goes on."""
        async for name in self._list_plans(plan_id):
            try:
                await self.record_stale_tasks_of(name)
            except AgentTalkError as error:
                _log(name, error)

    async def record_stale_tasks_of(self, plan_id: str) -> bool:
        """Do the same for one plan. Returns whether any of its evidence is stale. Raises what the repository raises."""
        board, repo = await self._find(plan_id)
        if repo is None:
            return False
        stale = await self._steps.closer_of(board, plan_id).check_branch(repo)
        if stale:
            self._state.nudge()
        return stale

    async def find_stale_tasks(self, plan_id: str | None = None) -> StaleTasks:
        """Return the tasks that are stale and not stored as such yet, of one plan or of all. Writes nothing.

        Views show them as stale at once, also where no engine watches the branches.
        """
        found: StaleTasks = {}
        async for name in self._list_plans(plan_id):
            try:
                board, repo = await self._find(name)
                tasks = await self._steps.closer_of(board, name).find_stale_tasks(repo) if repo is not None else None
            except AgentTalkError as error:
                _log(name, error)
            else:
                found |= {name: tasks} if tasks else {}
        return found

    async def _list_plans(self, plan_id: str | None = None) -> AsyncIterator[str]:
        if plan_id is not None:
            yield plan_id
            return
        for store in await list_boards(self._state.deps):
            after = ""
            while rows := await store.read(WATCHED_BRANCHES, plan_id=after, limit=_PAGE):
                for row in rows:
                    yield row.plan_id
                after = rows[-1].plan_id

    async def _find(self, plan_id: str) -> tuple[BoardState, Workspace | None]:
        """Return the board of a plan, and its repository if its branch is watched."""
        board = await self._state.board_of(plan_id)
        if not await board.store.read(WATCHED_BRANCH, plan_id=plan_id):
            return board, None
        [row] = await board.store.read(PLAN_MANIFEST, plan_id=plan_id)
        return board, PlanManifest.model_validate_json(bytes(row.manifest)).workspace if row.manifest else None


def _log(plan_id: str, error: AgentTalkError) -> None:
    LOG.warning("%s: %s", plan_id, error.message, extra={"action": "branches"})
