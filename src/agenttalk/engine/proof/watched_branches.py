"""Compares the branches of ended plans with the commit at which each ended. Writes nothing, and runs no check."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Final

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.contracts.plan import PlanManifest, Workspace
from agenttalk.engine.core.boards import board_of, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.proof import staleness
from agenttalk.ports.proof import HeadReader, Prover
from agenttalk.ports.statements.messages import PLAN_MANIFEST
from agenttalk.ports.statements.proof import WATCHED_BRANCH, WATCHED_BRANCHES
from agenttalk.ports.storage import Store

LOG = logging.getLogger(__name__)
_PAGE: Final = 100
"""Branches that are read from the store at once."""
StaleTasks = dict[str, frozenset[str]]
"""The stale tasks of each plan."""


async def find_stale_tasks(
    deps: Deps,
    heads: HeadReader | None,
    make_prover: Callable[[], Prover | None],
    plan_id: str | None = None,
) -> StaleTasks:
    """Return the tasks that are stale and not stored as such yet, of one plan or of all.

    `make_prover` is called once a branch has moved: most have not, and a prover is slow to load.
    Views show them as stale at once, also where no engine watches the branches. A branch that cannot be read is logged,
    and does not keep the others from being compared.
    """
    stale: StaleTasks = {}
    async for name in list_watched_plans(deps, plan_id):
        try:
            store = await board_of(deps, name)
            repo = await find_watched_repository(store, name)
            head = await find_moved_head(store, heads, name, repo) if repo is not None else None
            if not head:
                continue
            words = deps.operator.words
            report = await staleness.find_stale(store, make_prover(), name, words, commit=head)
        except AgentTalkError as error:
            log_unreadable_branch(name, error)
        else:
            tasks = frozenset(seen.kept.task_id for seen in report.seen if seen.why)
            stale |= {name: tasks} if tasks else {}
    return stale


async def list_watched_plans(deps: Deps, plan_id: str | None = None) -> AsyncIterator[str]:
    """List the plans whose branches are watched, or the one that is named."""
    if plan_id is not None:
        yield plan_id
        return
    for store in await list_boards(deps):
        after = ""
        while rows := await store.read(WATCHED_BRANCHES, plan_id=after, limit=_PAGE):
            for row in rows:
                yield row.plan_id
            after = rows[-1].plan_id


async def find_watched_repository(store: Store, plan_id: str) -> Workspace | None:
    """Return the repository of a plan if its branch is watched."""
    return await read_repository(store, plan_id) if await store.read(WATCHED_BRANCH, plan_id=plan_id) else None


async def read_repository(store: Store, plan_id: str) -> Workspace | None:
    """Return the repository of a plan, if it has one."""
    [row] = await store.read(PLAN_MANIFEST, plan_id=plan_id)
    return PlanManifest.model_validate_json(bytes(row.manifest)).workspace if row.manifest else None


async def find_moved_head(store: Store, heads: HeadReader | None, plan_id: str, repo: Workspace) -> str | None:
    """Return the head of a watched branch that has moved; None if it has not, and "" if the branch is gone."""
    rows = await store.read(WATCHED_BRANCH, plan_id=plan_id)
    if not rows or heads is None:
        return None
    head = await heads.find_head(plan_id, repo)
    return None if head == rows[0].head else head or ""


def log_unreadable_branch(plan_id: str, error: AgentTalkError) -> None:
    """Log that the branch of a plan cannot be compared."""
    LOG.warning("%s: %s", plan_id, error.message, extra={"action": "branches"})
