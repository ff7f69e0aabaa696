"""A task that several agents race for: which tasks the compiler makes of it, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agenttalk.contracts.errors import Code
from agenttalk.contracts.planfile import reader
from agenttalk.rules.planfile.compiler import CompiledPlan, compile_plan

PROMISE = {
    "objective": "It works",
    "acceptance": [{"id": "works", "description": "It works", "evidenceRequired": ["t"]}],
    "checks": [{"id": "t", "kind": "run", "run": "true"}],
}


def raced(**said: Any) -> dict[str, Any]:
    about = {"id": "fix", "agent": "a", "race": ["b", "c"], "prompt": "Fix it.", "workspace": "repo"}
    task = {**about, "promise": PROMISE, **said}
    return {key: value for key, value in task.items() if value is not None}


def other(**said: Any) -> dict[str, Any]:
    return {"id": "after", "agent": "a", "prompt": "Go on.", **said}


def compiled(*tasks: dict[str, Any], **agents: Any) -> CompiledPlan:
    profiles = {name: {"driver": "folder"} for name in "abc"} | agents
    plan = {"plan_id": "p", "workspace": {"repo": "."}, "agents": profiles, "tasks": list(tasks)}
    return compile_plan(reader.read_plan_file(json.dumps(plan).encode(), yaml=False))


def test_each_agent_gets_a_task_and_others_wait_for_all_of_them() -> None:
    plan = compiled(raced(), other(needs=["fix"]), other(id="first"))
    assert plan.ok, plan.problems
    nodes = {str(node.task_id): node for node in plan.dag.nodes}
    assert list(nodes) == ["fix", "after", "first", "fix.b", "fix.c"]
    assert [nodes[name].assigned_agent_id for name in ("fix", "fix.b", "fix.c")] == ["a", "b", "c"]
    assert nodes["fix"].race == ("fix.b", "fix.c")
    assert nodes["fix.c"].race == ("fix", "fix.b")
    assert nodes["fix.c"].promise == nodes["fix"].promise
    assert nodes["after"].depends_on == ("fix", "fix.b", "fix.c")
    assert (nodes["after"].race, nodes["first"].depends_on) == ((), ())


@pytest.mark.parametrize(
    ("tasks", "code", "why"),
    [
        ([raced(race=["b", "b"])], Code.FIELD_VALUE, "is named twice"),
        ([raced(race=["a"])], Code.FIELD_VALUE, "is named twice"),
        ([raced(race=["gone"])], Code.DAG_AGENT_UNKNOWN, "there is no agent 'gone'"),
        ([raced(workspace=None)], Code.FIELD_VALUE, "works on no repository"),
        ([raced(promise=None)], Code.FIELD_VALUE, "has no check"),
        ([raced(outputs=[{"name": "x", "deliverable": True}])], Code.FIELD_VALUE, "makes outputs"),
        ([raced(gates={"thresholds": {"fix_min_score": 1}}, score_required=True)], Code.FIELD_VALUE, "has gates"),
        ([raced(), other(id="fix.c")], Code.NAME_TAKEN, "an id that is free"),
        ([raced(id="f" * 127)], Code.NAME_TAKEN, "an id that is free"),
        (
            [raced(), other(id="base"), other(needs=["base"], on_dependency_failed="FALLBACK", fallback="fix")],
            Code.FIELD_VALUE,
            "runs only if 'after' calls for it",
        ),
    ],
)
def test_what_cannot_be_raced_for_is_refused_at_its_key(tasks: list[dict[str, Any]], code: Code, why: str) -> None:
    told = [problem for problem in compiled(*tasks).problems if problem.field == "tasks[0].race"]
    assert {problem.code for problem in told} == {code}
    assert all(why in problem.message for problem in told)


def test_a_branch_cannot_call_for_a_race() -> None:
    gates = {"branches": [{"when": "score > 3", "activate": ["fix"]}]}
    [problem] = compiled(raced(), other(gates=gates, score_required=True)).problems
    assert "runs only if 'after' calls for it" in problem.message


def test_a_fault_of_the_task_is_named_once_and_one_of_an_agent_at_the_race() -> None:
    wrong = {**PROMISE, "acceptance": [{"id": "works", "description": "It works", "evidenceRequired": ["gone"]}]}
    plan = compiled(raced(promise=wrong), b={"driver": "llm", "llm": {"provider": "openai", "model": "small"}})
    assert [(each.field, "sees no files" in each.message) for each in plan.problems] == [("tasks[0].race", True)]
    assert [each.field.split(".")[1] for each in plan.warnings if "gone" in each.message] == ["promise"]


def test_a_fault_outside_the_tasks_stays_where_it_is() -> None:
    fields = {problem.field for problem in compiled(raced(), b={"driver": "script"}).problems}
    assert fields == {"agents.b.argv"}
