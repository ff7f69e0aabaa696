"""Limits of providers: agents of an account wait, their attempts do not count, and work goes on by itself."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agenttalk.engine.views.plan_status import read_plan_status
from agenttalk.ports.statements.budgets import ACCOUNT_WAITS
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.rules.budgets.provider_limits import MOST_STOPS
from agenttalk.testing import ScriptedModel
from agenttalk.testing.model_script import CallStep, RefuseStep
from kits.agentkit import Clock
from kits.plankit import Engine, plan, play, states, task
from kits.spokenkit import speaks
from kits.standingkit import PlanStanding, explain_json

PLAYS = """import json, pathlib, sys, time
sys.stdin.read()
place = pathlib.Path(sys.argv[1])
line = place.read_text().splitlines()
place.with_suffix(".runs").open("a").write(sys.argv[2] + "\\n")
step, left = json.loads(line[0]), line[1:]
if left:
    place.write_text("\\n".join(left))
for each in step["lines"]:
    print(json.dumps(each), flush=True)
sys.exit(step["exit"])
"""
INIT = {"type": "system", "subtype": "init", "session_id": "ses-1", "model": "m1"}
FINE: list[Any] = [
    INIT,
    {"type": "result", "subtype": "success", "is_error": False, "result": "It is done.", "usage": {}},
]
RESET = datetime(2026, 3, 1, 15, tzinfo=UTC)
"""Three hours after the clock of these tests begins."""


def claude_limit(resets_at: float | None, text: str = "You've hit your limit · resets 4pm (Europe/Berlin)") -> Any:
    """What Claude Code 2.1.325 prints when its subscription is used up, as recorded, without fields we do not read."""
    info = {"status": "rejected", "resetsAt": resets_at, "rateLimitType": "five_hour"}
    failed = {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 429, "result": text}
    lines: list[Any] = (
        [INIT, {"type": "rate_limit_event", "rate_limit_info": info}] if resets_at is not None else [INIT]
    )
    return {"exit": 1, "lines": [*lines, {**failed, "api_error": "usage_limit_reached"}]}


OVERLOADED: Any = {
    "exit": 1,
    "lines": [
        INIT,
        {
            "type": "result",
            "subtype": "success",
            "is_error": True,
            "api_error_status": 529,
            "api_error_type": "overloaded_error",
            "result": "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment.",
        },
    ],
}
DONE = {"exit": 0, "lines": FINE}


class Agents:
    """Programs that speak like coding agents, and follow a script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "plays.py").write_text(PLAYS)

    def profile(self, name: str, *steps: Any, agent: str = "claude", **profile: Any) -> dict[str, Any]:
        """An agent that does one step at each start, and the last again and again."""
        path = self.folder / f"{name}.script"
        path.write_text("\n".join(json.dumps(each) for each in steps))
        argv = [str(self.folder / "plays.py"), str(path), name]
        cli = {"agent": agent, "program": sys.executable, "argv": argv}
        return {"driver": "cli", "cli": cli, "sandbox": "plain", **profile}

    def runs(self, name: str) -> int:
        path = self.folder / f"{name}.runs"
        return len(path.read_text().splitlines()) if path.exists() else 0


async def waits(engine: Engine) -> list[Any]:
    return await (await engine.deps.stores.board("default")).read(ACCOUNT_WAITS)


def waiting(found: PlanStanding, task_id: str = "t") -> bool:
    return next(each for each in found.tasks if each["task_id"] == task_id)["cause"] == "ACCOUNT_LIMIT"


async def go_on(engine: Engine, clock: Clock, seconds: float) -> None:
    """Let time pass, and have the dispatcher look."""
    clock.forward(seconds)
    await engine.dispatcher.wait_for_dispatch()


def test_a_usage_limit_has_the_task_wait_until_the_reset_and_counts_nothing(tmp_path: Path) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    profile = agents.profile("dev", claude_limit(RESET.timestamp()), DONE)

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("t", "dev", retry_times=0, max_reexecute_times=0), agents={"dev": profile}))
        found = (await engine.until(waiting)).tasks[0]
        assert (found["state"], found["retries"], found["rounds"]) == ("READY", 0, 0)
        assert str(found["reason"]).startswith(
            "claude: usage limit of the account until 2026-03-01T15:00:00Z (You've hit"
        )
        assert (await explain_json(engine.deps, "p", "t"))["waits_for_account"] == {
            "agent": "claude",
            "until": "2026-03-01T15:00:00Z",
            "reason": "You've hit your limit · resets 4pm (Europe/Berlin)",
        }
        await go_on(engine, clock, 3 * 3600 - 1)
        assert (agents.runs("dev"), states(await engine.until(waiting))["t"]) == (1, "READY")
        await go_on(engine, clock, 1)
        ended = await engine.until(lambda now: now.state == "ENDED")
        assert (states(ended)["t"], ended.tasks[0]["retries"], agents.runs("dev")) == ("COMPLETED", 0, 2)

    play(tmp_path / "root", use, clock=clock)


def test_all_agents_of_the_account_wait_and_others_go_on(tmp_path: Path) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    profiles = {
        "one": agents.profile("one", claude_limit(RESET.timestamp()), DONE),
        "two": agents.profile("two", DONE),
        "other": agents.profile("other", DONE, agent="qwen"),
        "keyed": agents.profile("keyed", DONE, env=["OTHER_KEY"]),
    }

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("a", "one"), agents={"one": profiles["one"]}, plan_id="first"))
        await engine.until(lambda found: waiting(found, "a"), "first")
        rest = [task("b", "two"), task("b2", "two"), task("c", "other"), task("d", "keyed")]
        await engine.submit(plan(*rest, agents={name: profiles[name] for name in ("two", "other", "keyed")}))
        found = await engine.until(
            lambda now: waiting(now, "b") and waiting(now, "b2") and now.counts["completed"] == 2
        )
        assert states(found) == {"b": "READY", "b2": "READY", "c": "COMPLETED", "d": "COMPLETED"}
        view = await read_plan_status(engine.deps, "p")
        reason = "You've hit your limit · resets 4pm (Europe/Berlin)"
        text = f"claude: usage limit of the account until 2026-03-01T15:00:00Z ({reason}); 2 tasks wait"
        assert view["result"] == "running"
        assert view["waits"] == [
            {"agent": "claude", "until": "2026-03-01T15:00:00Z", "reason": reason, "tasks": 2, "text": text}
        ]
        moves_on = (await explain_json(engine.deps, "p", "b"))["moves_on"]
        assert moves_on.startswith(
            "it continues by itself at 2026-03-01T15:00:00Z, and its attempts so far do not count"
        )
        assert agents.runs("two") == 0
        await go_on(engine, clock, 3 * 3600)
        assert states(await engine.until(lambda now: now.state == "ENDED"))["b2"] == "COMPLETED"
        await engine.until(lambda now: now.state == "ENDED", "first")

    os.environ["OTHER_KEY"] = "another-account"
    try:
        play(tmp_path / "root", use, clock=clock)
    finally:
        del os.environ["OTHER_KEY"]


def test_a_restart_waits_on_and_resumes(tmp_path: Path) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    profile = agents.profile("dev", claude_limit(RESET.timestamp()), DONE)

    async def first(engine: Engine) -> None:
        await engine.submit(plan(task("t", "dev"), agents={"dev": profile}))
        await engine.until(waiting)

    async def second(engine: Engine) -> None:
        await engine.dispatcher.wait_for_dispatch()
        assert waiting(await engine.until(lambda _: True))
        await go_on(engine, clock, 3 * 3600 - 1)
        assert waiting(await engine.until(lambda _: True))
        assert agents.runs("dev") == 1
        await go_on(engine, clock, 1)
        assert states(await engine.until(lambda now: now.state == "ENDED"))["t"] == "COMPLETED"

    play(tmp_path / "root", first, clock=clock)
    play(tmp_path / "root", second, clock=clock)


def test_overload_is_tried_again_soon_and_uses_no_rounds(tmp_path: Path) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    profile = agents.profile("dev", OVERLOADED, OVERLOADED, DONE)

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("t", "dev", retry_times=0), agents={"dev": profile}))
        for pause in (15, 30):
            found = (await engine.until(waiting)).tasks[0]
            assert "its provider is overloaded; the next attempt is at" in str(found["reason"])
            await go_on(engine, clock, pause - 1)
            await go_on(engine, clock, 1)
            await engine.until(lambda now: not waiting(now) or "12:00:45" in str(now.tasks[0]["reason"]))
        ended = await engine.until(lambda now: now.state == "ENDED")
        assert (states(ended)["t"], ended.tasks[0]["rounds"], agents.runs("dev")) == ("COMPLETED", 0, 3)

    play(tmp_path / "root", use, clock=clock)


@pytest.mark.parametrize("told", [253402300799.0, 1.0, -5.0, 1e300])
def test_an_absurd_reset_is_not_believed(tmp_path: Path, told: float) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    profile = agents.profile("dev", claude_limit(told, "You've hit your limit"), DONE)

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("t", "dev"), agents={"dev": profile}))
        await engine.until(waiting)
        [row] = await waits(engine)
        assert row.until == "2026-03-01T12:05:00.000000Z"
        await go_on(engine, clock, 300)
        assert states(await engine.until(lambda now: now.state == "ENDED"))["t"] == "COMPLETED"

    play(tmp_path / "root", use, clock=clock)


def test_an_agent_that_fakes_limits_fails_in_the_end_with_an_alert(tmp_path: Path) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    profile = agents.profile("dev", claude_limit(None))

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("t", "dev", retry_times=0), agents={"dev": profile}))
        for number in range(1, MOST_STOPS + 1):
            await engine.until(lambda now: waiting(now) and agents.runs("dev") == number)  # noqa: B023 - asked at once
            await go_on(engine, clock, 24 * 3600)
        ended = await engine.until(lambda now: now.state == "ENDED")
        assert (states(ended)["t"], agents.runs("dev")) == ("FAILED", MOST_STOPS + 1)
        assert str(ended.tasks[0]["reason"]).startswith("limits of its provider stopped it 11 times in a row")

    play(tmp_path / "root", use, clock=clock)


@pytest.mark.parametrize(
    "lines",
    [
        [
            INIT,
            {
                "type": "assistant",
                "message": {"content": [{"type": "text", "text": "You've hit your limit · resets 4pm"}]},
            },
        ],
        [
            INIT,
            {
                "type": "user",
                "message": {"content": [{"type": "tool_result", "is_error": True, "content": "You've hit your limit"}]},
            },
        ],
        [
            INIT,
            {"type": "result", "is_error": True, "subtype": "success", "result": "The API said: You've hit your limit"},
        ],
    ],
    ids=["text", "tool", "quoted"],
)
def test_what_the_work_says_is_no_limit(tmp_path: Path, lines: list[Any]) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    profile = agents.profile("dev", {"exit": 1, "lines": lines})

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("t", "dev", retry_times=0), agents={"dev": profile}))
        assert states(await engine.ended())["t"] == "FAILED"
        assert await waits(engine) == []

    play(tmp_path / "root", use, clock=clock)


def test_a_successful_answer_about_limits_is_a_success(tmp_path: Path) -> None:
    agents = Agents(tmp_path)
    said = [INIT, {**FINE[1], "result": "You've hit your limit · resets 4pm (Europe/Berlin)"}]
    profile = agents.profile("dev", {"exit": 0, "lines": said})

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("t", "dev"), agents={"dev": profile}))
        assert states(await engine.ended())["t"] == "COMPLETED"

    play(tmp_path / "root", use)


def test_the_fallback_does_the_tasks_meanwhile_and_they_are_its_own(tmp_path: Path) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    profiles = {
        "dev": agents.profile("dev", claude_limit(RESET.timestamp()), DONE, fallback="spare"),
        "spare": agents.profile("spare", DONE, agent="qwen"),
    }

    async def use(engine: Engine) -> None:
        tasks = [task("t", "dev"), task("u", "dev", needs=["t"])]
        await engine.submit(plan(*tasks, agents=profiles))
        ended = await engine.until(lambda now: now.state == "ENDED")
        assert [(each["state"], each["agent_id"], each["rounds"]) for each in ended.tasks] == [
            ("COMPLETED", "spare", 0)
        ] * 2
        assert (agents.runs("dev"), agents.runs("spare")) == (1, 2)
        rows = await (await engine.deps.stores.board("default")).read(FACTS_OF, subject="p/t", after=0, limit=99)
        assert any("spare does it instead of dev, whose account waits" in str(row) for row in rows)

    play(tmp_path / "root", use, clock=clock)


def test_a_fallback_that_waits_too_is_no_help_until_it_is_free(tmp_path: Path) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    profiles = {
        "dev": agents.profile("dev", claude_limit(RESET.timestamp()), DONE, fallback="spare"),
        "spare": agents.profile("spare", OVERLOADED, DONE, agent="qwen", fallback="dev"),
    }

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("t", "dev"), agents=profiles))
        await engine.until(lambda now: waiting(now) and agents.runs("spare") == 1)
        await go_on(engine, clock, 15)
        ended = await engine.until(lambda now: now.state == "ENDED")
        assert (ended.tasks[0]["state"], ended.tasks[0]["agent_id"], agents.runs("dev")) == ("COMPLETED", "spare", 1)

    play(tmp_path / "root", use, clock=clock)


@pytest.mark.rest
def test_a_model_whose_service_is_overloaded_waits_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "no-real-key")
    clock = Clock()
    faults = [RefuseStep(429, "slow down", retry_after=3600)]
    with ScriptedModel([CallStep("answer", {"result": "Fine."})], faults=faults) as model:
        llm = {"provider": "openai", "model": "m", "base_url": f"{model.url}/v1", "key_env": "SHOP_KEY", "retries": 0}

        async def use(engine: Engine) -> None:
            profile = {"driver": "llm", "llm": llm, "sandbox": "plain"}
            await engine.submit(plan(task("t", "dev", retry_times=0), agents={"dev": profile}))
            found = (await engine.until(waiting)).tasks[0]
            assert str(found["reason"]).startswith("openai: its provider is overloaded; the next attempt is at")
            [row] = await waits(engine)
            assert (row.agent, row.until) == ("openai", "2026-03-01T13:00:00.000000Z")
            await go_on(engine, clock, 3600)
            assert states(await engine.until(lambda now: now.state == "ENDED"))["t"] == "COMPLETED"

        play(tmp_path / "root", use, clock=clock)


def test_an_agent_that_is_spoken_with_waits_too(tmp_path: Path) -> None:
    clock = Clock()
    why = {"details": "You've hit your limit · resets 4pm (Europe/Berlin)"}
    first = (
        f"begin()\ntell(id=prompt_id, error={{'code': -32603, 'message': 'Internal error', 'data': {why!r}}})\nrest()"
    )
    (tmp_path / "claude").mkdir()
    profile = speaks(tmp_path / "claude", first, acp={"agent": "claude"})

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("t", "dev", retry_times=0), agents={"dev": profile}))
        found = (await engine.until(waiting)).tasks[0]
        assert str(found["reason"]).startswith(
            "claude: usage limit of the account until 2026-03-01T15:01:00Z (You've hit"
        )

    play(tmp_path / "root", use, clock=clock)


def test_an_operator_ends_a_wait_when_the_account_takes_work_again(tmp_path: Path) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    profile = agents.profile("dev", claude_limit(RESET.timestamp()), DONE)

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("t", "dev"), task("u", "dev"), agents={"dev": profile}))
        await engine.until(lambda now: waiting(now) and waiting(now, "u"))
        assert await engine.dispatcher.operator.retry("p", "t", by="ada") == ["t"]
        ended = await engine.until(lambda now: now.state == "ENDED")
        assert (states(ended), agents.runs("dev")) == ({"t": "COMPLETED", "u": "COMPLETED"}, 3)
        assert [each["retries"] for each in ended.tasks] == [0, 0]

    play(tmp_path / "root", use, clock=clock)


def test_a_limit_while_an_input_is_judged_says_nothing_about_the_input(tmp_path: Path) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    judged = [INIT, {**FINE[1], "result": json.dumps({"decision": "ACCEPT", "score": 90, "issues": []})}]
    profile = agents.profile("dev", claude_limit(RESET.timestamp()), {"exit": 0, "lines": judged}, DONE)
    maker = task("text", "m", outputs=[{"name": "text"}])
    user = task("t", "dev", inputs=[{"name": "text", "from": "text"}], validate={"text": {"quality_threshold": 70}})

    async def use(engine: Engine) -> None:
        await engine.submit(plan(maker, {**user, "retry_times": 0}, agents={"dev": profile, "m": {"driver": "python"}}))
        await engine.until(waiting)
        await go_on(engine, clock, 3 * 3600)
        ended = await engine.until(lambda now: now.state == "ENDED")
        assert states(ended) == {"text": "COMPLETED", "t": "COMPLETED"}
        assert agents.runs("dev") == 3

    play(tmp_path / "root", use, clock=clock, proving=True)
