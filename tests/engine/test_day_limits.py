"""What a day may cost: changed while plans run, kept, counted from the ledger, and over when the day is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentkit import Clock
from agenttalk.drivers.calls import Turn
from agenttalk.engine import days, explaining, human
from agenttalk.engine.plans import SYSTEM
from agenttalk.errors import UsageError
from plankit import Engine, plan, play, states, task


async def work(turn: Turn) -> str:
    turn.report(cost_usd=0.6)
    return "ok"


async def spend(engine: Engine, plan_id: str) -> str:
    """Have a plan run that spends $0.6; the state of its task."""
    await engine.submit(plan(task("one"), plan_id=plan_id))
    return states(await engine.ended(plan_id))["one"]


async def limited(engine: Engine, most: float | None) -> None:
    await days.change(engine.deps, most, by="ada")
    await engine.dispatcher.days.refresh()
    engine.dispatcher.nudge()


async def facts(engine: Engine) -> list[tuple[str, Any]]:
    rows = await (await engine.deps.stores.board(SYSTEM)).read("facts_of", subject="limits/day", after=0, limit=9)
    return [(row[2], row[3]) for row in rows]


def test_a_limit_counts_what_was_spent_before_and_raising_it_lets_work_go_on(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        assert await spend(engine, "p1") == "COMPLETED"
        assert (await days.told(engine.deps, None))["spent_usd"] is None
        await limited(engine, 0.5)
        assert await spend(engine, "p2") == "BLOCKED_WAITING_REVIEW"
        told = await days.told(engine.deps, None)
        assert (told["spent_usd"], told["limit_usd"], told["paused"], told["set_by"]) == (0.6, 0.5, True, "ada")
        assert told["goes_on_at"] == "2026-03-02T00:00:00Z"
        why = await explaining.explain(engine.deps, "p2", "one")
        assert why["reason"] == "budget-exhausted: the day's budget of $0.5 is used up"
        assert why["moves_on"].startswith("it goes on by itself at 00:00 UTC, or when the limit is raised")
        assert len(await human.requests(engine.deps)) == 1
        await limited(engine, 5.0)
        assert states(await engine.until(lambda now: now.state == "ENDED", "p2"))["one"] == "COMPLETED"
        assert await human.requests(engine.deps) == []
        assert (await days.told(engine.deps, None))["spent_usd"] == pytest.approx(1.2)

    play(tmp_path, use, a=work, clock=Clock())


def test_the_next_day_work_goes_on_by_itself(tmp_path: Path) -> None:
    clock = Clock()

    async def use(engine: Engine) -> None:
        assert await spend(engine, "p1") == "COMPLETED"
        assert await spend(engine, "p2") == "BLOCKED_WAITING_REVIEW"
        clock.forward(11 * 3600)
        await engine.dispatcher.looked()
        assert states(await engine.ended("p2"))["one"] == "BLOCKED_WAITING_REVIEW"
        clock.forward(3600)
        engine.dispatcher.nudge()
        assert states(await engine.until(lambda now: now.state == "ENDED", "p2"))["one"] == "COMPLETED"
        told = await days.told(engine.deps, 0.6)
        assert (told["day"], told["spent_usd"]) == ("2026-03-02", 0.6)

    play(tmp_path, use, a=work, day_cost_usd=0.6, clock=clock)


def test_what_an_operator_said_outlives_the_engine_until_it_is_reset(tmp_path: Path) -> None:
    clock = Clock()

    async def first(engine: Engine) -> None:
        await limited(engine, 0.6)
        assert await spend(engine, "p1") == "COMPLETED"
        assert await spend(engine, "p2") == "BLOCKED_WAITING_REVIEW"

    async def second(engine: Engine) -> None:
        await engine.dispatcher.looked()
        assert states(await engine.ended("p2"))["one"] == "BLOCKED_WAITING_REVIEW"
        await days.reset(engine.deps, by="bob")
        await days.reset(engine.deps, by="bob")
        await engine.dispatcher.days.refresh()
        engine.dispatcher.nudge()
        assert states(await engine.until(lambda now: now.state == "ENDED", "p2"))["one"] == "COMPLETED"
        assert (await days.told(engine.deps, 9.0))["limit_usd"] == 9.0
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
            await days.change(engine.deps, most, by="ada")
        assert await facts(engine) == []

    play(tmp_path, use)
