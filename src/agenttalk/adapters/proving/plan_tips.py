"""The tips of plans' branches: the store says which commit is the tip, and the branches in repositories follow it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from agenttalk.adapters.workspaces.results import PackedCommits
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.ports.proof import TipStore
from agenttalk.ports.storage import Clock
from agenttalk.rules.proof.performance import TipMove

LOG = logging.getLogger(__name__)
_LOST: Final = "the repository does not have {tip}, the tip of plan {plan}, and the store cannot make it again"


class PlanTips:
    """Keeps the branches of plans where their tips are."""

    def __init__(self, store: TipStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._settling: dict[str, asyncio.Lock] = {}
        """By plan."""

    async def settle(self, space: PlanWorkspace) -> str:
        """Bring the branch of a plan to its tip, and return the tip.

        A commit that no task made becomes the tip first. The plan begins here if it has not begun.
        """
        async with self._settling.setdefault(space.plan, asyncio.Lock()):
            while True:
                tip = await self._store.find_tip(space.plan)
                if tip is None:
                    await self._begin(space)
                    continue
                now = await space.follow(tip, at=self._clock.now())
                if now is None:
                    await self._restore(space, tip)
                    now = await space.follow(tip, at=self._clock.now())
                if now is None:
                    raise MachineError(Code.FILE_UNREADABLE, _LOST.format(tip=tip[:12], plan=space.plan))
                if now == tip:
                    return tip
                await self._store.take_tip(space.plan, await self.pack_move(space, tip, now))

    async def pack_move(self, space: PlanWorkspace, before: str, after: str) -> TipMove:
        """Keep what leads from one tip to the next, so that another repository can get there, too."""
        if before == after:
            return TipMove(before, after)
        packed = await space.pack_move(before, after)
        pack = await self._store.keep_pack(space.plan, packed.pack)
        return TipMove(before, after, pack, packed.attempt, packed.made)

    async def _begin(self, space: PlanWorkspace) -> None:
        """Keep where a plan begins."""
        commit, pack = await space.ensure(), await space.pack_base()
        await self._store.begin_tip(space.plan, commit, await self._store.keep_pack(space.plan, pack) if pack else "")

    async def _restore(self, space: PlanWorkspace, tip: str) -> None:
        """Bring a repository that lost the branch to its tip, by what the store has of each move."""
        moves = await self._store.list_moves(space.plan, tip)
        if not moves or moves[0].before:
            raise MachineError(Code.FILE_UNREADABLE, _LOST.format(tip=tip[:12], plan=space.plan))
        LOG.warning("%s is made again from what the store has", space.branch, extra={"action": "branch.restore"})
        for move in moves:
            pack = await self._store.read_pack(space.plan, move.pack) if move.pack else b""
            await space.restore(moves[0].after, PackedCommits(move.after, move.attempt, move.made, pack))
