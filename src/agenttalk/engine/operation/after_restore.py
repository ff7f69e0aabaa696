"""After a restore: what the root may have done since its backup is not done again by itself.

Plans and boards are paused until a person resumes them. Leases get an owner that does not exist, so that programs of
the old root are neither ended nor waited for. Texts for forges are searched for at the forge before they are written.
Waiting notices are dropped, because they may have been sent.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Final

from agenttalk.engine.core.boards import SYSTEM, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.plans import control
from agenttalk.engine.runs.resume import NO_OWNER
from agenttalk.ports.statements.operation import DISOWN_LEASES, DOUBT_OUTGOING, DROP_NOTICES, PAUSE_SCHEDULES
from agenttalk.ports.statements.plans import OPEN_RUNS
from agenttalk.ports.storage import Store, Tx

BY: Final = "restore"
"""In whose name plans are paused."""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """The findings in a restored root."""

    paused: tuple[str, ...] = ()
    """Plans and boards that a person has to resume."""
    turns: int = 0
    """Turns that ran when the backup was made."""
    in_doubt: int = 0
    """Texts for forges that may have been posted since."""
    schedules: tuple[str, ...] = ()
    """Schedules that a person has to resume."""

    def as_json(self) -> dict[str, object]:
        """Return it as JSON."""
        return asdict(self)


async def secure_restored_root(deps: Deps, *, made_at: str, pause: bool = True) -> RestoreReport:
    """Make a restored root safe to be started; with `pause`, nothing of it continues by itself."""
    suffix = f":{deps.ids.new('restored')}"
    total = RestoreReport()
    for board in await list_boards(deps):
        found = await _secure_board(deps, board, suffix, pause=pause)
        total = RestoreReport(
            (*total.paused, *found.paused), total.turns + found.turns, total.in_doubt + found.in_doubt
        )
    system = await deps.stores.board(SYSTEM)

    def work(tx: Tx) -> RestoreReport:
        names = tuple(str(row.name) for row in tx.run(PAUSE_SCHEDULES)) if pause else ()
        found = replace(total, schedules=names)
        tx.record("root.restored", SYSTEM, {"made_at": made_at, **found.as_json()})
        return found

    return await system.transact(work)


async def _secure_board(deps: Deps, board: Store, suffix: str, *, pause: bool) -> RestoreReport:
    def work(tx: Tx) -> RestoreReport:
        at = deps.stamp()
        paused = []
        for plan_id, state, _ in tx.run(OPEN_RUNS):
            if pause and state == "RUNNING":
                control.pause(tx, plan_id, by=BY, at=at)
            if state != "SUBMITTED" and (pause or state == "PAUSED"):
                paused.append(str(plan_id))
        leases = tx.run(DISOWN_LEASES, suffix=suffix, owner=NO_OWNER)
        tx.run(DROP_NOTICES)
        return RestoreReport(tuple(paused), len(leases), len(tx.run(DOUBT_OUTGOING)))

    return await board.transact(work)
