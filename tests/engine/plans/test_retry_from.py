"""Running a plan again from a task on, through the dispatcher."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.errors import UsageError
from kits.plankit import Engine, plan, play, states, task
from kits.standingkit import PlanStanding


def test_what_runs_is_ended_before_it_begins_anew(tmp_path: Path) -> None:
    ran: list[str] = []
    ended: list[str] = []
    slow = [True]

    async def work(turn: Turn) -> str:
        ran.append(turn.task_id)
        if turn.task_id in {"two", "aside"} and slow:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(turn.task_id)
        return "ok"

    async def use(engine: Engine) -> PlanStanding:
        tasks = [task("one"), task("two", "b", needs=["one"]), task("three", "a", needs=["two"]), task("aside", "c")]
        await engine.submit(plan(*tasks, task("later", "c")))
        await engine.until(lambda _: {"two", "aside"} <= set(ran))
        slow.clear()
        assert sorted(await engine.dispatcher.operator.retry("p", "one", by="ada", onwards=True)) == [
            "one",
            "three",
            "two",
        ]
        assert ended == ["two"]
        found = await engine.until(lambda now: states(now)["three"] == "COMPLETED")
        assert (found.state, states(found)["aside"]) == ("RUNNING", "RUNNING")
        return found

    play(tmp_path, use, a=work, b=work, c=work)
    assert [each for each in ran if each != "aside"] == ["one", "two", "one", "two", "three"]


def test_a_plan_that_cannot_run_again_goes_on_as_before(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def work(_: Turn) -> str:
        await gate.wait()
        return "ok"

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("one"), task("two", "b", needs=["one"])))
        await engine.until(lambda now: states(now)["one"] == "RUNNING")
        with pytest.raises(UsageError, match="only what ended"):
            await engine.dispatcher.operator.retry("p", "one", by="ada", onwards=True)
        gate.set()
        return await engine.until(lambda now: now.state == "ENDED")

    assert play(tmp_path, use, a=work, b=work).result == "done"


def test_a_plan_that_somebody_paused_stays_paused(tmp_path: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("one"), task("two", "b", needs=["one"]), task("slow", "c")))
        await engine.until(lambda now: states(now)["two"] == "COMPLETED")
        await engine.dispatcher.operator.pause("p", by="ada")
        await engine.dispatcher.operator.retry("p", "one", by="ada", onwards=True)
        found = await engine.until(lambda now: states(now)["one"] == "READY")
        assert (found.state, states(found)["one"], states(found)["two"]) == ("PAUSED", "READY", "PENDING")
        await engine.dispatcher.operator.resume("p", by="ada")
        return await engine.until(lambda now: states(now)["two"] == "COMPLETED")

    async def endless(_: Turn) -> str:
        await asyncio.Event().wait()
        return "never"

    assert states(play(tmp_path, use, c=endless))["one"] == "COMPLETED"
