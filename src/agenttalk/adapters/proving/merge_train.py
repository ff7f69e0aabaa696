"""The merge train of a plan: attempts that are ready to merge, checked side by side and landed in order.

`rules.core.merge_train` decides what is built on what. This module waits for it, and stops checks of a candidate that
has to be built again. A lost race costs checks, never a turn of an agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypeVar

from agenttalk.rules.core.merge_train import MergeLine

T = TypeVar("T")


class TrainBase(NamedTuple):
    """What a candidate is built on."""

    number: int
    commit: str
    """The candidate of the member before, or the tip of the branch."""
    tip: str
    """The tip of the branch: everything up to it was checked."""


class MergeTrain:
    """The merge train of one plan."""

    def __init__(self, read_tip: Callable[[], Awaitable[str]]) -> None:
        """`read_tip` reads where the plan's branch stands."""
        self._read_tip = read_tip
        self._line = MergeLine()
        self._commits: dict[int, str] = {}
        """Number of a candidate or of the tip → its commit."""
        self._landed = ""
        """The commit of the tip that we know; empty when it has to be read."""
        self._holder: str | None = None
        self._changed = asyncio.Event()
        self._landing = asyncio.Lock()

    # The turn of an attempt after a conflict

    async def hold(self, lease: str) -> None:
        """Wait until no other attempt holds the only turn to merge, and hold it.

        An attempt after a conflict does that from its start to its end, so it cannot conflict again.
        """
        while self._holder not in {None, lease}:
            await self._changed.wait()
        self._holder = lease
        await self.wait_landing()

    async def wait_landing(self) -> None:
        """Wait until a landing that began before is over."""
        async with self._landing:
            pass

    def let_go(self, lease: str) -> None:
        """Free the turn, if this lease holds it."""
        if self._holder == lease:
            self._holder = None
            self._announce()

    # Members

    @contextmanager
    def join(self, lease: str) -> Iterator[TrainPlace]:
        """Stand in line; the holder of the turn stands first. Leaving without having landed rebuilds those behind."""
        # While the train was empty, no member read the branch, so the tip is read again.
        if not self._line.members:
            self._landed = ""
        self._update(self._line.join(lease, first=self._holder == lease))
        try:
            yield TrainPlace(self, lease)
        finally:
            # Also when the attempt was cancelled: those behind must not wait for a candidate that never comes.
            self._update(self._line.leave(lease))
            numbers = {self._line.tip, *(member.build for member in self._line.members)}
            self._commits = {number: commit for number, commit in self._commits.items() if number in numbers}

    async def read_tip(self) -> str:
        """Return the tip of the branch. If another program moved it, every candidate is built again."""
        tip = await self._read_tip()
        if tip != self._landed:
            self._landed = tip
            self._update(self._line.move_tip())
            self._commits[self._line.tip] = tip
        return tip

    @property
    def line(self) -> MergeLine:
        """The order of the members."""
        return self._line

    def _update(self, line: MergeLine) -> None:
        self._line = line
        self._announce()

    def _announce(self) -> None:
        # Callers that wait hold the old event, which stays set. A caller that waits from now on gets the next
        # change, so none is missed and none is seen twice.
        self._changed.set()
        self._changed = asyncio.Event()

    def wait_change(self) -> Coroutine[Any, Any, Literal[True]]:
        """Wait until a member joined, built, failed, landed or left. Each change from this call on counts."""
        # Not a coroutine of our own: as a task, it would begin later, and miss what happens before that.
        return self._changed.wait()

    async def find_base(self, lease: str) -> TrainBase:
        """Find what a member builds on; see `TrainPlace`."""
        self._update(self._line.restart(lease))
        while (number := self._line.find_base(lease)) is None:
            await self._changed.wait()
        if number == self._line.tip:
            tip = await self.read_tip()
            return TrainBase(self._line.tip, tip, tip)
        return TrainBase(number, self._commits[number], self._landed or await self.read_tip())

    def offer(self, lease: str, base: TrainBase, commit: str) -> None:
        """Have those behind build on a candidate; see `TrainPlace`."""
        self._update(self._line.offer(lease, base.number))
        # After the announcement, and yet in time: nothing is awaited in between, so callers that wait run only
        # after this line.
        self._commits[self._line.member(lease).build] = commit

    def fail(self, lease: str, base: TrainBase) -> None:
        """Have those behind skip a candidate."""
        self._update(self._line.fail(lease, base.number))

    def may_land(self, lease: str) -> bool:
        """Return whether a member is the next to land: the first, unless another attempt holds the turn."""
        return self._line.is_first(lease) and self._holder in {None, lease}

    async def land(self, lease: str, advance: Callable[[str], Awaitable[str | None]]) -> str | None:
        """Move the branch to the candidate of the first member; see `TrainPlace`."""
        async with self._landing:
            # Asked again under the lock: while it waited, another member may have landed, or an attempt may have
            # taken the turn.
            if not self.may_land(lease) or self._line.is_outdated(lease):
                return None
            try:
                commit = await advance(self._landed)
            except BaseException:
                self._landed = ""  # it may have moved
                raise
            if commit is None:
                await self.read_tip()
                return None
            self._landed = commit
            self._update(self._line.land(lease))
            return commit


class TrainPlace:
    """The place of one attempt in a train."""

    def __init__(self, train: MergeTrain, lease: str) -> None:
        self._train = train
        self._lease = lease

    async def find_base(self) -> TrainBase:
        """Wait until it is known what to build on. A candidate that was offered before counts no more."""
        return await self._train.find_base(self._lease)

    def offer(self, base: TrainBase, commit: str) -> None:
        """Offer a candidate, so that those behind can build on it while it is checked."""
        self._train.offer(self._lease, base, commit)

    @property
    def is_outdated(self) -> bool:
        """Whether the candidate has to be built again."""
        return self._train.line.is_outdated(self._lease)

    async def unless_outdated(self, work: Coroutine[Any, Any, T], base: TrainBase) -> T | None:
        """Build and check a candidate on a base. Stops that, and returns None, when it has to be built on another."""
        task = asyncio.ensure_future(work)
        change = asyncio.ensure_future(self._train.wait_change())
        try:
            # The base is compared before the result is taken: checks that passed on an outdated base prove nothing.
            while self._train.line.find_base(self._lease) == base.number:
                if task.done():
                    return task.result()
                await asyncio.wait({task, change}, return_when=asyncio.FIRST_COMPLETED)
                if change.done():
                    change = asyncio.ensure_future(self._train.wait_change())
            return None
        finally:
            # Stopped and awaited: no check of an outdated candidate runs on beside those of the next one.
            change.cancel()
            await _stop(task)

    async def fail(self, base: TrainBase) -> bool:
        """Say that the candidate did not pass. True once that is final; False when it has to be built again."""
        self._train.fail(self._lease, base)
        while not self.is_outdated:
            if self._train.line.is_first(self._lease):
                return True
            await self._train.wait_change()
        return False

    async def land(self, advance: Callable[[str], Awaitable[str | None]]) -> str | None:
        """Wait for the turn, move the branch to the candidate, and return its commit.

        None when the candidate has to be built again. `advance` gets the tip that everything before has led to. It
        returns the new one, or None when another program has moved the branch.
        """
        while not self.is_outdated:
            if self._train.may_land(self._lease):
                return await self._train.land(self._lease, advance)
            await self._train.wait_change()
        return None


async def _stop(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait until it has ended, however often the caller is cancelled meanwhile."""
    cancelled = False
    while not task.done():
        task.cancel()
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if not task.cancelled():
        task.exception()  # read it, so that asyncio does not report an exception that was never retrieved
    if cancelled:
        raise asyncio.CancelledError
