"""How much an agent is isolated: the operator says the least, plans can ask for more."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.agent import AgentProfile
from agenttalk.rules.agents.results import describe_exit
from agenttalk.rules.core.isolation import (
    IsolationSetting,
    IsolationSettings,
    apply_setting,
    find_unheeded,
    is_missing,
    raise_isolation,
)


def profile(**keys: Any) -> AgentProfile:
    return AgentProfile.read({"agent_id": "dev", **keys})


def word(said: dict[str, Any]) -> IsolationSetting:
    return IsolationSetting(said.get("sandbox"), said.get("isolation"))


@pytest.mark.mends("F7", "F15")
@pytest.mark.parametrize(
    ("asked", "said", "sandbox", "required"),
    [
        ({}, {}, "best", False),
        ({"sandbox": "plain"}, {}, "best", False),
        ({"sandbox": "landlock"}, {}, "landlock", True),
        ({"sandbox": "bubblewrap", "isolation": "best"}, {}, "bubblewrap", False),
        ({"isolation": "required"}, {}, "best", True),
        ({"sandbox": "plain", "isolation": "required"}, {}, "best", True),
        ({}, {"sandbox": "plain"}, "plain", False),
        ({"sandbox": "plain"}, {"sandbox": "plain"}, "plain", False),
        ({"sandbox": "best"}, {"sandbox": "plain"}, "best", False),
        ({"sandbox": "bubblewrap"}, {"sandbox": "plain"}, "bubblewrap", True),
        ({"isolation": "required"}, {"sandbox": "plain"}, "best", True),
        ({}, {"sandbox": "bubblewrap"}, "bubblewrap", True),
        ({"sandbox": "landlock"}, {"sandbox": "bubblewrap"}, "bubblewrap", True),
        ({"isolation": "best"}, {"sandbox": "bubblewrap"}, "bubblewrap", True),
        ({}, {"sandbox": "bubblewrap", "isolation": "best"}, "bubblewrap", False),
        ({}, {"isolation": "required"}, "best", True),
        ({"isolation": "best"}, {"isolation": "required"}, "best", True),
        ({}, {"sandbox": "plain", "isolation": "required"}, "best", True),
    ],
)
def test_a_plan_asks_for_as_much_as_the_operator_says_or_for_more(
    asked: dict[str, Any], said: dict[str, Any], sandbox: str, required: bool
) -> None:
    found = apply_setting(profile(**asked), word(said))
    assert (found.tier, found.isolated_only) == (sandbox, required)


def test_what_is_said_of_one_agent_wins_over_what_is_said_of_all() -> None:
    words = IsolationSettings(
        IsolationSetting("bubblewrap", "required"),
        {"dev": IsolationSetting("plain"), "qa": IsolationSetting(None, "best")},
    )
    assert words.setting_of("dev") == IsolationSetting("plain", "required")
    assert words.setting_of("qa") == IsolationSetting("bubblewrap", "best")
    assert words.setting_of("ops") == IsolationSetting("bubblewrap", "required")
    assert IsolationSettings(IsolationSetting("plain")).apply_to(profile()).tier == "plain"


def test_what_a_plan_asks_for_in_vain_is_told_with_what_to_do() -> None:
    profiles = {"dev": profile(sandbox="plain", isolation="best"), "qa": profile()}
    assert find_unheeded(profiles, IsolationSettings(IsolationSetting("plain"))) == ()
    [first, second] = find_unheeded(profiles, IsolationSettings(IsolationSetting(None, "required")))
    assert (first.field, second.field) == ("agents.dev.sandbox", "agents.dev.isolation")
    assert "'best'" in first.message
    assert "agenttalk.toml" in (first.hint or "")
    assert "required" in second.message


def test_a_plan_cannot_lower_what_an_agents_own_profile_says() -> None:
    own = {"sandbox": "bubblewrap", "isolation": "required"}
    assert raise_isolation(own, {"sandbox": "plain"}) == own
    assert raise_isolation({"sandbox": "landlock"}, {"sandbox": "bubblewrap"}) == {"sandbox": "bubblewrap"}
    assert raise_isolation({}, {"sandbox": "plain", "argv": []}) == {"sandbox": "plain", "argv": []}


def test_work_rests_on_no_isolation_when_its_agent_or_a_check_of_it_had_none() -> None:
    assert is_missing("plain", ())
    assert is_missing("bubblewrap", [{"isolated": True}, {"isolated": False}])
    assert not is_missing("bubblewrap", [{"isolated": True}, {}])
    assert not is_missing("", ())


@pytest.mark.parametrize(
    ("code", "words"),
    [(1, "exit code 1"), (137, "exit code 137 (ended by SIGKILL)"), (152, "exit code 152 (ended by SIGXCPU)")],
)
def test_an_exit_code_tells_of_the_signal_that_a_sandbox_saw(code: int, words: str) -> None:
    assert describe_exit(code) == words
