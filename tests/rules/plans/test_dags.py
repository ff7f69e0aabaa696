"""Whether a DAG can work: every problem at once, in linear time."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import Code, Problem
from agenttalk.rules.plans import dag_checks, dag_fast_check, dag_graph, dag_supply
from effort import cases


def node(task_id: str, *depends_on: str, agent: str = "a", **fields: Any) -> dict[str, Any]:
    return {"task_id": task_id, "assigned_agent_id": agent, "depends_on": list(depends_on), **fields}


def wants(value: str, how: str = "by_output_name", **fields: Any) -> list[dict[str, Any]]:
    return [{"name": "n", "selector": {"type": how, "value": value}, **fields}]


def makes(name: str, *to: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, "deliver_to": list(to), **fields}]


def dag(*nodes: dict[str, Any], rules: list[dict[str, Any]] | None = None) -> TaskDag:
    return TaskDag.from_json(
        {"schema_version": "1.1", "plan_id": "p", "nodes": list(nodes), "routing_rules": rules or []}
    )


def found(*nodes: dict[str, Any], **options: Any) -> list[tuple[Code, str]]:
    rules = options.pop("rules", None)
    return [(each.code, each.field) for each in dag_checks.check(dag(*nodes, rules=rules), **options).problems]


def only(*nodes: dict[str, Any], **options: Any) -> Problem:
    (problem,) = dag_checks.check(dag(*nodes), **options).problems
    return problem


def test_a_dag_that_works_has_no_problems() -> None:
    report = dag_checks.check(
        dag(
            node("a", outputs=makes("x.md", "b")),
            node("b", "a", agent="b", inputs=wants("x.md"), outputs=makes("y.md", deliverable=True)),
            node("c", "a", agent="b"),
        ),
        agents={"a", "b"},
    )
    assert report.ok
    assert report.problems == report.warnings == ()


def test_a_circle_is_printed_as_a_path() -> None:
    problem = only(node("a", "c"), node("b", "a"), node("c", "b"), node("d", "c"))
    assert problem.code is Code.DAG_CYCLE
    assert problem.message.endswith("a → b → c → a")
    assert problem.field == "nodes[0].depends_on"


def test_a_task_that_depends_on_itself_is_a_circle() -> None:
    assert only(node("a", "a")).message.endswith("a → a")


def test_each_circle_is_named_once_and_a_long_one_is_shortened() -> None:
    ring = [node(f"t{i}", f"t{(i - 1) % 30}") for i in range(30)]
    problems = dag_checks.check(dag(*ring, node("x", "y"), node("y", "x"), node("z", "x", "t0"))).problems
    assert [problem.code for problem in problems] == [Code.DAG_CYCLE] * 2
    assert "19 more" in problems[0].message
    assert problems[1].message.endswith("x → y → x")


def test_unknown_tasks_are_named_wherever_they_are_referred_to() -> None:
    gates = {
        "branches": [{"when": "score < 70", "activate": ["nope"]}],
        "thresholds": {"gone_min_score": 5, "other": 1},
    }
    policy = {"on_dependency_failed": "SKIP", "fallback_task_id": "never"}
    assert found(node("build", "biuld", gates=gates, failure_policy=policy)) == [
        (Code.DAG_TASK_UNKNOWN, "nodes[0].depends_on[0]"),
        (Code.DAG_TASK_UNKNOWN, "nodes[0].failure_policy.fallback_task_id"),
        (Code.DAG_TASK_UNKNOWN, "nodes[0].gates.branches[0].activate[0]"),
        (Code.DAG_TASK_UNKNOWN, "nodes[0].gates.thresholds.gone_min_score"),
    ]
    assert only(node("build"), node("x", "biuld")).hint == "did you mean 'build'?"


def test_unknown_agents_are_named_wherever_they_are_referred_to() -> None:
    problems = found(
        node(
            "a",
            agent="pm",
            outputs=makes("x", "*", "nobody", deliverable=True),
            failure_policy={"reexecute_target_agent_id": "ghost"},
        ),
        rules=[{"match": {}, "deliver_to": ["pn"]}],
        agents={"pm"},
    )
    assert problems == [
        (Code.DAG_AGENT_UNKNOWN, "nodes[0].outputs[0].deliver_to[1]"),
        (Code.DAG_AGENT_UNKNOWN, "nodes[0].failure_policy.reexecute_target_agent_id"),
        (Code.DAG_AGENT_UNKNOWN, "routing_rules[0].deliver_to[0]"),
    ]
    assert found(node("a", agent="unknown")) == []
    assert only(node("a", agent="backned"), agents={"backend"}).hint == "did you mean 'backend'?"


def test_duplicates_are_named() -> None:
    assert found(node("a"), node("a"), node("b", outputs=makes("x", "a") + makes("x", "a"))) == [
        (Code.DAG_TASK_DUPLICATE, "nodes[1].task_id"),
        (Code.DAG_OUTPUT_DUPLICATE, "nodes[2].outputs"),
    ]


@pytest.mark.parametrize(
    ("inputs", "hint"),
    [
        (wants("nothing.md"), "declare the output, or mark the input as external"),
        (wants("y.md"), "did you mean 'x.md'?"),
        (wants("x.md"), "add 'b' to that output's deliver_to"),
        (wants("z_*", "by_glob"), "declare the output, or mark the input as external"),
        (wants("z.md", "by_file_name"), "did you mean 'x.md'?"),
    ],
    ids=range(5),
)
def test_an_input_that_nothing_brings_is_named_with_a_way_out(inputs: list[dict[str, Any]], hint: str) -> None:
    problem = only(node("a", outputs=makes("x.md", "c")), node("b", "a", agent="b", inputs=inputs))
    assert (problem.code, problem.field, problem.hint) == (Code.DAG_INPUT_UNREACHABLE, "nodes[1].inputs[0]", hint)


@pytest.mark.parametrize(
    "inputs",
    [
        wants("report.md"),
        wants("report.md", "by_file_name"),
        wants("docs/report.md", "by_file_name"),
        wants("report.md/part", "by_file_name"),
        wants("*.md", "by_glob"),
        wants("r?port.*", "by_glob"),
        wants("[qr]eport.md", "by_glob"),
        wants("missing.md", required=False),
        wants("missing.md", external=True),
        [{"name": "n", "selector": {"type": "by_message_type", "type_value": "artifact"}}],
    ],
    ids=range(10),
)
@pytest.mark.parametrize("depends_on", [["a"], []])
@pytest.mark.parametrize("to", ["b", "*"])
def test_an_input_that_can_arrive_is_no_problem(inputs: list[dict[str, Any]], depends_on: list[str], to: str) -> None:
    assert found(node("a", outputs=makes("report.md", to)), node("b", *depends_on, agent="b", inputs=inputs)) == []


def test_an_input_made_only_by_what_waits_for_it_is_named() -> None:
    problem = only(node("a", "b", outputs=makes("x", "b")), node("b", agent="b", inputs=wants("x")))
    assert problem.code is Code.DAG_INPUT_UNREACHABLE
    assert "waits for this task" in problem.message
    own = only(node("a", agent="a", inputs=wants("x"), outputs=makes("x", "a")))
    assert own.code is Code.DAG_INPUT_UNREACHABLE


def test_an_input_with_one_maker_in_a_circle_and_one_free_is_no_problem() -> None:
    nodes = (
        node("a", "b", outputs=makes("x", "b")),
        node("c", outputs=makes("x", "b")),
        node("b", agent="b", inputs=wants("x")),
    )
    assert found(*nodes) == []


def test_a_message_input_is_named_by_its_type() -> None:
    selector = {"type": "by_message_type", "type_value": "artifact", "subtype_value": "schema"}
    problem = only(node("a", inputs=[{"name": "n", "selector": selector}]))
    assert "'artifact'" in problem.message


def test_inputs_behind_a_circle_are_told_only_when_nothing_makes_them() -> None:
    problems = found(
        node("a", "b"),
        node("b", "a", outputs=makes("x", "c")),
        node("c", "b", agent="c", inputs=wants("x") + wants("gone") + wants("optional", required=False)),
    )
    assert problems == [(Code.DAG_CYCLE, "nodes[0].depends_on"), (Code.DAG_INPUT_UNREACHABLE, "nodes[2].inputs[1]")]


def test_outputs_that_nobody_receives_are_named() -> None:
    assert found(node("a", outputs=makes("x"))) == [(Code.DAG_OUTPUT_UNRECEIVED, "nodes[0].outputs[0]")]
    assert found(node("a", outputs=makes("x", deliverable=True))) == []


def test_routing_rules_take_what_names_no_receiver_and_the_first_match_wins() -> None:
    rules = [
        {"match": {"output_name": "other"}, "deliver_to": ["z"]},
        {"match": {"content_type": "text/plain"}, "deliver_to": ["z"]},
        {"match": {"tag": "v1"}, "deliver_to": ["z"]},
        {"match": {"output_name": "x"}, "deliver_to": ["b"]},
        {"match": {}, "deliver_to": ["z"]},
    ]
    plan = dag(node("a", outputs=makes("x")), rules=rules)
    assert dag_graph.find_receivers(plan.nodes[0].outputs[0], plan) == ("b",)
    assert found(node("a", outputs=makes("x")), node("b", agent="b", inputs=wants("x")), rules=rules) == []


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"fallback_task_id": "spare"}, False),
        ({"fallback_task_id": "other"}, True),
        ({"fallback_task_id": "c"}, True),
        ({"fallback_task_id": "a"}, True),
        ({}, True),
    ],
    ids=range(5),
)
def test_a_fallback_is_another_task_with_the_same_outputs(policy: dict[str, Any], problem: bool) -> None:
    codes = [
        code
        for code, _ in found(
            node("a", outputs=makes("x", "c")),
            node("spare", outputs=makes("x", "c")),
            node("other", outputs=makes("y1", "c") + makes("y2", "c") + makes("y3", "c") + makes("y4", "c")),
            node("c", "a", agent="c", failure_policy={"on_dependency_failed": "FALLBACK", **policy}),
        )
    ]
    assert codes == ([Code.DAG_FALLBACK_INVALID] if problem else [])


def test_a_fallback_without_outputs_cannot_replace_one_with() -> None:
    problem = only(
        node("a", outputs=makes("x", "c")),
        node("empty"),
        node("c", "a", agent="c", failure_policy={"on_dependency_failed": "FALLBACK", "fallback_task_id": "empty"}),
    )
    assert "makes nothing, but what it would replace makes 'x'" in problem.message


def test_a_fallback_that_does_not_exist_is_told_once() -> None:
    policy = {"on_dependency_failed": "FALLBACK", "fallback_task_id": "gone"}
    assert found(node("a"), node("c", "a", failure_policy=policy)) == [
        (Code.DAG_TASK_UNKNOWN, "nodes[1].failure_policy.fallback_task_id")
    ]


def test_a_fallback_waits_for_neither_side_and_replaces_one_of_several() -> None:
    policy = {"on_dependency_failed": "FALLBACK", "fallback_task_id": "spare"}
    last = node("c", "a", "b", agent="c", failure_policy=policy)
    both = (node("a", outputs=makes("x", "c")), node("b", outputs=makes("y", "c")))
    assert found(*both, node("spare", outputs=makes("x", "c")), last) == []
    for late in ("a", "c"):
        codes = [code for code, _ in found(*both, node("spare", late, outputs=makes("x", "c")), last)]
        assert codes == [Code.DAG_FALLBACK_INVALID]
    own = node("d", failure_policy={"on_dependency_failed": "SKIP", "fallback_task_id": "d"})
    assert found(own) == [(Code.DAG_FALLBACK_INVALID, "nodes[0].failure_policy.fallback_task_id")]


def test_a_branch_cannot_activate_what_it_waits_for() -> None:
    gates = {"branches": [{"when": "score < 70", "activate": ["a"]}]}
    assert found(node("a"), node("b", "a", gates=gates)) == [(Code.DAG_BRANCH_INVALID, "nodes[0].task_id")]
    later = {"branches": [{"when": "score < 70", "activate": ["c"]}]}
    assert found(node("b", gates=later), node("c", "b")) == []


def test_the_older_way_to_name_inputs_is_checked_too() -> None:
    assert found(node("a", required_inputs=["never.md"])) == [
        (Code.DAG_INPUT_UNREACHABLE, "nodes[0].required_inputs[0]")
    ]


@pytest.mark.parametrize(
    "inputs",
    [wants("docs/*.md", "by_glob"), wants("docs/a/b.md", "by_file_name"), wants("any.md", "by_file_name")],
    ids=range(3),
)
def test_a_file_may_lie_in_an_output_that_is_a_folder(inputs: list[dict[str, Any]]) -> None:
    assert found(node("a", outputs=makes("docs", "b")), node("b", "a", agent="b", inputs=inputs)) == []


def test_an_input_that_can_never_be_picked_is_named() -> None:
    picked = wants("x", pick_policy="by_sha256")
    assert found(node("a", outputs=makes("x", "b")), node("b", "a", agent="b", inputs=picked)) == [
        (Code.DAG_INPUT_UNREACHABLE, "nodes[1].inputs[0]")
    ]
    many = wants("*.md", "by_glob", min_count=5)
    assert found(node("a", outputs=makes("x.md", "b")), node("b", "a", agent="b", inputs=many)) == [
        (Code.DAG_INPUT_UNREACHABLE, "nodes[1].inputs[0]")
    ]
    one = node("a", outputs=[output for number in range(5) for output in makes(f"{number}.md", "b")])
    assert found(one, node("b", "a", agent="b", inputs=many)) == []
    assert (
        found(
            node("a", outputs=makes("folder", "b")),
            node("b", "a", agent="b", inputs=wants("*", "by_glob", min_count=5)),
        )
        == []
    )


def test_the_first_of_two_tasks_with_one_id_counts_and_each_keeps_its_place() -> None:
    assert found(node("a", "b"), node("b", "a"), node("a", "zz")) == [
        (Code.DAG_TASK_DUPLICATE, "nodes[2].task_id"),
        (Code.DAG_TASK_UNKNOWN, "nodes[2].depends_on[0]"),
        (Code.DAG_CYCLE, "nodes[0].depends_on"),
    ]


def test_a_task_that_needs_its_own_output_is_told_so() -> None:
    problem = only(node("a", inputs=wants("x"), outputs=makes("x", "a")))
    assert "only it makes itself" in problem.message


def test_a_rule_matches_only_when_all_that_it_names_does() -> None:
    rules = [{"match": {"output_name": "x", "tag": "v1"}, "deliver_to": ["b"]}]
    plan = dag(node("a", outputs=makes("x", versioning={"tag": "v1"})), node("c", outputs=makes("x")), rules=rules)
    assert dag_graph.find_receivers(plan.nodes[0].outputs[0], plan) == ("b",)
    assert dag_graph.find_receivers(plan.nodes[1].outputs[0], plan) == ()


def test_many_misspelt_names_cost_one_look_each() -> None:
    looked = 0

    def counting(*_: Any, **__: Any) -> str | None:
        nonlocal looked
        looked += 1
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dag_graph, "find_nearest", counting)
        found(*(node(f"t{i}", "gone", agent=f"a{i % 90}") for i in range(300)), agents={"real"})
    assert looked <= 50


def test_in_a_foreign_dag_flow_problems_are_warnings() -> None:
    report = dag_checks.check(dag(node("a", "a", inputs=wants("x"), outputs=makes("y"))), foreign=True)
    assert [each.code for each in report.problems] == [Code.DAG_CYCLE]
    assert {each.code for each in report.warnings} == {Code.DAG_INPUT_UNREACHABLE, Code.DAG_OUTPUT_UNRECEIVED}


def test_all_problems_come_at_once() -> None:
    problems = found(
        node("a", "b", "gone", agent="nobody", outputs=makes("x")),
        node("b", "a", agent="pm", inputs=wants("y")),
        node("b", agent="pm"),
        agents={"pm"},
    )
    assert {code for code, _ in problems} == {
        Code.DAG_TASK_DUPLICATE,
        Code.DAG_TASK_UNKNOWN,
        Code.DAG_AGENT_UNKNOWN,
        Code.DAG_CYCLE,
        Code.DAG_INPUT_UNREACHABLE,
        Code.DAG_OUTPUT_UNRECEIVED,
    }


def test_one_glob_that_everybody_uses_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dag_supply, "GLOB_BUDGET", 1000)
    makers = [node(f"m{i}", outputs=makes(f"feedback_{i}.json", "*")) for i in range(400)]
    takers = [node(f"t{i}", agent=f"g{i}", inputs=wants("feedback_*.json", "by_glob")) for i in range(50)]
    assert found(*makers, *takers) == []


def test_hostile_globs_are_refused_instead_of_matched_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dag_supply, "GLOB_BUDGET", 1000)
    makers = [node(f"m{i}", outputs=makes(f"o{i}", "*")) for i in range(50)]
    takers = [node(f"t{i}", inputs=wants(f"*o*{i}*", "by_glob")) for i in range(50)]
    assert (Code.DAG_TOO_COMPLEX, "nodes") in found(*makers, *takers)


def test_names_are_not_compared_one_by_one_in_huge_plans() -> None:
    many = [node(f"t{i}", outputs=makes(f"o{i}", "a")) for i in range(1001)]
    agents = {f"a{i}" for i in range(1001)} | {"a"}
    problems = dag_checks.check(dag(*many, node("x", "t", agent="q", inputs=wants("o"))), agents=agents).problems
    assert {problem.code for problem in problems} == {
        Code.DAG_TASK_UNKNOWN,
        Code.DAG_AGENT_UNKNOWN,
        Code.DAG_INPUT_UNREACHABLE,
    }
    assert all("did you mean" not in problem.hint for problem in problems)


edges = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20)


@given(edges)
def test_a_circle_is_found_exactly_when_there_is_one(pairs: list[tuple[int, int]]) -> None:
    before: dict[int, set[int]] = {i: set() for i in range(8)}
    for task, earlier in pairs:
        before[task].add(earlier)
    nodes = [node(f"t{i}", *(f"t{j}" for j in sorted(before[i]))) for i in range(8)]
    problems = [each for each in dag_checks.check(dag(*nodes)).problems if each.code is Code.DAG_CYCLE]
    left = set(before)
    while free := {task for task in left if not before[task] & left}:
        left -= free
    assert bool(problems) is bool(left)
    for problem in problems:
        path = problem.message.rpartition(": ")[2].split(" → ")
        assert path[0] == path[-1]
        assert all(int(a[1:]) in before[int(b[1:])] for a, b in pairwise(path))


@given(edges, st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12))
def test_inputs_are_unreachable_exactly_when_no_order_brings_them(
    pairs: list[tuple[int, int]], needs: list[tuple[int, int]]
) -> None:
    """Against a plain simulation: run whatever can run until nothing more can."""
    before = {i: {earlier for task, earlier in pairs if task == i and earlier < i} for i in range(8)}
    nodes = [
        node(
            f"t{i}",
            *(f"t{j}" for j in sorted(before[i])),
            outputs=makes(f"o{i % 4}", "*"),
            inputs=[need for task, wanted in needs if task == i for need in wants(f"o{wanted}")],
        )
        for i in range(8)
    ]
    wanted = {i: {f"o{w}" for task, w in needs if task == i} for i in range(8)}
    done: set[int] = set()
    while free := {
        i for i in range(8) if i not in done and before[i] <= done and wanted[i] <= {f"o{j % 4}" for j in done}
    }:
        done |= free
    problems = dag_checks.check(dag(*nodes)).problems
    assert bool(problems) is (len(done) < 8)


@st.composite
def mostly_plain(draw: st.DrawFn) -> TaskDag:
    """DAGs in which little or nothing is unusual."""
    rare = st.integers(0, 11).map(lambda number: number == 0)
    nodes = []
    for at in range(draw(st.integers(1, 6))):
        before = draw(st.lists(st.integers(0, 6 if draw(rare) else max(at - 1, 0)), max_size=2)) if at else []
        fields: dict[str, Any] = {"outputs": makes(f"o{at}", *draw(st.lists(st.sampled_from("aab*c"), max_size=2)))}
        if before and not draw(rare):
            fields["inputs"] = wants(f"o{before[0]}" if not draw(rare) else "o*", draw(st.sampled_from(HOW)))
            fields["inputs"][0] |= draw(st.sampled_from([{}, {}, {"required": False}, {"external": True}, PICKED]))
        if draw(rare):
            fields["outputs"] += makes(f"o{draw(st.sampled_from([at, 9]))}", "a")
        fields["outputs"][0]["deliverable"] = draw(st.booleans())
        fields |= draw(
            st.sampled_from([{}, {}, {}, {"required_inputs": ["o0"]}, {"failure_policy": {}}, {"gates": {}}])
        )
        task_id = f"t{at}" if not draw(rare) else "t0"
        nodes.append(node(task_id, *(f"t{each}" for each in before), agent=draw(st.sampled_from("aab")), **fields))
    rules = draw(st.sampled_from([[], [], [], [{"match": {}, "deliver_to": ["z"]}]]))
    return dag(*nodes, rules=rules)


HOW = ["by_output_name", "by_output_name", "by_file_name", "by_glob"]
PICKED: dict[str, Any] = {"pick_policy": "by_sha256", "min_count": 2}


@settings(max_examples=cases(400))
@given(mostly_plain(), st.sampled_from([None, {"a", "b"}, {"a"}, {"a", "b", "c"}]))
def test_a_dag_that_is_plainly_fine_has_no_problems(plan: TaskDag, agents: set[str] | None) -> None:
    plain = dag_fast_check.is_plain(plan, agents)
    event(f"plain: {plain}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dag_fast_check, "is_plain", lambda *_: False)
        report = dag_checks.check(plan, agents=agents)
    assert not plain or report.problems == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"depends_on": ["later"]},
        {"assigned_agent_id": "stranger"},
        {"inputs": wants("o", min_count=1)},
        {"inputs": wants("o", pick_policy="by_sha256")},
        {"inputs": wants("o", "by_glob")},
        {"inputs": wants("other")},
        {"assigned_agent_id": "b"},
        {"required_inputs": ["o"], "inputs": []},
        {"outputs": makes("x", "a") + makes("x", "a")},
        {"outputs": makes("x")},
        {"outputs": makes("x", "stranger")},
        {"failure_policy": {}},
        {"gates": {}},
        {"task_id": "first"},
    ],
    ids=range(14),
)
def test_anything_unusual_is_looked_at_closely(changed: dict[str, Any]) -> None:
    first = node("first", outputs=makes("o", "a"))
    second = node("second", "first", inputs=wants("o"), outputs=makes("x", deliverable=True))
    assert dag_fast_check.is_plain(dag(first, second), {"a", "b"})
    assert dag_fast_check.is_plain(dag(first, second), None)
    assert not dag_fast_check.is_plain(dag(first, {**second, **changed}), {"a", "b"})
    assert not dag_fast_check.is_plain(dag(first, second, rules=[{"match": {}, "deliver_to": ["a"]}]), {"a", "b"})


def test_the_cost_is_linear_in_the_size_of_the_plan() -> None:
    """Counted in calls, which no busy machine can disturb."""

    def calls(size: int) -> int:
        plan = dag(
            *(
                node(
                    f"t{i}",
                    *([f"t{i - 1}"] if i else []),
                    inputs=wants(f"o{i - 1}") + wants("o*", "by_glob") if i else [],
                    outputs=makes(f"o{i}", "*"),
                )
                for i in range(size)
            )
        )
        count = 0

        def tick(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(tick)
        try:
            assert dag_checks.check(plan, agents={"a"}).ok
        finally:
            sys.setprofile(None)
        return count

    assert calls(2000) < calls(500) * 4 * 1.1
