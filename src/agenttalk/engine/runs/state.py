"""What the parts of the dispatcher share: the boards, the turns under way, and one way to write."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from agenttalk.engine.budgets.spending import Allowance
from agenttalk.engine.budgets.turn_monitor import TurnMonitors
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.slots import Slots
from agenttalk.engine.plans.definition import DefinitionCache
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transitions import TaskTransitions
from agenttalk.engine.proof.closing import PlanCloser
from agenttalk.engine.runs import folder_agents
from agenttalk.engine.runs.conclusion import FinishedTurn
from agenttalk.engine.runs.leasing import LeaseContext
from agenttalk.ports import Performance, Performer, Processes, Prover, Store
from agenttalk.rules.core.usage import UsageTotals

T = TypeVar("T")


@dataclass(slots=True)
class BoardState:
    """A board and what is known of its plans."""

    store: Store
    sheets: DefinitionCache
    ends: list[tuple[FinishedTurn, asyncio.Future[bool]]] = field(default_factory=list)
    """Turns whose ends wait for the transaction that writes them down together."""
    writing: asyncio.Task[None] | None = None
    """Who does that."""


class DispatcherState(ABC):
    """The state of a dispatcher, and what its parts ask of each other."""

    _deps: Deps
    _performers: Mapping[str, Performer]
    _processes: Processes
    _nudge_router: Callable[[], None]
    _prover: Prover | None
    _slots: Slots
    _desk: LeaseContext
    _boards: dict[str, BoardState]
    _turns: dict[str, asyncio.Task[None]]
    """Turns under way, by their leases."""
    _closings: dict[str, asyncio.Task[None]]
    """Plans that are looked at once more before they end."""
    _ours: set[str]
    """Leases that this process takes care of."""
    _lost: set[str]
    """Leases of turns that our own code failed on: they count as deaths of the engine, so that it ends somewhen."""
    _unpaid: dict[str, tuple[Allowance | None, UsageTotals]]
    """Leases of turns that we ended ourselves, and what they had used of what they may."""
    _revoked: set[str]
    """Leases of turns that are to end, because what they were given was replaced."""
    _wake: asyncio.Event
    _working: set[str]
    """Leases of turns under way, apart from questions to people."""
    _awaiting: set[asyncio.Event]
    """Those who wait until something is heard of a forge."""
    watches: TurnMonitors
    """Who looks on at turns under way."""

    @abstractmethod
    async def _step(
        self, board: BoardState, do: Callable[[TaskTransitions], T], *, after: Sequence[LeasedAttempt] = ()
    ) -> T:
        """Do something in a transaction, and begin in it what it made possible."""

    @abstractmethod
    def _begin(self, board: BoardState, granted: LeasedAttempt, performance: Performance | None = None) -> None:
        """Have a turn carried out."""

    @abstractmethod
    def _closing(self, board: BoardState, plan_id: str) -> PlanCloser:
        """Who looks at what a plan proved."""

    @abstractmethod
    async def recover(self, *, unwanted: Collection[tuple[str, str]] = (), stopping: bool = False) -> int:
        """End leases that nobody takes care of."""

    @abstractmethod
    def _tell(self, *, ended: bool) -> None:
        """Tell whoever follows that something has changed."""

    @abstractmethod
    def _release_decided(self, *, again: bool = False) -> None:
        """A release was decided on, or could not be."""

    def nudge(self) -> None:
        """Look at everything soon."""
        self._wake.set()

    def wake_forge_waiters(self) -> None:
        """Something was heard of a forge: whoever waits for it looks again."""
        for each in self._awaiting:
            each.set()

    def _free(self, granted: LeasedAttempt) -> None:
        self._slots.release(granted.job.agent_id, granted.ticket)

    def _drop(self, taken: list[LeasedAttempt]) -> None:
        for each in taken:
            self._free(each)
            self._ours.discard(each.job.lease)

    async def _board_of(self, plan_id: str) -> BoardState:
        return self._board(await board_of(self._deps, plan_id))

    def _board(self, store: Store) -> BoardState:
        """A board, and what is known of its plans."""
        if store.name not in self._boards:
            self._boards[store.name] = BoardState(store, DefinitionCache(traced=self._deps.traced))
        return self._boards[store.name]


def make_tasks_ready(moves: TaskTransitions, plans: Sequence[str]) -> tuple[int, bool]:
    """Look at plans until enough is ready for one transaction; at how many, and whether there is more in them."""
    looked, due = 0, 0
    for plan_id in plans:
        sheet = moves.sheets.load(moves.tx, plan_id)
        folder_agents.check_folder_tasks(moves, sheet)
        due += moves.advance_due_tasks(sheet)
        looked += 1
        if moves.is_full:
            break
    return looked, due > 0
