"""The tip of a plan's branch: a row that is moved by compare-and-swap. The branch in the repository follows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agenttalk.contracts.errors import Code, ConflictError
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.agents import AttemptBase, Job
from agenttalk.ports.statements.agents import HAND_IN, HANDED_IN
from agenttalk.ports.statements.proof import BEGIN_TIP, KEEP_TIP_PACK, MOVE_TIP, TIP, TIP_PACKS
from agenttalk.ports.storage import Tx
from agenttalk.rules.proof.performance import TipMove

_BASE: Final = "base"
"""The kind of row that keeps the base of an attempt, beside what its agent hands in."""


@dataclass(frozen=True, slots=True)
class StoredTips:
    """The tips of plans' branches, and what attempts elsewhere build on. The ports `TipStore` and `BaseStore`."""

    deps: Deps

    async def find_tip(self, plan_id: str) -> str | None:
        """Return the tip of a plan's branch; see the port."""
        rows = await (await board_of(self.deps, plan_id)).read(TIP, plan_id=plan_id)
        return rows[0].commit_id if rows else None

    async def begin_tip(self, plan_id: str, commit: str, pack: str) -> None:
        """Keep where a plan begins; see the port."""

        def begin(tx: Tx) -> None:
            tx.run(BEGIN_TIP, plan_id=plan_id, commit_id=commit)
            _keep_pack(tx, plan_id, TipMove("", commit, pack))

        await (await board_of(self.deps, plan_id)).transact(begin)

    async def keep_pack(self, plan_id: str, pack: bytes) -> str:
        """Keep a pack; see the port."""
        board = await board_of(self.deps, plan_id)
        return await (await self.deps.stores.blobs(board.name)).put(pack)

    async def read_pack(self, plan_id: str, pack: str) -> bytes:
        """Read a pack; see the port."""
        board = await board_of(self.deps, plan_id)
        return await (await self.deps.stores.blobs(board.name)).get(pack)

    async def list_moves(self, plan_id: str, tip: str) -> Sequence[TipMove]:
        """List the moves of the tip; see the port."""
        rows = await (await board_of(self.deps, plan_id)).read(TIP_PACKS, plan_id=plan_id)
        moves = {row.commit_id: TipMove(row.onto, row.commit_id, row.pack, row.attempt_key, row.made) for row in rows}
        found: list[TipMove] = []
        at = tip
        while at and at in moves:  # each commit is taken once, so a circle ends, too
            found.append(moves.pop(at))
            at = found[-1].before
        return found[::-1]

    async def take_tip(self, plan_id: str, move: TipMove) -> None:
        """Move the tip to a commit that no task made, and record that; see the port."""

        def take(tx: Tx) -> None:
            if _swap(tx, plan_id, move):
                tx.record("tip.taken", plan_id, {"before": move.before, "commit": move.after})

        await (await board_of(self.deps, plan_id)).transact(take)

    async def find_base(self, job: Job) -> AttemptBase | None:
        """Find the base of an attempt; see the port `BaseStore`."""
        rows = await (await self.deps.stores.board(job.board)).read(HANDED_IN, **_about(job))
        return next((AttemptBase(row.name, row.path) for row in rows if row.kind == _BASE), None)

    async def keep_base(self, job: Job, base: AttemptBase) -> AttemptBase:
        """Keep the base of an attempt; see the port."""
        board, at = await self.deps.stores.board(job.board), self.deps.stamp()

        def keep(tx: Tx) -> AttemptBase:
            for row in tx.run(HANDED_IN, **_about(job)):
                if row.kind == _BASE:
                    return AttemptBase(row.name, row.path)
            kept = {"kind": _BASE, "name": base.start, "path": base.onto}
            tx.run(HAND_IN, **_about(job), **kept, sha256="", size=0, body=b"", at=at)
            return base

        return await board.transact(keep)


def _about(job: Job) -> dict[str, str | int]:
    return {"plan_id": job.plan_id, "task_id": job.task_id, "epoch": job.epoch}


def move_tip(tx: Tx, plan_id: str, move: TipMove) -> None:
    """Move the tip of a plan's branch to work that is done. Raises TIP_MOVED when it is not what that was built on."""
    if not _swap(tx, plan_id, move):
        what = f"the branch of plan {plan_id!r} is not at {move.before[:12]} any more"
        raise ConflictError(Code.TIP_MOVED, what, hint="nothing is kept of this; the work is built and checked again")


def _swap(tx: Tx, plan_id: str, move: TipMove) -> bool:
    is_moved = bool(tx.run(MOVE_TIP, plan_id=plan_id, commit_id=move.after, expected=move.before))
    if is_moved and move.after != move.before:
        _keep_pack(tx, plan_id, move)
    return is_moved


def _keep_pack(tx: Tx, plan_id: str, move: TipMove) -> None:
    about = {"plan_id": plan_id, "commit_id": move.after, "onto": move.before}
    tx.run(KEEP_TIP_PACK, **about, pack=move.pack, attempt_key=move.attempt, made=move.made)
