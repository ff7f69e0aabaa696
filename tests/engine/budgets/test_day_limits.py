"""What a day may cost: changed while plans run, kept, counted from the ledger, and over when the day is."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Result, Turn
from agenttalk.contracts.errors import UsageError
from agenttalk.engine.budgets import day_limit
from agenttalk.engine.budgets.used_budgets import Budgets
from agenttalk.engine.core.boards import SYSTEM
from agenttalk.engine.people import questions
from agenttalk.engine.proof import honesty
from agenttalk.ports.statements.core import FACTS_OF
from kits.agentkit import Clock
from kits.plankit import Engine, plan, play, states, task
from kits.standingkit import explain_json


async def work(turn: Turn) -> str:
    turn.report(cost_usd=0.6)
    return "ok"


async def spend(engine: Engine, plan_id: str) -> str:
    """Have a plan run that spends $0.6; the state of its task."""
    await engine.submit(plan(task("one"), plan_id=plan_id))
    return states(await engine.ended(plan_id))["one"]


async def limited(engine: Engine, most: float | None) -> None:
    await day_limit.set_limit(engine.deps, most, by="ada")
    await engine.dispatcher.days.refresh()
    engine.dispatcher.nudge()


async def facts(engine: Engine) -> list[tuple[str, Any]]:
    rows = await (await engine.deps.stores.board(SYSTEM)).read(FACTS_OF, subject="limits/day", after=0, limit=9)
    return [(row[2], row[3]) for row in rows]


def test_a_limit_counts_what_was_spent_before_and_raising_it_lets_work_go_on(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        assert await spend(engine, "p1") == "COMPLETED"
        assert (await day_limit.describe_day(engine.deps, None))["spent_usd"] is None
        await limited(engine, 0.5)
        assert await spend(engine, "p2") == "BLOCKED_WAITING_REVIEW"
        told = await day_limit.describe_day(engine.deps, None)
        assert (told["spent_usd"], told["limit_usd"], told["paused"], told["set_by"]) == (0.6, 0.5, True, "ada")
        assert told["goes_on_at"] == "2026-03-02T00:00:00Z"
        why = await explain_json(engine.deps, "p2", "one")
        assert why["reason"] == "budget-exhausted: the day's budget of $0.5 is used up"
        assert why["moves_on"].startswith("it continues by itself at 00:00 UTC, or when the limit is raised")
        assert len(await questions.list_open(engine.deps)) == 1
        await limited(engine, 5.0)
        assert states(await engine.until(lambda now: now.state == "ENDED", "p2"))["one"] == "COMPLETED"
        assert await questions.list_open(engine.deps) == []
        assert (await day_limit.describe_day(engine.deps, None))["spent_usd"] == pytest.approx(1.2)

    play(tmp_path, use, a=work, clock=Clock())


def test_the_next_day_work_goes_on_by_itself(tmp_path: Path) -> None:
    clock = Clock()

    async def use(engine: Engine) -> None:
        assert await spend(engine, "p1") == "COMPLETED"
        assert await spend(engine, "p2") == "BLOCKED_WAITING_REVIEW"
        clock.forward(11 * 3600)
        await engine.dispatcher.wait_for_dispatch()
        assert states(await engine.ended("p2"))["one"] == "BLOCKED_WAITING_REVIEW"
        clock.forward(3600)
        engine.dispatcher.nudge()
        assert states(await engine.until(lambda now: now.state == "ENDED", "p2"))["one"] == "COMPLETED"
        told = await day_limit.describe_day(engine.deps, 0.6)
        assert (told["day"], told["spent_usd"]) == ("2026-03-02", 0.6)

    play(tmp_path, use, a=work, day_cost_usd=0.6, clock=clock)


def test_what_an_operator_said_outlives_the_engine_until_it_is_reset(tmp_path: Path) -> None:
    clock = Clock()

    async def first(engine: Engine) -> None:
        await limited(engine, 0.6)
        assert await spend(engine, "p1") == "COMPLETED"
        assert await spend(engine, "p2") == "BLOCKED_WAITING_REVIEW"

    async def second(engine: Engine) -> None:
        await engine.dispatcher.wait_for_dispatch()
        assert states(await engine.ended("p2"))["one"] == "BLOCKED_WAITING_REVIEW"
        await day_limit.reset(engine.deps, by="bob")
        await day_limit.reset(engine.deps, by="bob")
        await engine.dispatcher.days.refresh()
        engine.dispatcher.nudge()
        assert states(await engine.until(lambda now: now.state == "ENDED", "p2"))["one"] == "COMPLETED"
        assert (await day_limit.describe_day(engine.deps, 9.0))["limit_usd"] == 9.0
        assert [kind for kind, _ in await facts(engine)] == ["day.limited", "day.limit_reset"]

    play(tmp_path, first, a=work, clock=clock)
    play(tmp_path, second, a=work, clock=clock, day_cost_usd=9.0)


def test_a_root_that_is_limited_at_a_later_start_counts_the_day_so_far(tmp_path: Path) -> None:
    clock = Clock()
    play(tmp_path, lambda engine: spend(engine, "p1"), a=work, clock=clock)
    found = play(tmp_path, lambda engine: spend(engine, "p2"), a=work, clock=clock, day_cost_usd=0.6)
    assert found == "BLOCKED_WAITING_REVIEW"
    clock.forward(24 * 3600)

    async def go_on(engine: Engine) -> str:
        return states(await engine.until(lambda now: now.state == "ENDED", "p2"))["one"]

    assert play(tmp_path, go_on, a=work, clock=clock, day_cost_usd=0.6) == "COMPLETED"


@pytest.mark.parametrize("most", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_a_limit_that_makes_no_sense_is_refused(tmp_path: Path, most: float) -> None:
    async def use(engine: Engine) -> None:
        with pytest.raises(UsageError, match="cannot be the limit of a day"):
            await day_limit.set_limit(engine.deps, most, by="ada")
        assert await facts(engine) == []

    play(tmp_path, use)


class Spender:
    """Spends $0.4 and then waits to be stopped, until it may end."""

    def __init__(self, *, ends: bool = False) -> None:
        self.ends = ends
        self.attempts: list[int] = []

    async def work(self, turn: Turn) -> str:
        self.attempts.append(turn.attempt)
        turn.report(cost_usd=0.4)
        if not self.ends:
            await asyncio.Event().wait()
        return "ok"


async def another_day(engine: Engine, clock: Clock) -> None:
    clock.forward(24 * 3600)
    await engine.dispatcher.wait_for_dispatch()


def test_a_turn_that_the_day_stops_in_its_middle_goes_on_the_next_day(tmp_path: Path) -> None:
    """The program is dead, its attempt counts for nothing, and who looks is told what happens."""
    clock = Clock()
    script = tmp_path / "spends.py"
    told = json.dumps({"agenttalk": {"usage": {"cost_usd": 0.4}}})
    script.write_text(
        "import pathlib, time\n"
        "mark = pathlib.Path(__file__).with_name('began')\n"
        f"if not mark.exists():\n    mark.touch()\n    print('{told}', flush=True)\n    time.sleep(600)\n"
        "print('ok')\n"
    )
    agents = {"s": {"driver": "script", "argv": [sys.executable, str(script)]}}

    async def first(engine: Engine) -> None:
        await engine.submit(plan(task("one", "s", retry_times=0), task("two", "s", needs=["one"]), agents=agents))
        found = await engine.ended()
        assert states(found) == {"one": "BLOCKED_WAITING_REVIEW", "two": "PENDING"}
        why = await explain_json(engine.deps, "p", "one")
        assert (why["cause"], why["retries"]) == ("SOFT_DENIED", 0)
        assert why["reason"] == "budget-exhausted: the day's budget of $0.3 is used up"
        assert [(each["how"], each["cause"], each["reason"]) for each in why["attempts"]] == [
            ("aborted", "DAY_SPENT", "budget-exhausted: $0.4 of the day's budget of $0.3")
        ]
        assert why["moves_on"].startswith(
            "the day's limit stopped its turn, which does not count against s; it continues"
        )
        assert await day_limit.describe_waiting(engine.deps) == {"waiting": 1, "stopped": ["p/one"]}
        assert [each["claims"] for each in (await honesty.build_report(engine.deps))["agents"]] == [0]

    async def second(engine: Engine) -> None:
        await engine.dispatcher.wait_for_dispatch()
        assert states(await engine.ended())["one"] == "BLOCKED_WAITING_REVIEW"
        await another_day(engine, clock)
        found = await engine.until(lambda now: now.state == "ENDED")
        assert (found.result, states(found)) == ("done", {"one": "COMPLETED", "two": "COMPLETED"})
        assert await day_limit.describe_waiting(engine.deps) == {"waiting": 0, "stopped": []}
        assert await questions.list_open(engine.deps) == []

    play(tmp_path / "root", first, clock=clock, day_cost_usd=0.3)
    play(tmp_path / "root", second, clock=clock, day_cost_usd=0.3)


def test_all_turns_that_share_the_day_wait_and_raising_the_limit_lets_them_go_on(tmp_path: Path) -> None:
    clock, one, two = Clock(), Spender(), Spender()

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("one", "a"), task("two", "b")))
        found = await engine.ended()
        assert states(found) == {"one": "BLOCKED_WAITING_REVIEW", "two": "BLOCKED_WAITING_REVIEW"}
        assert (await day_limit.describe_day(engine.deps, 0.6))["spent_usd"] == pytest.approx(0.8)
        one.ends = two.ends = True
        await limited(engine, 2.0)
        assert (await engine.until(lambda now: now.state == "ENDED")).result == "done"
        assert (one.attempts, two.attempts) == ([1, 2], [1, 2])

    play(tmp_path, use, a=one.work, b=two.work, clock=clock, day_cost_usd=0.6)


def test_work_that_ended_by_itself_counts_whatever_it_cost(tmp_path: Path) -> None:
    async def dear(_: Turn) -> Result:
        return Result("ok", usage={"cost_usd": 0.9})

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("one"), task("two", needs=["one"])))
        assert states(await engine.ended()) == {"one": "COMPLETED", "two": "BLOCKED_WAITING_REVIEW"}

    play(tmp_path, use, a=dear, day_cost_usd=0.6)


def test_a_task_that_no_day_is_enough_for_asks_a_person_in_the_end(tmp_path: Path) -> None:
    clock, spender = Clock(), Spender()

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("one")))
        for day in (1, 2, 3):
            await engine.until(lambda _, day=day: len(spender.attempts) == day)  # type: ignore[misc]
            found = await engine.ended()
            if day < 3:
                assert states(found)["one"] == "BLOCKED_WAITING_REVIEW"
                await another_day(engine, clock)
        assert states(found)["one"] == "BLOCKED_WAITING_HUMAN"
        await another_day(engine, clock)
        assert len(spender.attempts) == 3
        [asked] = await questions.list_open(engine.deps)
        assert "the day's limit stopped it 3 times in a row" in asked.document.title
        spender.ends = True
        await limited(engine, 2.0)
        await questions.answer(engine.deps, asked.request_id, by="ada", decision="PROVIDE", answers=["retry"])
        engine.dispatcher.nudge()
        assert (await engine.until(lambda now: now.state == "ENDED")).result == "done"

    play(tmp_path, use, a=spender.work, clock=clock, day_cost_usd=0.3)


def test_a_limit_that_is_changed_during_a_look_is_not_overlooked(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        known = day_limit.DayLimitTracker(engine.deps, Budgets(0.5), 0.5)
        assert await known.may_resume()
        known.mark_resumed()
        assert not await known.may_resume()
        await day_limit.set_limit(engine.deps, 2.0, by="ada")
        assert await known.refresh()
        known.mark_resumed()
        assert await known.may_resume()

    play(tmp_path, use)


def test_a_limit_that_is_as_before_after_another_one_lets_go_what_that_one_held_up(tmp_path: Path) -> None:
    """Between two looks a limit is lowered, which stops a turn, and raised again."""

    async def use(engine: Engine) -> None:
        known = day_limit.DayLimitTracker(engine.deps, Budgets(0.5), 0.5)
        assert await known.may_resume()
        known.mark_resumed()
        for most in (0.1, 0.5):
            await day_limit.set_limit(engine.deps, most, by="ada")
            assert await known.refresh()
        assert await known.may_resume()

    play(tmp_path, use)


@pytest.mark.mends("F14")
def test_a_limit_that_is_set_during_a_turn_counts_it_and_stops_it(tmp_path: Path) -> None:
    spender = Spender()

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("one", "s"), agents={"s": {"driver": "python"}}))
        await engine.until(lambda _: bool(spender.attempts))
        await limited(engine, 5.0)
        await limited(engine, 0.3)
        found = await engine.ended()
        assert states(found) == {"one": "BLOCKED_WAITING_REVIEW"}
        told = await day_limit.describe_day(engine.deps, None)
        assert (told["spent_usd"], told["paused"]) == (0.4, True)
        spender.ends = True
        await limited(engine, 5.0)
        assert states(await engine.until(lambda now: now.state == "ENDED"))["one"] == "COMPLETED"
        assert (await day_limit.describe_day(engine.deps, None))["spent_usd"] == pytest.approx(0.8)

    play(tmp_path, use, s=spender.work)
