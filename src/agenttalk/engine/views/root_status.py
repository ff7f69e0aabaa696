"""Shows the status of a whole root: its plans, its board of forge events, open questions, honesty and spending."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from agenttalk.engine.budgets import day_limit
from agenttalk.engine.core import boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.proof import honesty
from agenttalk.engine.views import plan_status
from agenttalk.ports.statements.core import COUNTED_OPEN

if TYPE_CHECKING:
    from agenttalk.engine.views.models.root import RootStatus


async def read_root_status(deps: Deps, day_cost_usd: float | None, stale: Mapping[str, Collection[str]]) -> RootStatus:
    """Return the status of a root. `day_cost_usd` is the limit of the settings.

    `stale` names the tasks of each plan that were found stale, which is not stored yet.
    """
    requests, dead_letters = await count_waiting(deps)
    status: RootStatus = {
        "plans": (await plan_status.read_status_overview(deps, stale))["plans"],
        "open_requests": requests,
        "open_deadletters": dead_letters,
        "honesty": await honesty.sum_tallies(deps),
        "day": await day_limit.describe_day(deps, day_cost_usd),
    }
    if deps.stores.has_board(boards.TOOLCHAIN):
        from agenttalk.engine.views import toolchain  # few roots have forges, and this is read often

        board = await toolchain.summarize_board(deps)
        if board is not None:
            status["toolchain"] = board
    if deps.broken:
        status["broken_boards"] = {name: problem.message for name, problem in deps.broken.items()}
    return status


async def count_waiting(deps: Deps) -> tuple[int, int]:
    """Return how many questions and how many dead letters are open."""
    counts = [(await board.read(COUNTED_OPEN))[0] for board in await boards.list_boards(deps)]
    return sum(requests for requests, _ in counts), sum(dead for _, dead in counts)
