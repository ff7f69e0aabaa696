"""The state that the parts of the dispatcher share: boards, running turns and leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agenttalk.engine.budgets.turn_monitor import TurnMonitors
from agenttalk.engine.budgets.used_budgets import Allowance
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.slots import Slots
from agenttalk.engine.plans import transitions
from agenttalk.engine.plans.definition import DefinitionCache
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.runs import folder_agents
from agenttalk.engine.runs.conclusion import FinishedTurn
from agenttalk.engine.runs.job_runner import JobRunner
from agenttalk.engine.runs.leases import LeaseContext
from agenttalk.ports.agents import Processes
from agenttalk.ports.proof import Prover
from agenttalk.ports.storage import Store
from agenttalk.rules.core.usage import UsageTotals


@dataclass(slots=True)
class BoardState:
    """A board and what is known of its plans."""

    store: Store
    sheets: DefinitionCache
    ends: list[tuple[FinishedTurn, asyncio.Future[bool]]] = field(default_factory=list)
    """Turns whose ends wait for the transaction that writes them down together."""
    writing: asyncio.Task[None] | None = None
    """The task that writes them."""


@dataclass(slots=True, eq=False)
class DispatcherState:
    """The state that the parts of the dispatcher share: boards, running turns and leases. It decides nothing."""

    deps: Deps
    jobs: JobRunner
    processes: Processes
    nudge_router: Callable[[], None]
    prover: Prover | None
    slots: Slots
    desk: LeaseContext
    boards: dict[str, BoardState] = field(default_factory=dict)
    turns: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """Turns under way, by their leases."""
    closings: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """Plans whose proofs are checked once more before they end."""
    ours: set[str] = field(default_factory=set)
    """Leases that this process takes care of."""
    lost: set[str] = field(default_factory=set)
    """Leases of turns that ended with an unhandled error. They count as deaths of the engine, so that retries end."""
    unpaid: dict[str, tuple[Allowance | None, UsageTotals]] = field(default_factory=dict)
    """Leases of turns that this process ended itself, with what limits them and what they had used."""
    kept: set[str] = field(default_factory=set)
    """Leases of turns that a person interrupted, and whose work was kept."""
    revoked: set[str] = field(default_factory=set)
    """Leases of turns that are to end, because their inputs were replaced."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    working: set[str] = field(default_factory=set)
    """Leases of turns under way, except for questions to people."""
    awaiting: set[asyncio.Event] = field(default_factory=set)
    """Set when a forge reports something, for turns whose work is read there."""
    watches: TurnMonitors = field(default_factory=TurnMonitors)
    """The monitors of turns under way."""
    ended: set[str] = field(default_factory=set)
    """Plans that ended since `Dispatcher.pop_ended_plans` was called last."""
    followers: set[asyncio.Event] = field(default_factory=set)
    """Set whenever something changed."""
    waiters: set[asyncio.Event] = field(default_factory=set)
    """Set when a plan ended, or nothing is under way but questions to people."""

    def nudge(self) -> None:
        """Start a pass soon."""
        self.wake.set()

    def wake_forge_waiters(self) -> None:
        """Have turns that wait for a forge check again."""
        for event in self.awaiting:
            event.set()

    def report_release_decision(self, *, again: bool = False) -> None:
        """Announce that a release was decided, or that another pass has to try `again`."""
        if again:
            self.wake.set()
        self.announce(ended=True)

    def free(self, granted: LeasedAttempt) -> None:
        """Release the slot of an attempt. Doing it twice is harmless, because the ticket is used up."""
        self.slots.release(granted.job.agent_id, granted.ticket)

    def drop(self, taken: list[LeasedAttempt]) -> None:
        """Forget leases whose transaction was rolled back."""
        for granted in taken:
            self.free(granted)
            self.ours.discard(granted.job.lease)

    async def board_of(self, plan_id: str) -> BoardState:
        """Open the board of a plan."""
        return self.board(await board_of(self.deps, plan_id))

    def board(self, store: Store) -> BoardState:
        """Return a board with its cached definitions."""
        if store.name not in self.boards:
            self.boards[store.name] = BoardState(store, DefinitionCache(self.deps.submitted, traced=self.deps.traced))
        return self.boards[store.name]

    def announce(self, *, ended: bool) -> None:
        """Wake everything that waits for changes; `ended` also what waits for the end of a plan."""
        for follower in self.followers:
            follower.set()
        if ended or not self.working:
            for waiter in self.waiters:
                waiter.set()


def make_tasks_ready(moves: PlanTransaction, plans: Sequence[str]) -> tuple[int, bool]:
    """Make tasks of plans ready until there are enough for one transaction.

    Returns how many plans were checked, and whether they have more due tasks.
    """
    looked, due = 0, 0
    for plan_id in plans:
        sheet = moves.definitions.load(moves.tx, plan_id)
        folder_agents.check_folder_tasks(moves, sheet)
        due += transitions.advance_due_tasks(moves, sheet)
        looked += 1
        if moves.room == 0:
            break
    return looked, due > 0
