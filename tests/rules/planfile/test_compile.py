"""What a plan file compiles to, and everything that compiling finds wrong, in the plan file's own words."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core.base import AgentId
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import Code, ContractError
from agenttalk.contracts.plan import PlanManifest
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.model import PLACEHOLDER_ID
from agenttalk.rules.planfile import compiler as rules
from agenttalk.rules.planfile import plan_checks, promise_checks
from agenttalk.rules.planfile.compiler import CompiledPlan, compile_plan
from agenttalk.rules.plans import dag_checks
from agenttalk.rules.text import message

AGENTS = {name: {"driver": "folder"} for name in ("a", "b", "c")}


def task(task_id: str, agent: str = "a", **said: Any) -> dict[str, Any]:
    return {"id": task_id, "agent": agent, "prompt": "Do it.", **said}


def compiled(*tasks: dict[str, Any], agents: dict[str, AgentProfile] | None = None, **said: Any) -> CompiledPlan:
    plan = {"plan_id": "p", "agents": AGENTS, "tasks": list(tasks), **said}
    return compile_plan(reader.read_plan_file(json.dumps(plan).encode(), yaml=False), agents=agents or {})


def found(*tasks: dict[str, Any], **said: Any) -> list[tuple[Code, str]]:
    return [(each.code, each.field) for each in compiled(*tasks, **said).problems]


def doubts(*tasks: dict[str, Any], **said: Any) -> list[tuple[Code, str]]:
    return [(each.code, each.field) for each in compiled(*tasks, **said).warnings]


def takes(name: str, **said: Any) -> list[dict[str, Any]]:
    return [{"name": "n", "from": name, **said}]


def makes(name: str, *to: str, **said: Any) -> list[dict[str, Any]]:
    return [{"name": name, "deliver_to": list(to), **said}]


def promise(**said: Any) -> dict[str, Any]:
    return {
        "objective": "It works",
        "acceptance": [{"id": "works", "description": "It works", "evidenceRequired": ["t"]}],
        "checks": [{"id": "t", "kind": "run", "run": "true"}],
        **said,
    }


def promised(outputs: list[dict[str, Any]] | None = None, **said: Any) -> dict[str, Any]:
    return task("t", promise=promise(**said), outputs=outputs or [])


def test_a_plan_becomes_a_dag_a_manifest_and_profiles() -> None:
    done = compiled(
        task("one", outputs=makes("x.md", "b")),
        task(
            "two",
            "b",
            name="The second",
            needs=["one"],
            inputs=takes("x.md", pick="first_seen", min_count=1),
            outputs=[
                {"name": "y.md", "deliverable": True, "when": "score > 3", "versioning": {"mode": "keep_latest"}},
                {"name": "z.md", "deliver_to": ["c"], "optional": True, "content_type": "text/markdown"},
            ],
            workspace="repo",
            validate={"n": {"format": "text"}},
            score_required=True,
            score_criteria="how good",
            gates={"required": True, "thresholds": {"two_min_score": 70}},
            timeout=5,
            retry_times=2,
            priority="LOW",
            max_reexecute_times=1,
            promise=promise(),
        ),
        workspace={"repo": "."},
        limits={"max_running": 2},
        policies={"commanders": ["c"], "max_reexecute_times": 1},
        name="Two things",
    )
    assert done.ok
    assert done.warnings == ()
    node = done.dag.nodes[1]
    assert (node.timeout, node.retry_times, node.priority, node.workspace) == (5, 2, "LOW", "repo")
    assert node.promise
    assert node.promise.id == PLACEHOLDER_ID
    assert node.inputs[0].validation_criteria == node.validation_criteria
    assert node.failure_policy
    assert (node.failure_policy.on_dependency_failed, node.failure_policy.max_reexecute_times) == ("BLOCK", 1)
    assert node.outputs[0].versioning.mode == "keep_latest"
    assert done.manifest.commanders == ("c",)
    assert done.manifest.limits
    assert [(each.name, each.from_task_id) for each in done.manifest.deliverables] == [("y.md", "two")]
    assert sorted(done.profiles) == ["a", "b", "c"]
    assert TaskDag.from_bytes(done.dag.to_bytes()) == done.dag
    assert PlanManifest.from_bytes(done.manifest.to_bytes()) == done.manifest


@pytest.mark.parametrize(
    ("agent", "settled"), [("far", ""), ("near", ""), ("near", "remote"), ("far", "script"), ("nobody", "")]
)
def test_an_agent_elsewhere_gets_a_task_in_the_repository_as_any_other(agent: str, settled: str) -> None:
    plan = {
        "plan_id": "p",
        "agents": {"far": {"driver": "remote"}, "near": {"driver": "folder"}},
        "tasks": [task("t", agent, workspace="repo")],
        "workspace": {"repo": "."},
    }
    profile = {"schema_version": "1.0", "agent_id": agent, "driver": settled, "argv": ["sh"]}
    agents = {agent: AgentProfile.from_json(profile)} if settled else {}
    told = compile_plan(reader.read_plan_file(json.dumps(plan).encode(), yaml=False), agents=agents).problems
    assert "tasks[0].workspace" not in [each.field for each in told]


def test_whoever_takes_an_output_receives_it_and_waits_for_it() -> None:
    done = compiled(task("one", outputs=makes("x.md")), task("two", "b", inputs=takes("x.md")))
    assert done.ok
    assert done.dag.nodes[0].outputs[0].deliver_to == ("b",)
    assert done.dag.nodes[1].depends_on == ("one",)
    assert [(each.code, each.field) for each in done.warnings] == [(Code.PLAN_DERIVED, "tasks[1].inputs[0].from")] * 2
    assert "'b' receives 'x.md' from task 'one'" in done.warnings[0].message


def test_what_is_written_is_not_derived() -> None:
    assert doubts(task("one", outputs=makes("x", "*")), task("two", "b", needs=["one"], inputs=takes("x"))) == []
    both = [*takes("x"), {"name": "m", "from": "x"}, {"name": "o", "from": "y"}]
    done = compiled(task("one", outputs=[*makes("x"), *makes("y")]), task("two", "b", inputs=both))
    assert done.dag.nodes[1].depends_on == ("one",)
    assert done.dag.nodes[0].outputs[0].deliver_to == ("b",)
    assert len(done.warnings) == 3


def test_an_input_that_is_not_required_makes_nobody_wait() -> None:
    done = compiled(task("one", outputs=makes("x")), task("two", "b", inputs=takes("x", required=False)))
    assert done.dag.nodes[1].depends_on == ()
    assert done.dag.nodes[0].outputs[0].deliver_to == ("b",)
    assert compiled(task("one"), task("two", inputs=takes("x", external=True))).ok


def test_of_several_makers_the_needed_one_delivers() -> None:
    makers = [task("one", outputs=makes("x", "c")), task("two", outputs=makes("x", "c"))]
    done = compiled(*makers, task("three", "b", needs=["two"], inputs=takes("x")))
    assert [each.outputs[0].deliver_to for each in done.dag.nodes[:2]] == [("c",), ("c", "b")]
    unsaid = compiled(*makers, task("three", "b", inputs=takes("x")))
    assert unsaid.dag.nodes[2].depends_on == ("one", "two")
    derived = Code.PLAN_DERIVED
    assert [each.code for each in unsaid.warnings] == [derived, derived, Code.PLAN_DOUBTFUL, *[derived] * 3]
    assert "'one', 'two'" in unsaid.warnings[2].message


@pytest.mark.mends("B8")
@pytest.mark.parametrize(
    ("wanted", "picks", "said"),
    [
        ({"from": "x"}, "latest_by_delivered_at", 1),
        ({"file": "x"}, "latest_by_delivered_at", 1),
        ({"from": "x", "pick": "first_seen"}, "first_seen", 0),
        ({"glob": "*"}, "all", 0),
    ],
)
def test_which_of_several_is_taken_is_written_down_and_said(wanted: dict[str, str], picks: str, said: int) -> None:
    makers = [task(each, outputs=makes("x", "b")) for each in ("one", "two")]
    for needs in ([], ["one", "two"] if "from" in wanted else []):
        done = compiled(*makers, task("three", "b", needs=needs, inputs=[{"name": "in", **wanted}]))
        assert done.ok
        assert done.dag.nodes[2].needs[0].pick_policy == picks
        assert sum("takes the latest of what 'one', 'two' make" in each.message for each in done.warnings) == said


def test_of_several_makers_those_that_come_later_are_not_waited_for() -> None:
    done = compiled(
        task("draft", outputs=makes("x")),
        task("review", "b", inputs=takes("x"), outputs=makes("notes", "c")),
        task("polish", "c", needs=["review"]),
        task("print", "c", needs=["review"]),
        task("revise", needs=["polish", "print"], outputs=makes("x", "c")),
    )
    assert done.ok
    assert done.dag.nodes[1].depends_on == ("draft",)


@pytest.mark.parametrize("wanted", [{"glob": "part*.md"}, {"file": "part1.md"}])
def test_what_is_delivered_to_an_input_by_its_name_is_waited_for(wanted: dict[str, str]) -> None:
    makers = [task(f"m{at}", outputs=makes(f"part{at}.md", to)) for at, to in enumerate(("c", "b", "*"))]
    done = compiled(*makers, task("join", "b", inputs=[{"name": "parts", **wanted}]))
    assert done.ok
    assert done.dag.nodes[3].depends_on == (("m1", "m2") if "glob" in wanted else ("m1",))


def test_where_there_are_too_many_globs_nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agenttalk.rules.planfile.compiler.GLOB_BUDGET", 0)
    done = compiled(task("m", outputs=makes("a.md", "b")), task("n", "b", inputs=[{"name": "i", "glob": "*.md"}]))
    assert done.dag.nodes[1].depends_on == ()


def test_what_a_needed_folder_may_hold_makes_nobody_wait_for_more() -> None:
    makers = [task("m", outputs=makes("reports")), task("n", outputs=makes("late.md", "b"))]
    done = compiled(*makers, task("join", "b", needs=["m"], inputs=[{"name": "parts", "glob": "*.md"}]))
    assert done.dag.nodes[2].depends_on == ("m",)


def test_a_fallback_delivers_too_and_is_not_waited_for() -> None:
    done = compiled(
        task("main", outputs=makes("x")),
        task("spare", "c", outputs=makes("x")),
        task("use", "b", inputs=takes("x"), fallback="spare"),
    )
    said = compiled(
        task("main", outputs=makes("x")),
        task("spare", "c", outputs=makes("x")),
        task("third", "c", outputs=makes("x", "c")),
        task("use", "b", inputs=takes("x"), needs=["main"], fallback="spare"),
    )
    assert [each.outputs[0].deliver_to for each in said.dag.nodes[:3]] == [("b",), ("b",), ("c",)]
    assert done.ok
    assert done.dag.nodes[2].depends_on == ("main",)
    assert [each.outputs[0].deliver_to for each in done.dag.nodes[:2]] == [("b",), ("b",)]
    policy = done.dag.nodes[2].failure_policy
    assert policy
    assert (policy.on_dependency_failed, policy.fallback_task_id) == ("FALLBACK", "spare")


def test_a_task_that_also_makes_its_input_waits_for_the_other_maker() -> None:
    done = compiled(task("one", outputs=makes("x")), task("two", "b", inputs=takes("x"), outputs=makes("x", "c")))
    assert done.dag.nodes[1].depends_on == ("one",)
    both = [task(f"t{at}", "b", inputs=takes("x", required=False), outputs=makes("x", "c")) for at in range(2)]
    assert [each.depends_on for each in compiled(*both).dag.nodes] == [(), ()]


def test_many_makers_and_many_takers_of_one_name_take_no_product_of_time() -> None:
    makers = [task(f"m{at}", outputs=makes("x", deliverable=True)) for at in range(4000)]
    takers = [task(f"t{at}", "b", inputs=takes("x")) for at in range(4000)]
    began = time.process_time()
    found = compiled(*makers, *takers)
    assert time.process_time() - began < 6
    assert {each.code for each in found.problems} == {Code.DAG_INPUT_UNREACHABLE}  # nobody waits for that many
    assert compiled(*makers[:64], *takers[:64]).dag.nodes[-1].depends_on == tuple(f"m{at}" for at in range(64))


def test_a_task_cannot_make_its_own_input() -> None:
    assert found(task("one", inputs=takes("x"), outputs=makes("x", "a"))) == [
        (Code.DAG_INPUT_UNREACHABLE, "tasks[0].inputs[0].from")
    ]


def test_globs_and_files_are_delivered_by_what_is_needed() -> None:
    done = compiled(
        task("one", outputs=[*makes("f_1.json"), *makes("note.md", deliverable=True)]),
        task("two", outputs=makes("f_2.json")),
        task("all", "b", needs=["one", "two", "all2"], inputs=[{"name": "f", "glob": "f_*.json"}]),
        task("all2", "c", needs=["one"], inputs=[{"name": "f", "file": "note.md"}]),
    )
    assert done.ok
    assert done.dag.nodes[0].outputs[0].deliver_to == ("b",)
    assert done.dag.nodes[0].outputs[1].deliver_to == ("c",)
    assert done.dag.nodes[1].outputs[0].deliver_to == ("b",)


def test_a_plan_with_too_many_globs_is_refused_rather_than_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "GLOB_BUDGET", 0)
    one, two = (
        task("one", outputs=makes("x", "c")),
        task("two", "b", needs=["one"], inputs=[{"name": "f", "glob": "*"}]),
    )
    assert compiled(one, two).dag.nodes[0].outputs[0].deliver_to == ("c",)


def test_problems_of_the_dag_bear_the_paths_of_the_plan_file() -> None:
    assert found(
        task("x", "nobody", needs=["y", "z"]),
        task("y", needs=["x"], outputs=makes("o", "ghost")),
        task("x", fallback="x", inputs=takes("oo")),
        task("v", on_dependency_failed="FALLBACK", inputs=[{"name": "f", "file": "none.txt"}], outputs=makes("lost")),
        task("w", outputs=[*makes("d", "a"), *makes("d", "a")]),
    ) == [
        (Code.DAG_TASK_DUPLICATE, "tasks[2].id"),
        (Code.DAG_OUTPUT_DUPLICATE, "tasks[4].outputs"),
        (Code.DAG_TASK_UNKNOWN, "tasks[0].needs[1]"),
        (Code.DAG_AGENT_UNKNOWN, "tasks[0].agent"),
        (Code.DAG_AGENT_UNKNOWN, "tasks[1].outputs[0].deliver_to[0]"),
        (Code.DAG_FALLBACK_INVALID, "tasks[2].fallback"),
        (Code.DAG_FALLBACK_INVALID, "tasks[3].fallback"),
        (Code.DAG_CYCLE, "tasks[0].needs"),
        (Code.DAG_INPUT_UNREACHABLE, "tasks[3].inputs[0].file"),
        (Code.DAG_OUTPUT_UNRECEIVED, "tasks[3].outputs[0]"),
    ]


def test_a_misspelt_output_or_agent_is_told_with_the_nearest() -> None:
    (problem,) = compiled(task("one", outputs=makes("notes.md", "a")), task("two", inputs=takes("note.md"))).problems
    assert (problem.field, problem.hint) == ("tasks[1].inputs[0].from", "did you mean 'notes.md'?")
    agents = {"backend": {"driver": "folder"}}
    assert compiled(task("one", "backned")).problems[0].hint.startswith("describe it under agents")
    plan = {"plan_id": "p", "agents": agents, "tasks": [task("one", "backned")]}
    (problem,) = compile_plan(reader.read_plan_file(json.dumps(plan).encode(), yaml=False)).problems
    assert (problem.field, problem.hint) == ("tasks[0].agent", "did you mean 'backend'?")


def test_an_unknown_agent_that_would_receive_something_is_told_once() -> None:
    assert found(task("one", outputs=makes("x")), task("two", "ghost", inputs=takes("x"))) == [
        (Code.DAG_AGENT_UNKNOWN, "tasks[1].agent")
    ]


def test_too_many_globs_are_told_of_the_tasks_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agenttalk.rules.plans.dag_supply.GLOB_BUDGET", -1)
    one = task("one", outputs=makes("x", "c"))
    assert (Code.DAG_TOO_COMPLEX, "tasks") in found(one, task("two", "c", inputs=[{"name": "f", "glob": "*.y"}]))


def test_agents_that_are_settled_elsewhere_win() -> None:
    settled = {
        "a": AgentProfile(agent_id=AgentId("a"), driver="script"),
        "z": AgentProfile(agent_id=AgentId("z")),
        "unused": AgentProfile(agent_id=AgentId("unused")),
    }
    done = compiled(task("one"), task("two", "z", outputs=makes("x", "z")), agents=settled)
    assert [(each.code, each.field) for each in done.problems] == [(Code.FIELD_MISSING, "agents.a.argv")]
    assert sorted(done.profiles) == ["a", "b", "c", "z"]
    assert done.profiles["a"].driver == "script"
    assert [each.agent_id for each in done.manifest.agents] == ["a", "b", "c", "z"]


def test_the_fallback_of_an_agent_is_another_agent_of_the_plan() -> None:
    agents = {
        "a": {"driver": "cli", "cli": "claude", "fallback": "b"},
        "b": {"driver": "cli", "cli": "codex", "fallback": "b"},
        "c": {"driver": "cli", "cli": "qwen", "fallback": "bb"},
    }
    plan = {"plan_id": "p", "agents": agents, "tasks": [task("one", "a")]}
    done = compile_plan(reader.read_plan_file(json.dumps(plan).encode(), yaml=False))
    assert [(each.code, each.field) for each in done.problems] == [
        (Code.FIELD_VALUE, "agents.b.fallback"),
        (Code.DAG_AGENT_UNKNOWN, "agents.c.fallback"),
    ]
    assert done.profiles["a"].fallback == "b"


def test_what_is_wrong_with_the_plan_itself_is_told() -> None:
    plan = {
        "plan_id": "_board",
        "agents": {
            "engine": {"driver": "folder"},
            "s": {"driver": "script"},
            "q": {"driver": "scrip"},
            "r": {"driver": "zz"},
        },
        "workspace": {"repo": "."},
        "policies": {"commanders": ["nobody", "s"]},
        "tasks": [task("one", "s")],
    }
    done = compile_plan(reader.read_plan_file(json.dumps(plan).encode(), yaml=False))
    assert [(each.code, each.field) for each in done.problems] == [
        (Code.ID_INVALID, "plan_id"),
        (Code.NAME_TAKEN, "agents.engine"),
        (Code.FIELD_MISSING, "agents.s.argv"),
        (Code.DAG_AGENT_UNKNOWN, "policies.commanders[0]"),
    ]
    assert [(each.field, each.hint) for each in done.warnings][:2] == [
        ("agents.q.driver", "did you mean 'script'?"),
        ("agents.r.driver", "there are: " + ", ".join(plan_checks.DRIVERS)),
    ]
    assert done.warnings[2].field == "workspace"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"inputs": [{"name": "n"}]}, (Code.FIELD_VALUE, "tasks[0].inputs[0]")),
        ({"inputs": [{"name": "n", "from": "o", "glob": "*"}]}, (Code.FIELD_VALUE, "tasks[0].inputs[0]")),
        ({"inputs": takes("o", subtype="x")}, (Code.FIELD_VALUE, "tasks[0].inputs[0].subtype")),
        ({"inputs": [*takes("o"), *takes("o")]}, (Code.NAME_TAKEN, "tasks[0].inputs[1].name")),
        ({"inputs": takes("o"), "validate": {"m": {}}}, (Code.NAME_UNKNOWN, "tasks[0].validate.m")),
        ({"workspace": "repo"}, (Code.FIELD_MISSING, "tasks[0].workspace")),
        ({"outputs": makes("q", "a", when="score < 3")}, (Code.SCORE_NOT_REQUIRED, "tasks[0].outputs[0].when")),
        (
            {"gates": {"branches": [{"when": "score < 3", "activate": ["last"]}]}},
            (Code.SCORE_NOT_REQUIRED, "tasks[0].gates.branches[0].when"),
        ),
        (
            {"gates": {"thresholds": {"last_min_score": 3}}},
            (Code.SCORE_NOT_REQUIRED, "tasks[0].gates.thresholds.last_min_score"),
        ),
        (
            {"gates": {"thresholds": {"lost_min_score": 3}}},
            (Code.DAG_TASK_UNKNOWN, "tasks[0].gates.thresholds.lost_min_score"),
        ),
        (
            {"score_required": True, "gates": {"branches": [{"when": "score < 3", "activate": ["lost"]}]}},
            (Code.DAG_TASK_UNKNOWN, "tasks[0].gates.branches[0].activate[0]"),
        ),
    ],
)
def test_what_is_wrong_with_a_task_is_told(said: dict[str, Any], problem: tuple[Code, str]) -> None:
    inner = found(task("first", **said), task("last", "b", outputs=makes("o", "a")))
    assert problem in inner
    assert all(each == problem or each[0] is Code.DAG_INPUT_UNREACHABLE for each in inner)


def test_what_is_doubtful_in_a_task_is_told() -> None:
    assert doubts(
        task("one", score_criteria="x", gates={"thresholds": {"one_min_score": 3, "quality": 4}}),
        task("two", score_criteria="x", score_required=False),
        task("three", outputs=makes("x", "a")),
        task("four", outputs=makes("x", "a")),
        task("five", needs=["three"], fallback="four", on_dependency_failed="SKIP"),
        task("six", score_required=True, outputs=makes("w", "a", when="score > 3")),
    ) == [
        (Code.PLAN_DERIVED, "tasks[0].score_criteria"),
        (Code.PLAN_DOUBTFUL, "tasks[0].gates.thresholds.quality"),
        (Code.PLAN_DOUBTFUL, "tasks[1].score_criteria"),
        (Code.PLAN_DOUBTFUL, "tasks[4].fallback"),
    ]
    assert compiled(task("one", score_criteria="x")).dag.nodes[0].score_required is True


def test_messages_and_what_people_bring_can_be_inputs() -> None:
    done = compiled(
        task("one", outputs=makes("x", "a")),
        task(
            "two",
            needs=["one"],
            inputs=[
                {"name": "any", "type": "artifact", "subtype": "note"},
                {"name": "key.txt", "external": True},
                {"name": "sum", "from": "x", "pick": "by_sha256", "allowed_hashes": ["sha256:" + "a" * 64]},
            ],
            validate={"sum": {"format": "json"}},
        ),
    )
    assert done.ok
    any_, key, by_sum = done.dag.nodes[1].inputs
    assert any_.selector.model_dump(exclude_none=True) == {
        "type": "by_message_type",
        "type_value": "artifact",
        "subtype_value": "note",
    }
    assert (key.selector.type, key.external) == ("by_file_name", True)
    assert by_sum.selector.allowed_hashes
    assert done.dag.nodes[1].validation_criteria is None
    assert TaskDag.from_bytes(done.dag.to_bytes()) == done.dag


def test_a_promise_that_proves_something_is_taken() -> None:
    assert compiled(promised()).problems == ()
    assert compiled(promised()).warnings == ()


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"objective": " "}, (Code.PROMISE_INVALID, "objective")),
        (
            {"acceptance": [{"id": "x", "description": "y"}]},
            (Code.CRITERION_UNPROVEN, "acceptance[0].evidenceRequired"),
        ),
        (
            {"checks": [{"id": "t", "kind": "report"}]},
            (Code.CRITERION_UNPROVEN, "acceptance[0].evidenceRequired"),
        ),
        (
            {"checks": [{"id": "t", "kind": "artifact", "output": "own.md", "accepted_by": "b"}]},
            (Code.CHECK_CIRCULAR, "checks[0].accepted_by"),
        ),
        (
            {"checks": [{"id": "t", "kind": "artifact", "output": "onw.md"}]},
            (Code.NAME_UNKNOWN, "checks[0].output"),
        ),
        (
            {"checks": [{"id": "t", "kind": "artifact", "output": "other.md", "accepted_by": "ghost"}]},
            (Code.DAG_AGENT_UNKNOWN, "checks[0].accepted_by"),
        ),
        (
            {"checks": [{"id": "t", "kind": "run", "run": "x"}, {"id": "t", "kind": "human", "question": "ok?"}]},
            (Code.NAME_TAKEN, "checks[1].id"),
        ),
        (
            {
                "allowedScope": ["tests/unit/**"],
                "checks": [{"id": "t", "kind": "run", "run": "x", "protected": ["tests/**"]}],
            },
            (Code.SCOPE_PROTECTED_OVERLAP, "allowedScope[0]"),
        ),
        (
            {
                "allowedScope": ["src/**", "a/conftest.py"],
                "checks": [{"id": "t", "kind": "tests", "run": "x", "junit": "r.xml"}],
            },
            (Code.SCOPE_PROTECTED_OVERLAP, "allowedScope[1]"),
        ),
        ({"doneWhen": [{"type": "acceptance-met", "target": "wroks"}]}, (Code.PROMISE_INVALID, "doneWhen[0].target")),
        ({"doneWhen": [{"type": "gate-passed"}]}, (Code.PROMISE_INVALID, "doneWhen[0].target")),
        ({"doneWhen": [{"type": "evidence-present"}]}, (Code.PROMISE_INVALID, "doneWhen[0].target")),
        ({"abortWhen": [{"type": "budget-exhausted", "target": "tme"}]}, (Code.PROMISE_INVALID, "abortWhen[0].target")),
    ],
)
def test_a_promise_that_proves_nothing_is_refused(said: dict[str, Any], problem: tuple[Code, str]) -> None:
    last = task("last", outputs=makes("other.md", "a"))
    assert found(promised(makes("own.md", "b"), **said), last) == [(problem[0], f"tasks[0].promise.{problem[1]}")]


@pytest.mark.parametrize(
    "said",
    [
        {"acceptance": [{"id": "x", "description": "y"}], "checks": [{"id": "h", "kind": "human", "question": "ok?"}]},
        {"checks": [{"id": "t", "kind": "report", "minTrust": "claimed"}]},
        {
            "checks": [{"id": "t", "kind": "report"}],
            "acceptance": [{"id": "x", "description": "y", "evidenceRequired": ["t"], "minTrust": "claimed"}],
        },
        {"checks": [{"id": "t", "kind": "artifact", "output": "other.md", "accepted_by": "b"}]},
        {"doneWhen": [{"type": "gate-passed", "target": "pre-ship"}, {"type": "evidence-present", "target": "t"}]},
        {
            "allowedScope": ["conftest.py"],
            "checks": [{"id": "t", "kind": "tests", "run": "x", "junit": "r", "protect_config": False}],
        },
    ],
)
def test_a_promise_with_somebody_behind_it_is_taken(said: dict[str, Any]) -> None:
    assert found(promised(makes("own.md", "b"), **said), task("last", outputs=makes("other.md", "a"))) == []


def test_what_is_doubtful_in_a_promise_is_told() -> None:
    assert doubts(
        promised(
            disallowedScope=["x"],
            allowedScope=["x"],
            requiredEvidence=["tt", "elsewhere"],
            checks=[{"id": "t", "kind": "lighthouse"}],
        )
    ) == [
        (Code.PROMISE_INVALID, "tasks[0].promise.disallowedScope"),
        (Code.PLAN_DOUBTFUL, "tasks[0].promise.requiredEvidence[0]"),
        (Code.PLAN_DOUBTFUL, "tasks[0].promise.requiredEvidence[1]"),
        (Code.PLAN_DOUBTFUL, "tasks[0].promise.checks[0].kind"),
    ]


def test_a_task_without_a_promise_has_nothing_to_check() -> None:
    plan = reader.read_plan_file(json.dumps({"plan_id": "p", "tasks": [task("t")]}).encode(), yaml=False)
    assert list(promise_checks.check(plan.tasks[0], names=(), agents=(), unknown=lambda *_: ("", ""))) == []


@pytest.mark.parametrize(
    ("glob", "outer", "lies_inside"),
    [
        ("tests/**", "tests/**", True),
        ("tests/unit/*.py", "tests/**", True),
        ("tests/**", "tests", True),
        ("/tests", "tests/**", True),
        ("a/**/b", "a/**/b", True),
        ("a/b/c", "a/**/c", True),
        ("test_*.py", "*.py", True),
        ("deep/down/x.py", "*.py", True),
        ("x/conftest.py", "**/conftest.py", True),
        ("src/**", "**", True),
        ("**", "tests/**", False),
        ("tests", "tests/**", False),
        ("src/**", "tests/**", False),
        ("a*", "a?", False),
        ("a/**", "a/*", False),
        ("!tests/x", "tests/**", False),
        ("tests/x", "!tests/**", False),
        ("", "**", False),
        ("x", "", False),
        ("a/" * 70, "**", False),
        ("tests/unit/", "tests/", True),
        ("/tests/unit/", "/tests/", True),
    ],
)
def test_whether_a_glob_lies_inside_another(glob: str, outer: str, *, lies_inside: bool) -> None:
    assert promise_checks.is_inside(glob, outer) is lies_inside


def test_names_in_messages_are_few() -> None:
    assert message.join_names({"a", "b", "c", "d"}) == "'a', 'b', 'c' and 1 more"
    lost = [
        task(f"t{at}", promise=promise(checks=[{"id": "t", "kind": "artifact", "output": "oo"}])) for at in range(60)
    ]
    hints = [each.hint for each in compiled(task("one", outputs=makes("ooo", "a")), *lost).problems]
    assert hints[0] == "did you mean 'ooo'?"
    assert hints[-1] == "add the output or name another"


def test_waves_are_what_may_run_beside_each_other() -> None:
    done = compiled(
        task("root", score_required=True, gates={"branches": [{"when": "score < 3", "activate": ["late", "lost"]}]}),
        task("left", needs=["root"]),
        task("right", needs=["root", "gone"]),
        task("join", needs=["left", "right"]),
        task("late"),
        task("loop", needs=["loop"]),
    )
    assert rules.compute_waves(done.dag) == [["root"], ["left", "right", "late"], ["join"]]


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Plans in which every task takes some outputs of earlier ones; who receives what is often left out."""
    size = draw(st.integers(1, 8))
    tasks: list[dict[str, Any]] = []
    for at in range(size):
        before = draw(st.lists(st.integers(0, at - 1), unique=True, max_size=3)) if at else []
        said = task(f"t{at}", draw(st.sampled_from("abc")), outputs=[{"name": f"o{at}.md", "deliverable": True}])
        if before:
            said["inputs"] = [{"name": f"n{each}", "from": f"o{each}.md"} for each in before]
            if draw(st.booleans()):
                said["needs"] = [f"t{each}" for each in before]
        if draw(st.booleans()):
            said |= {"timeout": draw(st.integers(1, 99)), "priority": draw(st.sampled_from(["HIGH", "LOW"]))}
        if draw(st.booleans()):
            said |= {"score_required": True, "gates": {"thresholds": {f"t{at}_min_score": 50}}}
        if draw(st.booleans()):
            said["promise"] = promise()
        tasks.append(said)
    return {"plan_id": "p", "agents": AGENTS, "tasks": tasks}


@given(plans())
def test_random_plans_become_dags_that_work(plan: dict[str, Any]) -> None:
    done = compile_plan(reader.read_plan_file(json.dumps(plan).encode(), yaml=False))
    assert done.problems == ()
    again = TaskDag.from_bytes(done.dag.to_bytes())
    assert again == done.dag
    assert dag_checks.check(again, agents=done.profiles).ok
    assert sum(map(len, rules.compute_waves(again))) == len(plan["tasks"])


@given(plans(), st.data())
def test_a_random_broken_key_is_reported_with_its_path(plan: dict[str, Any], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(plan["tasks"]) - 1))
    broken = plan["tasks"][at]
    key = data.draw(st.sampled_from(sorted(broken)))
    inner = data.draw(st.booleans()) and key in {"inputs", "outputs"}
    holder, path = (broken[key][0], f"tasks[{at}].{key}[0].") if inner else (broken, f"tasks[{at}].")
    old = data.draw(st.sampled_from(sorted(holder)))
    holder[old + "x"] = holder.pop(old)
    with pytest.raises(ContractError) as caught:
        reader.read_plan_file(json.dumps(plan).encode(), yaml=False)
    unknown = [each for each in caught.value.problems if each.code is Code.FIELD_UNKNOWN]
    assert [(each.field, each.hint) for each in unknown] == [(f"{path}{old}x", f"did you mean {old!r}?")]


def test_compiling_grows_with_the_plan_and_no_more() -> None:
    def seconds(count: int) -> float:
        tasks = [
            task(f"t{at}", inputs=takes(f"o{at - 1}") if at else [], outputs=makes(f"o{at}", deliverable=True))
            for at in range(count)
        ]
        data = json.dumps({"plan_id": "p", "agents": AGENTS, "tasks": tasks}).encode()
        began = time.process_time()
        assert compile_plan(reader.read_plan_file(data, yaml=False)).ok
        return time.process_time() - began

    small, large = min(seconds(1000) for _ in range(3)), seconds(10_000)
    assert large < 40 * small + 0.5


@pytest.mark.shows("C14")
def test_notices_of_a_task_go_into_its_node() -> None:
    said = task("last", on_complete="Done: {result}", on_failure="Pity: {error}")
    node = compiled(said).dag.nodes[0]
    assert node.on_complete is not None
    assert node.on_failure is not None
    assert (node.on_complete.message_template, node.on_failure.message_template) == ("Done: {result}", "Pity: {error}")


def test_a_task_that_asks_for_the_plans_checkpoint_is_doubtful() -> None:
    asked = [{"type": "gate-passed", "target": "pre-ship"}]
    where = "tasks[0].promise.doneWhen[0].target"
    assert (Code.PLAN_DOUBTFUL, where) in doubts(promised(doneWhen=asked))


def read(one: dict[str, Any], agents: dict[str, Any]) -> CompiledPlan:
    plan = {"plan_id": "p", "agents": agents, "tasks": [one, task("two", "b")]}
    return compile_plan(reader.read_plan_file(json.dumps(plan).encode(), yaml=False))


def test_an_agent_of_a_pool_has_a_driver_that_workers_can_run() -> None:
    agents = {"a": {"driver": "script", "argv": ["x"], "pool": "far", "needs": ["gpu"]}, "b": {}, "c": {}}
    done = read(task("one"), agents)
    assert (done.problems, done.profiles["a"].pool, done.profiles["a"].needs) == ((), "far", ("gpu",))
    agents = {"a": {"driver": "human", "pool": "far"}, "b": {"needs": ["gpu"]}, "c": {}}
    refused = read(task("one"), agents)
    assert (Code.FIELD_VALUE, "agents.a.pool") in [(each.code, each.field) for each in refused.problems]
    coded = read(task("one"), {"a": {"driver": "cli", "cli": "claude", "mcp": True, "pool": "far"}, "b": {}})
    assert (coded.problems, coded.profiles["a"].mcp) == ((), True)
    assert (Code.PLAN_DOUBTFUL, "agents.b.needs") in [(each.code, each.field) for each in refused.warnings]
