"""Real coding agents use our MCP server in their turns, offline: with the attempt's own token, and no other task."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agents.conftest import Shop, Spoken, require
from agenttalk.rules.agents import acp_table
from agenttalk.testing.model_script import CallStep, SayStep, Script, ScriptStep

TOOLS = ("generate_command", "submit_report", "ask_human", "submit_artifact", "check_promise")
COMMAND = {"plan_id": "shop", "task_id": "price", "prompt": "Price it again."}
CALLS: list[ScriptStep] = [
    CallStep("generate_command", {"params": COMMAND}),
    CallStep("submit_report", {"body": "I looked at the prices."}),
    CallStep("ask_human", {"question": "Is forty right?"}),
    CallStep("submit_artifact", {"output": "note.txt", "text": "Forty each.\n"}),
    CallStep("check_promise", {}),
    SayStep("Done."),
]


@pytest.fixture
def script() -> Script:
    return CALLS


def asks(shop: Shop, **profile: Any) -> dict[str, Any]:
    """Run a plan whose agent has our tools, and beside it a task that is none of its business; how its task stands."""
    agents = {"dev": {"mcp": True, **profile}, "pm": {"driver": "script", "argv": ["true"]}}
    note = {
        "id": "price",
        "agent": "dev",
        "prompt": "Write down the price.",
        "outputs": [{"name": "note.txt", "deliverable": True}],
    }
    hidden = {"id": "secret", "agent": "pm", "prompt": "The password is swordfish.", "needs": ["price"]}
    tasks = [{**note, "max_reexecute_times": 0}, hidden]
    (shop.folder / "plan.json").write_text(json.dumps({"plan_id": "shop", "agents": agents, "tasks": tasks}))
    with nobody_shows_a_token():
        done = shop.agenttalk("run", "plan.json", "--json")
    assert '"tasks"' in done.stdout, done.stdout + done.stderr
    found: dict[str, Any] = next(each for each in json.loads(done.stdout)["tasks"] if each["task_id"] == "price")
    return found


@contextmanager
def nobody_shows_a_token() -> Iterator[None]:
    """Look at the arguments of all processes meanwhile: everybody can read them."""
    over, shown = threading.Event(), set[bytes]()

    def look() -> None:
        while not over.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    argv = path.read_bytes()
                    shown.update({argv[:80]} if b"agt_eyJ" in argv else ())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
    assert shown == set()


def answered(shop: Shop) -> None:
    """Every tool did what it is for, and what is none of the task's business stayed hidden."""
    heard = str([each.body for each in shop.model.requests])
    assert "cmd_price_00" in heard
    assert "swordfish" not in heard
    assert "agt_" not in heard + json.dumps(shop.events("price"))
    left = [path for path in (shop.folder / "home").rglob("*") if path.is_file() and b"agt_eyJ" in path.read_bytes()]
    assert left == []
    [note] = (shop.folder / "root").glob("agents/dev/workspace/shop/price/.agenttalk/*/outputs/note.txt")
    assert note.read_text() == "Forty each.\n"
    asked = json.loads(shop.agenttalk("inbox", "--json").stdout)["requests"]
    assert "Is forty right?" in [each["request"]["title"] for each in asked]
    facts = [json.loads(line) for line in shop.agenttalk("audit", "export").stdout.splitlines()]
    said = [(each["subject"], each["body"]["author"]) for each in facts if each.get("kind") == "task.comment"]
    assert said == [("shop/price", "dev")]


USES = [
    *(("claude", "best"), ("claude", "plain"), ("codex", "best"), ("codex", "plain")),
    *(("gemini", "best"), ("qwen", "best"), ("opencode", "best")),
]


@pytest.mark.parametrize(("name", "sandbox"), USES)
def test_an_agent_uses_our_tools_in_its_turn_and_reaches_no_other_task(shop: Shop, name: str, sandbox: str) -> None:
    require(name)
    task = asks(shop, driver="cli", cli=shop.use(name), sandbox=sandbox)
    told = shop.events("price")
    assert task["state"] == "COMPLETED", (task["reason"], told)
    called = [each["name"] for each in told if each["kind"] == "tool"]
    assert [each for each in TOOLS if any(one.endswith(each) for one in called)] == list(TOOLS), called
    answered(shop)


@pytest.mark.parametrize("sandbox", ["best", "plain"])
@pytest.mark.parametrize("name", [name for name in acp_table.TABLE if name != "custom"])
def test_an_agent_that_is_spoken_with_uses_them_as_well(shop: Shop, name: str, sandbox: str) -> None:
    require(acp_table.TABLE[name].program)
    spoken = Spoken(shop.folder, shop.model)
    task = asks(spoken, driver="acp", acp=spoken.acp(name), sandbox=sandbox)
    told = spoken.events("price")
    assert task["state"] == "COMPLETED", (task["reason"], told)
    assert sum(each["kind"] == "tool" for each in told) >= len(TOOLS), told
    answered(spoken)
