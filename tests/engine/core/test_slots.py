"""Places for turns: one for each agent, shared by everybody who has it work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agenttalk.engine.core.deps import Deps, EngineLimits
from agenttalk.engine.core.slots import Slots
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.inbox.tick_report import TickReport
from agenttalk.ports.agents import ProgramTurn, TurnEnd
from kits.agentkit import Desk
from kits.treekit import Tree

PATIENCE = 300.0


def test_an_agent_has_one_place_and_the_machine_so_many() -> None:
    slots = Slots(2)
    one, two = slots.acquire("a"), slots.acquire("b")
    assert (one is not None, two is not None, slots.acquire("a"), slots.acquire("c")) == (True, True, None, None)
    assert slots.busy == {"a", "b"}


def test_a_place_is_given_back_by_its_own_ticket_alone() -> None:
    slots = Slots(2)
    old = slots.acquire("a")
    assert old is not None
    slots.release("a", old)
    new = slots.acquire("a")
    assert slots.release("a", old) is False
    assert (new != old, set(slots.busy)) == (True, {"a"})


@pytest.mark.parametrize(("asks", "said"), [("a", True), ("b", False), (None, False)])
def test_whoever_gives_a_place_back_hears_whether_somebody_asked_for_it(asks: str | None, said: bool) -> None:
    slots = Slots(3)
    ticket = slots.acquire("a")
    other = slots.acquire("b")
    assert ticket is not None
    assert other is not None
    if asks:
        assert slots.acquire(asks) is None
    assert slots.release("a", ticket) is said
    assert slots.release("b", other) is (asks == "b")


def test_of_a_full_machine_everybody_hears() -> None:
    slots = Slots(1)
    ticket = slots.acquire("a")
    assert ticket is not None
    assert slots.acquire("b") is None
    assert slots.release("a", ticket) is True


def test_whoever_waits_is_handed_the_place_and_nobody_comes_between() -> None:
    slots = Slots(2)
    given: list[int] = []
    ticket = slots.acquire("a")
    assert ticket is not None
    assert slots.acquire("a", given.append) is None
    slots.release("a", ticket)
    assert (len(given), slots.acquire("a"), set(slots.busy)) == (1, None, {"a"})
    slots.release("a", given[0])
    assert slots.busy == frozenset()


def test_whoever_waits_while_the_machine_is_full_has_the_next_place() -> None:
    slots = Slots(1)
    given: list[int] = []
    ticket = slots.acquire("a")
    assert ticket is not None
    assert slots.acquire("b", given.append) is None
    slots.release("a", ticket)
    assert (len(given), set(slots.busy)) == (1, {"b"})


def test_whoever_left_is_handed_nothing() -> None:
    slots = Slots(1)
    given: list[int] = []
    ticket = slots.acquire("a")
    assert ticket is not None
    slots.acquire("a", given.append)
    slots.stop_waiting("a")
    slots.release("a", ticket)
    assert (given, slots.busy) == ([], frozenset())


# A heartbeat shares the place of its agent.


class Never:
    """Nothing wakes it but what it knows itself."""

    async def wait_for_change(self, timeout: float) -> set[str]:  # noqa: ARG002, ASYNC109
        await asyncio.Event().wait()
        return set()


class Played:
    """A driver whose turns end when the test says so."""

    def __init__(self) -> None:
        self.began: asyncio.Queue[ProgramTurn] = asyncio.Queue()
        self.goes: asyncio.Queue[None] = asyncio.Queue()

    async def run(self, turn: ProgramTurn) -> TurnEnd:
        self.began.put_nowait(turn)
        await self.goes.get()
        return TurnEnd("finished", 0, b"done", b"", 0.1)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(Tree(tmp_path), limits=EngineLimits(poll_seconds=1000))
    desk.program("")
    return desk


Use = Callable[[Played, asyncio.Queue[TickReport]], Awaitable[None]]


def driven(desk: Desk, slots: Slots, use: Use, *commands: str) -> int:
    """Have a heartbeat work while the test has its agent work as well; how often others were told to ask again."""
    for each in commands:
        desk.command(each, produces=[])
    told: list[str] = []
    driver = Played()

    async def scenario(beat: Heartbeat, _: Deps) -> None:
        stop, ticks = asyncio.Event(), asyncio.Queue[TickReport]()
        running = asyncio.create_task(beat.run(stop, Never(), ticks.put_nowait))
        try:
            async with asyncio.timeout(PATIENCE):
                await use(driver, ticks)
        finally:
            stop.set()
            await running
        assert slots.busy == frozenset()

    desk.play(scenario, driver=driver, slots=slots, freed=lambda: told.append("freed"))
    return len(told)


def test_a_heartbeat_begins_when_its_agent_has_done_what_others_asked_for(desk: Desk) -> None:
    slots = Slots(8)
    ticket = slots.acquire("dev")
    assert ticket is not None

    async def use(driver: Played, ticks: asyncio.Queue[TickReport]) -> None:
        tick = await ticks.get()
        assert (tick.waiting, tick.running, driver.began.empty()) == (1, 0, True)
        await asyncio.to_thread(slots.release, "dev", ticket)  # whoever writes to a board has a thread of its own
        await driver.began.get()
        assert slots.acquire("dev") is None
        driver.goes.put_nowait(None)
        while not (await ticks.get()).ran:
            pass

    assert driven(desk, slots, use, "build") == 1


def test_a_heartbeat_and_others_take_turns(desk: Desk) -> None:
    slots = Slots(8)

    async def use(driver: Played, ticks: asyncio.Queue[TickReport]) -> None:
        await driver.began.get()
        assert slots.acquire("dev") is None
        driver.goes.put_nowait(None)
        while not (await ticks.get()).ran:
            pass
        ticket = slots.acquire("dev")  # it has another command, but we asked before
        assert ticket is not None
        assert driver.began.empty()
        slots.release("dev", ticket)
        await driver.began.get()
        driver.goes.put_nowait(None)
        while not (await ticks.get()).ran:
            pass

    assert driven(desk, slots, use, "one", "two") == 1


def test_a_heartbeat_goes_on_when_others_do_not_want_the_place_any_more(desk: Desk) -> None:
    slots = Slots(8)

    async def use(driver: Played, ticks: asyncio.Queue[TickReport]) -> None:
        await driver.began.get()
        assert slots.acquire("dev") is None
        for _ in range(2):
            driver.goes.put_nowait(None)
            while not (await ticks.get()).ran:
                pass

    assert driven(desk, slots, use, "one", "two") == 1


def test_a_heartbeat_that_nobody_shares_with_goes_on_at_once(desk: Desk) -> None:
    async def use(driver: Played, ticks: asyncio.Queue[TickReport]) -> None:
        for _ in range(2):
            await driver.began.get()
            driver.goes.put_nowait(None)
        while not (await ticks.get()).ran:
            pass

    assert driven(desk, Slots(8), use, "one", "two") == 0


def test_a_heartbeat_that_ends_waits_for_nothing(desk: Desk) -> None:
    slots = Slots(8)
    ticket = slots.acquire("dev")
    assert ticket is not None

    async def use(_: Played, ticks: asyncio.Queue[TickReport]) -> None:
        assert (await ticks.get()).waiting == 1

    with pytest.raises(AssertionError, match="dev"):
        driven(desk, slots, use, "build")
    slots.release("dev", ticket)
    assert slots.busy == frozenset()


def test_more_places_go_to_those_who_wait_and_fewer_throw_nobody_out() -> None:
    slots, came = Slots(1), list[int]()
    assert slots.acquire("a", came.append) is not None
    assert slots.acquire("b", came.append) is None
    assert slots.acquire("c", came.append) is None
    slots.resize(2)
    assert len(came) == 1
    assert slots.busy == {"a", "b"}
    slots.resize(1)
    assert slots.busy == {"a", "b"}
    slots.release("b", came[0])
    assert slots.busy == {"a"}, "one is as many as may"
    slots.resize(5)
    assert slots.busy == {"a", "c"}
