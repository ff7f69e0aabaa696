"""Budgets, being stuck and being stopped: real programs are ended with everything they started, and the next task runs."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Result, Turn
from agenttalk.contracts.errors import UsageError
from agenttalk.ports.agents import Job
from agenttalk.rules.budgets.aborts import Abort
from agenttalk.rules.proof.performance import Performance
from kits.plankit import Engine, plan, play, states, task
from kits.standingkit import PlanStanding, explain_json, read_standing

TELL = """import json, os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
def tell(progress="", **usage):
    print(json.dumps({"agenttalk": {"usage": usage, "progress": progress}}), flush=True)
"""
SPENDS = "n = 0\nwhile True:\n    n += 100\n    tell(f'step {n}', tokens=n, cost_usd=n / 1000, tool_calls=n // 100)\n    time.sleep(0.005)"
HANGS = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True:\n    time.sleep(1)"
FORKS = """signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        (here / f"child{number}").write_text(str(os.getpid()))
        while True:
            time.sleep(1)
while not all((here / f"child{number}").exists() for number in range(3)):
    time.sleep(0.01)
"""


def program(root: Path, name: str, text: str) -> dict[str, Any]:
    """A script agent that can tell what it uses."""
    root.mkdir(parents=True, exist_ok=True)
    path = root / f"{name}.py"
    path.write_text(f"{TELL}{text}\n")
    return {"driver": "script", "argv": [sys.executable, str(path)]}


def promise(**keys: Any) -> dict[str, Any]:
    """A promise that an answer fulfils."""
    shown = [{"id": "said", "description": "It says something", "evidenceRequired": ["result"]}]
    return {"objective": "It is done", "acceptance": shown, **keys}


def run(root: Path, compiled: Any, **more: Any) -> PlanStanding:
    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended(compiled.dag.plan_id)

    found: PlanStanding = play(root / "root", use, **more)
    return found


def of(found: PlanStanding, task_id: str) -> Any:
    [each] = [each for each in found.tasks if each["task_id"] == task_id]
    return each


@pytest.mark.shows("P12")
@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"tokens": 1000}, "1,100 tokens of the task's budget of 1,000 tokens"),
        ({"cost_usd": 0.5}, "$0.6 of the task's budget of $0.5"),
        ({"tool_calls": 3}, "4 tool calls of the task's budget of 3 tool calls"),
    ],
)
def test_who_uses_more_than_its_budget_is_stopped_and_the_next_task_runs(
    tmp_path: Path, budget: dict[str, Any], words: str
) -> None:
    compiled = plan(
        task("greedy", "g", promise=promise(budget=budget), priority="HIGH"),
        task("next", "g2"),
        agents={"g": program(tmp_path, "g", SPENDS), "g2": program(tmp_path, "g2", "print('ok')")},
    )
    found = run(tmp_path, compiled)
    assert states(found) == {"greedy": "FAILED", "next": "COMPLETED"}
    greedy = of(found, "greedy")
    assert (greedy["cause"], greedy["reason"]) == ("ABORTED", f"budget-exhausted: {words}")
    assert greedy["usage"]["tokens"] >= 400
    assert greedy["usage"]["tool_calls"] >= 4


def test_time_is_a_budget_too_and_whatever_was_started_is_dead(tmp_path: Path) -> None:
    for seconds in (1, 6, 30):  # how long it takes to start something is a matter of the machine
        folder = tmp_path / str(seconds)
        compiled = plan(
            task("slow", "s", promise=promise(budget={"seconds": seconds}), retry_times=3),
            agents={"s": program(folder, "s", FORKS + HANGS)},
        )
        slow = of(run(folder, compiled), "slow")
        assert (slow["state"], slow["cause"], slow["retries"]) == ("FAILED", "ABORTED", 0)
        words = "1 second" if seconds == 1 else f"{seconds} seconds"
        assert slow["reason"] == f"budget-exhausted: the task's budget of {words} is used up"
        assert seconds <= slow["usage"]["duration_s"] < seconds + 20
        children = [path for path in sorted(folder.glob("child*")) if path.read_text()]
        if len(children) == 3:
            break
    assert len(children) == 3
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(int(child.read_text()), 0)


def test_what_attempts_used_before_counts_and_a_retry_by_a_person_begins_anew(tmp_path: Path) -> None:
    seen: list[int] = []

    async def work(turn: Turn) -> str:
        seen.append(turn.attempt)
        turn.report(tokens=60)
        await asyncio.sleep(0)
        if len(seen) < 3:
            raise ValueError("no luck")
        return "ok"

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("a", promise=promise(budget={"tokens": 100}), retry_times=5)))
        found = of(await engine.ended(), "a")
        assert (found["reason"], seen) == ("budget-exhausted: 120 tokens of the task's budget of 100 tokens", [1, 2])
        await engine.dispatcher.operator.retry("p", "a", by="ada")
        assert states(await engine.until(lambda now: now.state == "ENDED")) == {"a": "COMPLETED"}

    play(tmp_path, use, a=work)


def test_a_turn_does_not_begin_when_nothing_of_its_budget_is_left(tmp_path: Path) -> None:
    seen: list[int] = []

    async def work(turn: Turn) -> str:
        seen.append(turn.attempt)
        turn.report(tokens=100)
        raise ValueError("no luck")

    found = run(tmp_path, plan(task("a", promise=promise(budget={"tokens": 100}), retry_times=5)), a=work)
    a = of(found, "a")
    assert (a["cause"], a["reason"]) == ("ABORTED", "budget-exhausted: the task's budget of 100 tokens is used up")
    assert seen == [1]


def test_what_is_told_only_in_the_end_counts_too(tmp_path: Path) -> None:
    async def work(_: Turn) -> Result:
        return Result("ok", usage={"tokens": 500})

    found = run(tmp_path, plan(task("a", promise=promise(budget={"tokens": 100}))), a=work)
    assert of(found, "a")["reason"] == "budget-exhausted: 500 tokens of the task's budget of 100 tokens"


def test_telling_less_in_the_end_takes_nothing_back(tmp_path: Path) -> None:
    async def work(turn: Turn) -> Result:
        turn.report(tokens=80, tool_calls=7)
        turn.report(tokens=20)
        return Result("ok", usage={"tokens": 1, "model": "m"})

    found = run(tmp_path, plan(task("a")), a=work)
    usage = of(found, "a")["usage"]
    assert (found.result, usage["tokens"], usage["tool_calls"]) == ("done", 80, 7)
    assert found.usage is not None
    assert found.usage["tool_calls"] == 7


def test_a_plain_function_tells_from_its_thread(tmp_path: Path) -> None:
    def work(turn: Turn) -> str:
        turn.report("reads", tokens=30)
        return "ok"

    found = run(tmp_path, plan(task("a")), a=work)
    assert of(found, "a")["usage"]["tokens"] == 30


def test_tasks_of_a_plan_share_its_budget_while_they_run(tmp_path: Path) -> None:
    """Each alone would stay below the limit; together they pass it, and both are stopped."""
    both: list[str] = []
    there = asyncio.Event()

    async def work(turn: Turn) -> str:
        both.append(turn.task_id)
        if len(both) == 2:
            there.set()
        await there.wait()
        turn.report(tokens=60)
        await asyncio.Event().wait()
        return "never"

    compiled = plan(task("one", "a"), task("two", "b"), task("last", "c", needs=["one"]), limits={"tokens": 100})

    async def use(engine: Engine) -> None:
        await engine.submit(compiled)
        found = await engine.ended()
        assert states(found) == {"one": "FAILED", "two": "FAILED", "last": "BLOCKED_WAITING_REVIEW"}
        assert all("the plan's budget of 100 tokens" in of(found, each)["reason"] for each in ("one", "two"))

    play(tmp_path, use, a=work, b=work)


def test_a_plan_that_has_used_its_budget_waits_for_an_operator(tmp_path: Path) -> None:
    ran: list[str] = []

    async def work(turn: Turn) -> str:
        ran.append(turn.task_id)
        turn.report(tokens=100)
        return "ok"

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("one"), task("two", needs=["one"]), limits={"tokens": 100}))
        found = await engine.ended()
        two = of(found, "two")
        assert (found.result, two["state"], two["cause"]) == ("waiting", "BLOCKED_WAITING_REVIEW", "SOFT_DENIED")
        assert two["reason"] == "budget-exhausted: the plan's budget of 100 tokens is used up"
        await engine.dispatcher.operator.override("p", "two", checkpoint="pre-act", by="ada", why="it is worth it")
        assert (await engine.until(lambda now: now.state == "ENDED")).result == "done"

    play(tmp_path, use, a=work)
    assert ran == ["one", "two"]


def test_a_plan_that_is_given_more_goes_on_by_itself(tmp_path: Path) -> None:
    async def work(turn: Turn) -> str:
        turn.report(tokens=100)
        return "ok"

    async def use(engine: Engine) -> None:
        tasks = (task("one"), task("two", needs=["one"]))
        await engine.submit(plan(*tasks, limits={"tokens": 100}))
        assert of(await engine.ended(), "two")["cause"] == "SOFT_DENIED"
        more = plan(*tasks, limits={"tokens": 250})
        await engine.dispatcher.operator.apply(more.dag, more.manifest, more.profiles, by="ada")
        assert (await engine.until(lambda now: now.state == "ENDED")).result == "done"

    play(tmp_path, use, a=work)


def test_a_plan_that_is_limited_only_later_counts_what_it_used_before(tmp_path: Path) -> None:
    async def work(turn: Turn) -> str:
        turn.report(tokens=100)
        return "ok"

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("one")))
        await engine.ended()
        more = plan(task("one"), task("two"), limits={"tokens": 100})
        await engine.dispatcher.operator.apply(more.dag, more.manifest, more.profiles, by="ada")
        assert of(await engine.ended(), "two")["reason"].endswith("the plan's budget of 100 tokens is used up")

    play(tmp_path, use, a=work)


def test_a_day_is_limited_over_plans_and_starts_of_the_engine(tmp_path: Path) -> None:
    async def work(turn: Turn) -> str:
        turn.report(cost_usd=0.6)
        return "ok"

    async def spend(engine: Engine, plan_id: str) -> PlanStanding:
        await engine.submit(plan(task("one"), plan_id=plan_id))
        return await engine.ended(plan_id)

    assert play(tmp_path, lambda engine: spend(engine, "p1"), a=work, day_cost_usd=1.0).result == "done"
    found = play(tmp_path, lambda engine: spend(engine, "p2"), a=work, day_cost_usd=1.0)
    assert of(found, "one")["reason"] == "budget-exhausted: the day's budget of $1 is used up"
    assert of(found, "one")["usage"]["cost_usd"] == 0.6
    found = play(tmp_path, lambda engine: spend(engine, "p3"), a=work, day_cost_usd=1.0)
    assert of(found, "one")["reason"] == "budget-exhausted: the day's budget of $1 is used up"
    assert of(found, "one")["state"] == "BLOCKED_WAITING_REVIEW"
    assert play(tmp_path, lambda engine: spend(engine, "p4"), a=work).result == "done"


@pytest.mark.shows("P12")
def test_who_tells_the_same_again_and_again_is_stuck(tmp_path: Path) -> None:
    text = "while True:\n    tell('reads the file')\n    tell('writes the file')\n    time.sleep(0.005)"
    found = run(tmp_path, plan(task("a", "s"), agents={"s": program(tmp_path, "s", text)}))
    assert of(found, "a")["reason"] == "stuck: the same 20 times: 'reads the file', 'writes the file'"


def test_why_a_turn_was_stopped_gives_no_secret_away(tmp_path: Path) -> None:
    secret = "k3y-5f0c9d1e7b2a4468"

    async def work(turn: Turn) -> str:
        for _ in range(20):
            turn.report(f"asks with {secret}")
        await asyncio.Event().wait()
        return "never"

    async def use(engine: Engine) -> str:
        engine.deps.secret_guard.register({"API_KEY": secret})
        await engine.submit(plan(task("a")))
        return str(of(await engine.ended(), "a")["reason"])

    reason = play(tmp_path, use, a=work)
    assert reason.startswith("stuck: the same 20 times: 'asks with ")
    assert secret not in reason


@pytest.mark.parametrize("text", [HANGS, "tell('begins')\n" + HANGS])
def test_who_says_nothing_for_long_is_stuck_where_the_promise_asks_for_news(tmp_path: Path, text: str) -> None:
    conditions = [{"type": "stuck", "target": "1s"}]
    compiled = plan(task("a", "s", promise=promise(abortWhen=conditions)), agents={"s": program(tmp_path, "s", text)})
    assert of(run(tmp_path, compiled), "a")["reason"] == "stuck: no news for 1 seconds"


def test_a_promise_that_names_other_conditions_is_not_stopped_by_this_one(tmp_path: Path) -> None:
    conditions = [{"type": "unsafe"}]
    text = "for n in range(60):\n    tell('same', tokens=50 * n)\nprint('ok')"
    compiled = plan(
        task("a", "s", promise=promise(abortWhen=conditions, budget={"tokens": 100})),
        agents={"s": program(tmp_path, "s", text)},
    )
    found = run(tmp_path, compiled)
    assert (found.result, of(found, "a")["usage"]["tokens"]) == ("done", 2950)


def test_notes_are_not_the_result_and_are_counted_without_any_budget(tmp_path: Path) -> None:
    text = "tell('one', tokens=7)\nprint('the answer')"

    async def use(engine: Engine) -> dict[str, Any]:
        await engine.submit(plan(task("a", "s"), agents={"s": program(tmp_path, "s", text)}))
        await engine.ended()
        return await explain_json(engine.deps, "p", "a")

    [turn] = play(tmp_path / "root", use)["attempts"]
    assert (turn["result"], turn["usage"]["tokens"]) == ("the answer\n", 7)
    assert "gates" not in turn


class Careless:
    """A driver that sees its agent do something forbidden."""

    def __init__(self, *, stops_itself: bool) -> None:
        self._stops_itself = stops_itself

    async def perform(self, job: Job) -> Performance:
        if self._stops_itself:
            return Performance("aborted", abort=Abort("unsafe", "rm -rf /"))
        assert job.watch is not None
        job.watch.report_unsafe("rm -rf /")
        await asyncio.Event().wait()
        return Performance("finished", result="never")


MODEL = {"provider": "openai", "model": "small"}


@pytest.mark.shows("P12")
@pytest.mark.parametrize("stops_itself", [True, False])
@pytest.mark.parametrize(
    ("conditions", "cause", "reason"),
    [
        (None, "ABORTED", "unsafe: rm -rf /"),
        ([{"type": "stuck"}], "FAILED_FOR_GOOD", None),
    ],
)
def test_what_is_forbidden_ends_the_task(
    tmp_path: Path, stops_itself: bool, conditions: Any, cause: str, reason: str | None
) -> None:
    more = {} if conditions is None else {"abortWhen": conditions}
    compiled = plan(task("a", "x", promise=promise(**more)), agents={"x": {"driver": "llm", "llm": MODEL}})
    found = run(tmp_path, compiled, performers={"llm": Careless(stops_itself=stops_itself)})
    a = of(found, "a")
    assert (a["state"], a["cause"]) == ("FAILED", cause)
    assert reason is None or a["reason"] == reason


@pytest.mark.shows("P12")
def test_a_person_stops_a_task_that_runs_and_its_processes_are_dead(tmp_path: Path) -> None:
    compiled = plan(task("a", "s", retry_times=3), task("b", "b"), agents={"s": program(tmp_path, "s", FORKS + HANGS)})

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        await engine.until(lambda now: states(now)["a"] == "RUNNING")
        async with asyncio.timeout(300):
            while not all((tmp_path / f"child{number}").exists() for number in range(3)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        told = await engine.dispatcher.operator.abort("p", "a", by="ada", why="wrong one")
        assert told == {"task_id": "a", "state": "FAILED", "reason": "user-aborted: stopped by ada: wrong one"}
        for number in range(3):
            with pytest.raises(ProcessLookupError):
                os.kill(int((tmp_path / f"child{number}").read_text()), 0)
        await engine.until(lambda now: states(now)["b"] == "COMPLETED")
        with pytest.raises(UsageError, match="has ended"):
            await engine.dispatcher.operator.abort("p", "b", by="ada")
        return await engine.ended()

    found: PlanStanding = play(tmp_path / "root", use)
    assert of(found, "a")["cause"] == "ABORTED"
    assert states(found) == {"a": "FAILED", "b": "COMPLETED"}


def test_a_person_stops_tasks_that_wait(tmp_path: Path) -> None:
    held = asyncio.Event()

    async def wait(_: Turn) -> str:
        await held.wait()
        return "ok"

    compiled = plan(
        task("runs", "a"),
        task("ready", "a"),
        task("pending", "b", needs=["runs"]),
        task("asks", "c", inputs=[{"name": "x", "external": True}]),
    )

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        before = {"runs": "RUNNING", "ready": "READY", "pending": "PENDING", "asks": "BLOCKED_WAITING_INPUT"}
        await engine.until(lambda now: sorted(states(now).values()) == sorted(before.values()))
        ready = next(name for name, state in states(await read_standing(engine.deps, "p")).items() if state == "READY")
        for name in (ready, "pending", "asks"):
            await engine.dispatcher.operator.abort("p", name, by="ada")
        with pytest.raises(UsageError, match="no task"):
            await engine.dispatcher.operator.abort("p", "nobody", by="ada")
        held.set()
        return await engine.until(lambda now: now.state == "ENDED")

    found: PlanStanding = play(tmp_path, use, a=wait)
    assert sorted(states(found).values()) == ["COMPLETED", "FAILED", "FAILED", "FAILED"]
    assert {each["reason"] for each in found.tasks} == {None, "user-aborted: stopped by ada"}


def test_a_task_that_was_stopped_can_be_tried_again(tmp_path: Path) -> None:
    tries: list[int] = []

    async def once(_: Turn) -> str:
        tries.append(1)
        if len(tries) == 1:
            await asyncio.Event().wait()
        return "ok"

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("a")))
        await engine.until(lambda _: bool(tries))
        await engine.dispatcher.operator.abort("p", "a", by="ada")
        await engine.dispatcher.operator.retry("p", "a", by="ada")
        return await engine.until(lambda now: now.state == "ENDED" and now.result != "failed")

    assert states(play(tmp_path, use, a=once)) == {"a": "COMPLETED"}


def test_an_agent_that_does_not_let_itself_be_cancelled_is_stopped_when_it_returns(tmp_path: Path) -> None:
    async def stubborn(turn: Turn) -> str:
        turn.report(tokens=500)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return json.dumps("I am done")
        return "late"

    found = run(tmp_path, plan(task("a", promise=promise(budget={"tokens": 100}))), a=stubborn)
    assert of(found, "a")["reason"] == "budget-exhausted: 500 tokens of the task's budget of 100 tokens"
