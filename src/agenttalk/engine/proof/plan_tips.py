"""The tip of a plan's branch: a row that is moved by compare-and-swap. The branch in the repository follows it."""

from __future__ import annotations

from dataclasses import dataclass

from agenttalk.contracts.errors import Code, ConflictError
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.statements.proof import BEGIN_TIP, MOVE_TIP, TIP
from agenttalk.ports.storage import Tx
from agenttalk.rules.proof.performance import TipMove


@dataclass(frozen=True, slots=True)
class StoredTips:
    """The tips of plans' branches. Implements the port `TipStore`."""

    deps: Deps

    async def find_tip(self, plan_id: str) -> str | None:
        """Return the tip of a plan's branch; see the port."""
        rows = await (await board_of(self.deps, plan_id)).read(TIP, plan_id=plan_id)
        return rows[0].commit_id if rows else None

    async def begin_tip(self, plan_id: str, commit: str) -> None:
        """Keep where a plan begins; see the port."""
        board = await board_of(self.deps, plan_id)
        await board.transact(lambda tx: tx.run(BEGIN_TIP, plan_id=plan_id, commit_id=commit))

    async def take_tip(self, plan_id: str, move: TipMove) -> None:
        """Move the tip to a commit that no task made, and record that; see the port."""

        def take(tx: Tx) -> None:
            if _swap(tx, plan_id, move):
                tx.record("tip.taken", plan_id, {"before": move.before, "commit": move.after})

        await (await board_of(self.deps, plan_id)).transact(take)


def move_tip(tx: Tx, plan_id: str, move: TipMove) -> None:
    """Move the tip of a plan's branch to work that is done. Raises TIP_MOVED when it is not what that was built on."""
    if not _swap(tx, plan_id, move):
        what = f"the branch of plan {plan_id!r} is not at {move.before[:12]} any more"
        raise ConflictError(Code.TIP_MOVED, what, hint="nothing is kept of this; the work is built and checked again")


def _swap(tx: Tx, plan_id: str, move: TipMove) -> bool:
    return bool(tx.run(MOVE_TIP, plan_id=plan_id, commit_id=move.after, expected=move.before))
