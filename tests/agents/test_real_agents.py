"""The real coding agents, offline: what they do is proven, and what they merely say is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.conftest import RIGHT, Shop, require
from agenttalk.testing.model_script import CallStep, RefuseStep, SayStep, Script, ShellStep, behaves, lies, loops
from agenttalk.wiring.machine import SystemClock

AGENTS = ("claude", "codex", "gemini", "qwen", "opencode")
TELLS_COSTS = {"claude"}


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Script:
    found: Script = request.param
    return found


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("script", [behaves({"price.py": RIGHT})], indirect=True, ids=["behaves"])
def test_who_does_the_work_is_done(shop: Shop, name: str) -> None:
    require(name)
    shop.plan(name)
    code, task = shop.run()
    assert (code, task["state"]) == (0, "COMPLETED"), (task["reason"], shop.events())
    assert shop.git("show", "agenttalk/shop:price.py") == RIGHT
    assert task["usage"]["tokens"] >= 240
    assert task["usage"]["tool_calls"] == 1
    assert bool(task["usage"].get("cost_usd")) == (name in TELLS_COSTS)
    told = shop.events()
    assert {"session", "tool", "usage", "end"} <= {each["kind"] for each in told}
    assert "no-real-key" not in str(told)


WRITTEN = f"price.py\n```\n{RIGHT}```\n"
"""A file as a model writes it for Aider, which gives it no tools."""


@pytest.mark.parametrize("script", [[SayStep(f"Here it is.\n\n{WRITTEN}")]], indirect=True, ids=["behaves"])
def test_aider_does_the_work(shop: Shop) -> None:
    require("aider")
    shop.model.tools = False
    shop.plan("aider")
    code, task = shop.run()
    assert (code, task["state"]) == (0, "COMPLETED"), (task["reason"], shop.events())
    assert shop.git("show", "agenttalk/shop:price.py") == RIGHT
    assert (task["usage"]["tokens"], task["usage"]["tool_calls"]) == (120, 1)
    assert ("Applied edit", "price.py") in [(each.get("name"), each.get("text")) for each in shop.events()]


@pytest.mark.parametrize("script", [lies()], indirect=True, ids=["lies"])
def test_aider_lies_and_is_not_done(shop: Shop) -> None:
    require("aider")
    shop.model.tools = False
    shop.plan("aider")
    code, task = shop.run()
    assert (code, task["state"]) == (1, "FAILED")
    assert "'tests-pass' failed" in task["reason"]


@pytest.mark.parametrize("script", [[RefuseStep(400, "no credit left")]], indirect=True, ids=["refused"])
def test_why_the_model_of_aider_does_not_answer_is_the_reason(shop: Shop) -> None:
    require("aider")
    shop.model.tools = False
    shop.plan("aider")
    code, task = shop.run()
    assert code == 1
    assert "no credit left" in task["reason"]


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("script", [lies()], indirect=True, ids=["lies"])
def test_who_lies_is_not_done_and_the_reason_says_so(shop: Shop, name: str) -> None:
    require(name)
    shop.plan(name)
    code, task = shop.run()
    assert (code, task["state"]) == (1, "FAILED")
    assert "'tests-pass' failed" in task["reason"]
    assert task["reason"].endswith("the agent says that it is finished, but it changed nothing")
    assert task["usage"]["tokens"] >= 120
    assert any("all tests pass" in each.get("text", "") for each in shop.events())


@pytest.mark.parametrize(
    "script", [[ShellStep("curl http://127.0.0.1:1"), SayStep("Done.")]], indirect=True, ids=["denied"]
)
def test_what_claude_was_not_permitted_is_the_reason(shop: Shop) -> None:
    require("claude")
    shop.plan("claude", profile={"sandbox": "plain"})
    code, task = shop.run()
    assert code == 1
    assert task["reason"].startswith("not permitted to the agent: Bash")


@pytest.mark.parametrize("script", [[RefuseStep(400, "no credit left")]], indirect=True, ids=["refused"])
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_why_the_model_does_not_answer_is_the_reason(shop: Shop, name: str) -> None:
    require(name)
    shop.plan(name)
    code, task = shop.run()
    assert code == 1
    assert "the agent failed: " in task["reason"]
    assert "no credit left" in task["reason"]


@pytest.mark.parametrize("script", [loops("true")], indirect=True, ids=["loops"])
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_who_goes_round_in_circles_is_stopped_by_its_budget(shop: Shop, name: str) -> None:
    require(name)
    shop.plan(name, budget={"tool_calls": 3})
    code, task = shop.run()
    assert (code, task["cause"]) == (1, "ABORTED")
    assert task["reason"].startswith("budget-exhausted: 4 tool calls")
    assert not _left_behind(shop.folder)


@pytest.mark.parametrize("script", [loops("true")], indirect=True, ids=["loops"])
@pytest.mark.parametrize("name", ["claude", "qwen", "opencode"])
def test_who_tells_what_it_uses_step_by_step_is_ended_in_its_turn_by_its_tokens(shop: Shop, name: str) -> None:
    require(name)
    shop.plan(name, budget={"tokens": 450})
    code, task = shop.run()
    assert (code, task["cause"]) == (1, "ABORTED")
    assert "tokens of the task's budget of 450 tokens" in task["reason"]
    assert not _left_behind(shop.folder)


FORGETS = [SayStep("Done."), *behaves({"price.py": RIGHT})]


@pytest.mark.parametrize("script", [FORGETS], indirect=True, ids=["forgets"])
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_who_stops_too_early_is_told_what_is_missing_and_goes_on(shop: Shop, name: str) -> None:
    require(name)
    shop.plan(name)
    code, task = shop.run()
    assert (code, task["state"]) == (0, "COMPLETED"), task["reason"]
    assert "does not pass: " in str([each.body for each in shop.model.requests])
    assert sum(each["kind"] == "end" for each in shop.events()) == (1 if name == "claude" else 2)


FOUND = CallStep("ToolSearch", {"query": "select:mcp__shop__price_list", "max_results": 1})
"""Claude Code offers tools of servers only when they are looked for."""


@pytest.mark.parametrize("script", [[FOUND, CallStep("price_list", {}), SayStep("Done.")]], indirect=True, ids=["mcp"])
def test_tools_of_an_mcp_server_are_called(shop: Shop) -> None:
    require("claude")
    server = Path(__file__).with_name("price_server.py")
    use = shop.use("claude")
    config = f'{{"mcpServers": {{"shop": {{"command": "python3", "args": ["{server}"]}}}}}}'
    shop.plan("claude", profile={"cli": {**use, "args": [f"--mcp-config={config}", "--strict-mcp-config"]}})
    shop.run()
    assert "mcp__shop__price_list" in [each.get("name") for each in shop.events() if each["kind"] == "tool"]
    assert "forty each" in str([each.body for each in shop.model.requests])


def _left_behind(folder: Path) -> list[str]:
    """Processes that still work somewhere in a folder."""
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            where = (process / "cwd").readlink()
        except OSError:
            continue
        if where.is_relative_to(folder):
            left.append(process.name)
    return left


@pytest.mark.mends("C3")
@pytest.mark.parametrize(
    ("name", "sandbox"),
    [*((each, "best") for each in AGENTS), ("claude", "plain"), ("qwen", "plain"), ("opencode", "plain")],
)
@pytest.mark.parametrize(
    "script", [[*[SayStep("All tests pass.")] * 3, *behaves({"price.py": RIGHT})]], indirect=True, ids=["at last"]
)
def test_rework_goes_on_with_the_session(shop: Shop, name: str, sandbox: str) -> None:
    """The model says three times that it is done, and works then: a session that began anew would never get there."""
    require(name)
    shop.plan(name, profile={"sandbox": sandbox})
    document = json.loads((shop.folder / "plan.json").read_text())
    document["tasks"][0]["max_reexecute_times"] = 1
    (shop.folder / "plan.json").write_text(json.dumps(document))
    (shop.folder / "root").mkdir()
    (shop.folder / "root/agenttalk.toml").write_text(f'[agents.dev]\nsandbox = "{sandbox}"\n')
    code, task = shop.run()
    assert (code, task["state"], task["rounds"]) == (0, "COMPLETED", 1), (task["reason"], shop.events())


class SubscribedShop(Shop):
    """A shop whose Claude Code has a subscription, and gives up after one attempt of its own."""

    @property
    def environment(self) -> dict[str, str]:
        """As usual, with a login instead of a key."""
        usual = {name: value for name, value in Shop.environment.__get__(self).items() if name != "ANTHROPIC_API_KEY"}
        return {**usual, "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-no-real-token", "CLAUDE_CODE_MAX_RETRIES": "1"}


def _used_up(name: str) -> RefuseStep:
    """The answer of a service whose subscription is used up for some seconds."""
    resets_at = int(SystemClock().now().timestamp()) + 20
    if name == "codex":
        told = {"type": "usage_limit_reached", "plan_type": "plus", "resets_at": resets_at}
        return RefuseStep(429, "The usage limit has been reached", error=told)
    limit = "anthropic-ratelimit-unified"
    headers = {
        f"{limit}-status": "rejected",
        f"{limit}-reset": str(resets_at),
        f"{limit}-representative-claim": "five_hour",
        f"{limit}-overage-status": "rejected",
    }
    return RefuseStep(429, "This request would exceed your limit.", error={"type": "rate_limit_error"}, headers=headers)


@pytest.mark.parametrize("name", ["claude", "codex"])
@pytest.mark.parametrize("script", [behaves({"price.py": RIGHT})], indirect=True, ids=["behaves"])
def test_who_runs_into_the_limit_of_its_subscription_waits_and_goes_on_by_itself(shop: Shop, name: str) -> None:
    require(name)
    shop = SubscribedShop(shop.folder, shop.model)
    shop.model.faults.append(_used_up(name))
    shop.plan(name, profile={"env": ["CLAUDE_CODE_MAX_RETRIES"]})
    code, task = shop.run()
    assert (code, task["state"], task["retries"], task["rounds"]) == (0, "COMPLETED", 0, 0), task["reason"]
    told = json.loads(shop.agenttalk("explain", "shop/fix", "--json").stdout)
    limited, done = told["attempts"]
    assert (limited["how"], limited["cause"]) == ("limited", "ACCOUNT_LIMIT")
    assert f"{name}: usage limit of the account until " in limited["reason"]
    assert done["cause"] == "FULFILLED"


@pytest.mark.parametrize(("name", "status", "times"), [("claude", 529, 2), ("codex", 503, 5)])
@pytest.mark.parametrize("script", [behaves({"price.py": RIGHT})], indirect=True, ids=["behaves"])
def test_who_meets_an_overloaded_service_is_tried_again_and_uses_no_round(
    shop: Shop, name: str, status: int, times: int
) -> None:
    require(name)
    shop = SubscribedShop(shop.folder, shop.model)
    told = {"type": "overloaded_error" if name == "claude" else "server_error", "code": "server_is_overloaded"}
    shop.model.faults.extend([RefuseStep(status, "Overloaded", error=told)] * times)
    shop.plan(name, profile={"env": ["CLAUDE_CODE_MAX_RETRIES"]})
    code, task = shop.run()
    assert (code, task["state"], task["retries"], task["rounds"]) == (0, "COMPLETED", 0, 0), task["reason"]
    attempts = json.loads(shop.agenttalk("explain", "shop/fix", "--json").stdout)["attempts"]
    assert {each["how"] for each in attempts[:-1]} == {"limited"}
    assert "its provider is overloaded" in attempts[0]["reason"]
