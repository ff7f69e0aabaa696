"""The real coding agents, offline, spoken with by the Agent Client Protocol."""

from __future__ import annotations

import pytest

from agents.conftest import RIGHT, Shop, Spoken, require
from agenttalk.rules.agents.acp_table import TABLE
from agenttalk.testing.model_script import RefuseStep, SayStep, Script, ShellStep, WriteStep, behaves, lies, loops

AGENTS = ("claude", "codex", "gemini", "qwen", "opencode")


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Script:
    found: Script = request.param
    return found


@pytest.fixture
def spoken(shop: Shop) -> Spoken:
    return Spoken(shop.folder, shop.model)


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("script", [behaves({"price.py": RIGHT})], indirect=True, ids=["behaves"])
def test_who_is_spoken_with_and_does_the_work_is_done(spoken: Spoken, name: str) -> None:
    require(TABLE[name].program)
    spoken.spoken(name)
    code, task = spoken.run()
    assert (code, task["state"]) == (0, "COMPLETED"), (task["reason"], spoken.events())
    assert spoken.git("show", "agenttalk/shop:price.py") == RIGHT
    assert task["usage"]["tool_calls"] == 1
    assert task["usage"]["tokens"] >= 120
    told = spoken.events()
    assert {"session", "tool", "usage", "text", "end"} <= {each["kind"] for each in told}
    assert "no-real-key" not in str(told)


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("script", [lies()], indirect=True, ids=["lies"])
def test_who_is_spoken_with_and_lies_is_not_done(spoken: Spoken, name: str) -> None:
    require(TABLE[name].program)
    spoken.spoken(name)
    code, task = spoken.run()
    assert (code, task["state"]) == (1, "FAILED")
    assert "'tests-pass' failed" in task["reason"]
    assert task["reason"].endswith("the agent says that it is finished, but it changed nothing")


OUTSIDE = [[WriteStep("notes.md", "mine"), SayStep("Done.")]]


@pytest.mark.parametrize("script", OUTSIDE, indirect=True, ids=["outside"])
@pytest.mark.parametrize("name", ["claude", "gemini", "qwen", "opencode"])
def test_what_lies_outside_of_the_scope_is_refused_by_name(spoken: Spoken, name: str) -> None:
    require(TABLE[name].program)
    spoken.spoken(name, sandbox="plain")
    code, task = spoken.run()
    assert code == 1
    assert task["reason"].startswith("not permitted to the agent: edit (notes.md is not in its task's scope)"), (
        spoken.events()
    )


@pytest.mark.parametrize(
    "script", [[ShellStep("curl http://127.0.0.1:1"), SayStep("Done.")]], indirect=True, ids=["denied"]
)
@pytest.mark.parametrize("name", [name for name in AGENTS if name != "codex"])  # it asks only to leave its own sandbox
def test_what_its_profile_denies_is_refused_also_in_a_sandbox(spoken: Spoken, name: str) -> None:
    require(TABLE[name].program)
    spoken.spoken(name, {"deny": ["execute:curl *"]})
    code, task = spoken.run()
    assert code == 1
    assert "execute (its profile denies execute:curl *): curl http://127.0.0.1:1" in task["reason"], spoken.events()


@pytest.mark.parametrize("script", [[RefuseStep(400, "no credit left")]], indirect=True, ids=["refused"])
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_why_the_model_does_not_answer_is_told(spoken: Spoken, name: str) -> None:
    require(TABLE[name].program)
    spoken.spoken(name)
    code, task = spoken.run()
    assert code == 1
    assert "no credit left" in task["reason"] + str(spoken.events())


@pytest.mark.parametrize("script", [loops("true")], indirect=True, ids=["loops"])
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_who_goes_round_in_circles_is_told_to_stop(spoken: Spoken, name: str) -> None:
    require(TABLE[name].program)
    spoken.spoken(name, budget={"tool_calls": 3})
    code, task = spoken.run()
    assert (code, task["cause"]) == (1, "ABORTED")
    assert task["reason"].startswith("budget-exhausted: 4 tool calls")


FORGETS = [SayStep("Done."), *behaves({"price.py": RIGHT})]


@pytest.mark.parametrize("script", [FORGETS], indirect=True, ids=["forgets"])
@pytest.mark.parametrize("name", ["claude", "codex", "qwen"])
def test_who_stops_too_early_goes_on_in_its_session(spoken: Spoken, name: str) -> None:
    require(TABLE[name].program)
    spoken.spoken(name)
    code, task = spoken.run()
    assert (code, task["state"]) == (0, "COMPLETED"), (task["reason"], spoken.events())
    assert "does not pass: " in str([each.body for each in spoken.model.requests])
    told = spoken.events()
    assert len({each["text"] for each in told if each["kind"] == "session"}) == 1, told
