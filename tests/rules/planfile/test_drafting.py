"""What a planner may say, and what is settled by whoever asks for a plan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.planfile.reader import plan_of
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.rules.planfile.drafts import DraftFrame, assemble_plan, make_plan_id, strip_fence

FRAME = DraftFrame("opening", ("dev", "tester"))
TASK = {"id": "write", "agent": "dev", "prompt": "Write."}


def wrong(draft: object, frame: DraftFrame = FRAME) -> list[tuple[str, str]]:
    return [(str(each.code), each.field) for each in assemble_plan(draft, frame)[1]]


def test_a_draft_becomes_a_plan_of_the_agents_that_it_names() -> None:
    plan, problems = assemble_plan({"name": "Opening", "tasks": [TASK]}, FRAME)
    assert problems == ()
    assert plan == {"plan_id": "opening", "name": "Opening", "tasks": [TASK], "agents": {"dev": {}}}
    assert plan_of(YamlSource(plan)).plan_id == "opening"


def test_what_is_settled_for_it_is_added() -> None:
    frame = DraftFrame("opening", ("dev",), {"repo": "/srv/shop"}, ("lead",))
    plan, problems = assemble_plan({"tasks": [TASK]}, frame)
    assert (problems, plan["workspace"]) == ((), {"repo": "/srv/shop"})
    assert (plan["review"], plan["agents"]) == ({"reviewers": ["lead"]}, {"dev": {}, "lead": {}})


@pytest.mark.parametrize("key", ["agents", "workspace", "policies", "release", "review", "limits", "project", "promt"])
def test_what_is_not_the_planners_business_is_refused(key: str) -> None:
    assert wrong({"tasks": [TASK], key: {"dev": {"driver": "script", "argv": ["rm"]}}}) == [("FIELD_UNKNOWN", key)]


def test_an_id_of_its_own_means_nothing() -> None:
    plan, problems = assemble_plan({"plan_id": "mine", "version": 1, "tasks": [TASK]}, FRAME)
    assert (plan["plan_id"], problems) == ("opening", ())


@pytest.mark.parametrize(("agent", "hint"), [("devv", "did you mean 'dev'?"), ("root", "the team is: dev, tester")])
def test_only_the_team_is_given_tasks(agent: str, hint: str) -> None:
    draft = {"tasks": [TASK, {**TASK, "agent": agent}]}
    assert wrong(draft) == [("NAME_UNKNOWN", "tasks[1].agent")]
    assert assemble_plan(draft, FRAME)[1][0].hint == hint
    assert assemble_plan(draft, FRAME)[0]["agents"] == {"dev": {}}


@pytest.mark.parametrize("draft", [None, [], "tasks", 7])
def test_what_is_no_mapping_is_no_draft(draft: object) -> None:
    assert wrong(draft) == [("FIELD_TYPE", "")]


@pytest.mark.parametrize("tasks", [None, {}, "x", ["x"], [{"agent": 7}]])
def test_tasks_that_are_none_are_left_to_whoever_reads_plans(tasks: Any) -> None:
    assert wrong({"tasks": tasks}) == []


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("```yaml\ntasks: []\n```\n", "tasks: []\n"),
        ("\n```\na\n```", "a\n"),
        ("a: |\n  ```\n  x\n  ```\n", "a: |\n  ```\n  x\n  ```\n"),
        ("Here it is:\n```\na\n```", "Here it is:\n```\na\n```"),
    ],
)
def test_a_fence_around_everything_is_taken_off(text: str, plain: str) -> None:
    assert strip_fence(text) == plain


@given(st.text())
def test_every_goal_has_an_id_of_its_own(goal: str) -> None:
    assert is_id(f"draft-{make_plan_id(goal)}")
    assert make_plan_id(goal) == make_plan_id(goal) != make_plan_id(goal + "!")


def test_ids_of_goals_can_be_read() -> None:
    assert make_plan_id("Say when we open: the shop!").startswith("say-when-we-open-the-shop-")
    assert make_plan_id("开门").startswith("plan-")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["tasks", "agent", "x"]), inner),
    )
)
def test_whatever_is_drafted_no_agent_outside_the_team_is_in_the_plan(draft: object) -> None:
    plan, _ = assemble_plan(draft, FRAME)
    assert set(plan.get("agents", {})) <= {"dev", "tester"}
    assert set(plan) <= {"plan_id", "name", "tasks", "agents"}
