"""Boards: which are in use, and on which of them a plan lives."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from agenttalk.contracts.errors import MachineError, Problem
from agenttalk.ports.statements.core import BOARD_OF, BOARDS_IN_USE, PLACE_PLAN
from agenttalk.ports.statements.messages import PLAN
from agenttalk.ports.statements.plans import RUN_STATE

if TYPE_CHECKING:
    from agenttalk.engine.core.deps import Deps
    from agenttalk.ports.storage import Store

LOG = logging.getLogger(__name__)
DEFAULT: Final = "default"
SYSTEM: Final = "system"
MAIL: Final = "_mail"
TOOLCHAIN: Final = "_toolchain"
VIRTUAL: Final = frozenset({MAIL, TOOLCHAIN})


async def board_of(deps: Deps, plan_id: str) -> Store:
    """Find the board of a plan: its own for `_mail` and `_toolchain`, else the one it was placed on."""
    if plan_id in VIRTUAL:
        return await deps.stores.board(plan_id)
    system = await deps.stores.board(SYSTEM)
    rows = await system.read(BOARD_OF, plan_id=plan_id)
    return await deps.stores.board(rows[0].board if rows else DEFAULT)


async def list_boards(deps: Deps) -> list[Store]:
    """List every board that is in use. The default one is always listed, and comes first."""
    system = await deps.stores.board(SYSTEM)
    names = {row.board for row in await system.read(BOARDS_IN_USE)} - {DEFAULT}
    apart = VIRTUAL | deps.kinds.keys()
    found = [await deps.stores.board(name) for name in [DEFAULT, *sorted(names - apart)]]
    virtual = [await open_if_readable(deps, name) for name in sorted(apart) if deps.stores.has_board(name)]
    return [*found, *(board for board in virtual if board is not None)]


async def open_if_readable(deps: Deps, name: str) -> Store | None:
    """Open a virtual board, if it can be read. A broken one must not stop the others; it raises an alert."""
    try:
        board = await deps.stores.board(name)
        await board.read(RUN_STATE, plan_id=name)
    except MachineError as error:
        if name not in deps.broken:
            deps.broken[name] = Problem(error.code, "", error.message, error.hint)
            LOG.warning("the board %s is left out: %s", name, error.message, extra={"action": "boards.broken"})
        return None
    if deps.broken.pop(name, None) is not None:
        LOG.warning("the board %s is back", name, extra={"action": "boards.sound"})
    return board


async def place_plan(deps: Deps, plan_id: str, board: str = DEFAULT) -> Store:
    """Place a plan on a board, unless it has one already."""
    system = await deps.stores.board(SYSTEM)
    rows = await system.read(BOARD_OF, plan_id=plan_id)
    if rows or board == DEFAULT:  # the default board needs no row
        return await deps.stores.board(rows[0].board if rows else DEFAULT)
    default = await deps.stores.board(DEFAULT)
    if await default.read(PLAN, plan_id=plan_id):
        return default
    await system.transact(lambda tx: tx.run(PLACE_PLAN, plan_id=plan_id, where=board))
    return await board_of(deps, plan_id)
