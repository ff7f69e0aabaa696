"""A merge train by itself: what is checked on a base that counts no more is never taken, and never lands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from agenttalk.adapters.proving.merge_train import MergeTrain, TrainPlace
from effort import cases


class Branch:
    """A branch that the test moves, and everything that landed there."""

    def __init__(self) -> None:
        self.tip = "begin"
        self.asked: list[str] = []

    async def read(self) -> str:
        return self.tip

    def land(self, commit: str) -> Callable[[str], Awaitable[str | None]]:
        async def advance(tip: str) -> str | None:
            self.asked.append(tip)
            await asyncio.sleep(0)
            if tip != self.tip:
                return None
            self.tip = commit
            return commit

        return advance


async def built(place: TrainPlace, commit: str) -> None:
    """Build a candidate on what it has to be built on, and have it checked."""
    base = await place.find_base()

    async def check() -> str:
        place.offer(base, commit)
        return "passed"

    assert await place.unless_outdated(check(), base) == "passed"


def test_a_check_that_passed_on_a_base_that_counts_no_more_proves_nothing() -> None:
    """It ends in the moment in which the branch moves: both are known when its result is read."""

    async def use() -> None:
        branch = Branch()
        train = MergeTrain(branch.read)
        with train.join("one") as place:
            base = await place.find_base()

            async def check() -> str:
                place.offer(base, "built")
                branch.tip = "by hand"
                await train.read_tip()
                return "passed"

            assert await place.unless_outdated(check(), base) is None
            assert place.is_outdated

    asyncio.run(use())


def test_a_candidate_that_became_outdated_after_its_check_does_not_land() -> None:
    async def use() -> None:
        branch = Branch()
        train = MergeTrain(branch.read)
        with train.join("one") as place:
            await built(place, "built")
            branch.tip = "by hand"
            await train.read_tip()
            assert await place.land(branch.land("built")) is None
            assert await train.land("one", branch.land("built")) is None  # also when it is asked under the lock alone
        assert (branch.tip, branch.asked) == ("by hand", [])

    asyncio.run(use())


def test_a_branch_that_moved_unseen_refuses_the_landing_and_what_was_built_is_outdated() -> None:
    async def use() -> None:
        branch = Branch()
        train = MergeTrain(branch.read)
        with train.join("one") as place:
            await built(place, "built")
            branch.tip = "by hand"
            assert await place.land(branch.land("built")) is None
            assert (branch.tip, place.is_outdated) == ("by hand", True)
            await built(place, "built again")
            assert await place.land(branch.land("built again")) == "built again"

    asyncio.run(use())


@pytest.mark.random
@pytest.mark.parametrize("seed", range(cases(20)))
def test_in_any_order_what_lands_was_checked_on_exactly_what_is_there(seed: int) -> None:
    """Members build and check at random speeds, while others move the branch. Content is the list of what went in."""
    choose = Random(seed)

    async def moments() -> None:
        for _ in range(choose.randrange(8)):
            await asyncio.sleep(0)

    async def use() -> None:
        branch = Branch()
        contents: dict[str, tuple[str, ...]] = {"begin": ("begin",)}
        train = MergeTrain(branch.read)

        async def member(name: str) -> None:
            await moments()
            with train.join(name) as place:
                tries = 0
                while True:
                    base, tries = await place.find_base(), tries + 1
                    commit = f"{name}-{tries}"

                    async def check(base: str = base.commit, commit: str = commit, offer: object = base) -> str:
                        contents[commit] = (*contents[base], name)
                        place.offer(offer, commit)  # type: ignore[arg-type]
                        await moments()
                        return base

                    checked_on = await place.unless_outdated(check(), base)
                    if checked_on is None:
                        continue

                    async def advance(tip: str, on: str = checked_on, commit: str = commit) -> str | None:
                        await moments()
                        if tip != branch.tip:
                            return None
                        assert contents[on] == contents[tip]
                        contents[f"{commit}-vouched"] = contents[commit]
                        branch.tip = f"{commit}-vouched"
                        return branch.tip

                    if await place.land(advance) is not None:
                        return

        async def others() -> None:
            for number in range(choose.randrange(3)):
                for _ in range(choose.randrange(3)):
                    await moments()
                contents[f"by hand {number}"] = (*contents[branch.tip], f"by hand {number}")
                branch.tip = f"by hand {number}"

        names = [f"m{number}" for number in range(choose.randrange(1, 5))]
        async with asyncio.timeout(60):
            await asyncio.gather(others(), *map(member, names))
        assert sorted(each for each in contents[branch.tip] if each in names) == names

    asyncio.run(use())


@pytest.mark.parametrize("gap", range(6))
def test_a_check_is_stopped_at_once_when_its_base_counts_no_more(gap: int) -> None:
    """Two changes come shortly after one another, and the second one makes it outdated."""

    async def use() -> None:
        branch = Branch()
        train = MergeTrain(branch.read)
        stopped = asyncio.Event()
        with train.join("one") as place:
            base = await place.find_base()

            async def check() -> str:
                place.offer(base, "built")
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    stopped.set()
                    raise
                return "passed"

            async def others() -> None:
                for _ in range(5):
                    await asyncio.sleep(0)
                with train.join("two"):
                    for _ in range(gap):
                        await asyncio.sleep(0)
                    branch.tip = "by hand"
                    await train.read_tip()

            async with asyncio.timeout(60):
                outcome, _ = await asyncio.gather(place.unless_outdated(check(), base), others())
            assert (outcome, stopped.is_set()) == (None, True)

    asyncio.run(use())
