"""The loops of an engine for its forges: process deliveries, post texts, and reconcile tasks with the forges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agenttalk.contracts.errors import Code, Problem
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.loops import Waiter, run_listener, run_loop, run_unless_stopped, sleep_unless_stopped
from agenttalk.engine.messages.router import POLL
from agenttalk.engine.toolchain.board import BOARD, ToolchainBoard, ToolchainSetup
from agenttalk.engine.toolchain.deliveries import (
    ContentReader,
    DeliveryProcessor,
    PullRequestSearch,
    ReviewerReader,
    WriteAccessReader,
)
from agenttalk.engine.toolchain.forge_posts import ForgePoster, Retry
from agenttalk.engine.toolchain.receiver import DeliveryReceiver
from agenttalk.engine.toolchain.reconciler import Reconciler
from agenttalk.ports.forge import EventSource, Forge

_NEVER: Final = 1e9
"""Seconds after which a loop that only runs at the start would run again."""


@dataclass(frozen=True, slots=True)
class ForgeConnections:
    """The forges of an engine, as they are configured."""

    sources: Mapping[str, EventSource]
    setup: ToolchainSetup
    asked: ReviewerReader | None = None
    gather: ContentReader | None = None
    search: PullRequestSearch | None = None
    rights: WriteAccessReader | None = None
    forges: Mapping[str, Forge] = field(default_factory=dict)
    """The forges for which the engine has a token."""
    reconcile_every: float = 0
    """Seconds between two passes of the reconciler. 0 means only at the start."""


class ForgeLoops:
    """Runs the loops. `receiver` stores deliveries; `reconciler` reads the forges for which the engine has a token."""

    def __init__(
        self,
        deps: Deps,
        connected: ForgeConnections,
        *,
        address: Callable[[], str],
        retry: Retry,
        nudge: Callable[[], None],
        heard: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the wiring: `address` returns the engine's address, `retry` tries a task again.

        `nudge` wakes the dispatcher for new tasks. `heard` is called when something may have happened at a forge.
        """
        self._heard = heard
        self._deps = deps
        self._nudge_dispatcher = nudge
        self._every = connected.reconcile_every
        self._at_intake = Waiter()
        self._at_outgoing = Waiter()
        self._taken = asyncio.Event()
        self._board = board = ToolchainBoard(deps, connected.setup, address)
        self.receiver = DeliveryReceiver(deps, connected.sources, self._at_intake.nudge)
        self.reconciler: Reconciler | None = None
        if connected.forges:
            self.reconciler = Reconciler(
                deps,
                board,
                connected.forges,
                gather=connected.gather,
                rights=connected.rights,
                nudge=self._taken_in,
            )
        self._intake = DeliveryProcessor(
            deps,
            connected.sources,
            board,
            asked=connected.asked,
            gather=connected.gather,
            search=connected.search,
            rights=connected.rights,
            nudge=self._taken_in,
        )
        self._outgoing = ForgePoster(deps, board, connected.forges, retry=retry, nudge=nudge)

    def nudge(self) -> None:
        """Wake the loop that posts at the forges."""
        self._at_outgoing.nudge()

    def loops(self, stop: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
        """Return the loops, which run until `stop` is set."""
        loops = [
            run_loop("intake", stop, self._at_intake, lambda: self._take_in(stop), lambda took: 0.0 if took else POLL),
            run_loop("outgoing", stop, self._at_outgoing, self._outgoing.pass_, lambda pause: pause),
        ]
        if self.reconciler is not None:
            reconcile = self._reconcile
            pause = self._every or _NEVER
            loops.append(
                run_loop("reconcile", stop, Waiter(), lambda: run_unless_stopped(stop, reconcile()), lambda _: pause)
            )
        return loops

    async def listen(self) -> None:
        """Wake the poster when the end of a turn leaves an effect. Runs until cancelled."""
        await run_listener("effects", self._hear_effects, "effects of turns wait for the next poll")

    async def _hear_effects(self) -> None:
        """Wait until the first event made the board, then wake the poster for each effect."""
        while not self._deps.stores.has_board(BOARD):
            self._taken.clear()
            await self._taken.wait()
        store, seen = await self._deps.stores.board(BOARD), 0
        while True:
            seen = await store.wait_for_effects(seen)
            self._at_outgoing.nudge()

    async def _reconcile(self) -> None:
        """Reconcile once, and report that something may have happened at a forge."""
        if self.reconciler is not None:
            await self.reconciler.pass_()
        self._heard()

    async def _take_in(self, stop: asyncio.Event) -> int:
        rush = self.receiver.rush
        while (pause := rush.pause()) and not stop.is_set():
            await sleep_unless_stopped(stop, pause)
        while self.receiver.refused:
            await self._board.warn(_refusal(*self.receiver.refused.popitem()))
        took = await self._intake.pass_()
        rush.note_decided(took)
        if took:
            self._heard()
        return took

    def _taken_in(self) -> None:
        self._taken.set()
        self._nudge_dispatcher()
        self._at_outgoing.nudge()


def _refusal(source: str, why: str) -> Problem:
    """Make the warning for the operator about refused deliveries."""
    text = f"webhooks for the source {source!r} are refused: {why}"
    hint = "set the same secret in the forge's hook and in the source"
    return Problem(Code.FORGE_SIGNATURE_REFUSED, "secret", text, hint)
