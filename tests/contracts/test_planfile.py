"""Reading plan files: every problem at once, with its path, and nothing hostile gets far."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.core.base import AgentId
from agenttalk.contracts.errors import Code, ContractError, Problem
from agenttalk.contracts.planfile import reader, yaml_text
from agenttalk.contracts.planfile.model import PLACEHOLDER_ID, PlanFile

TEAM = """
plan_id: bakery
name: Bread every morning
project: food
workspace: {repo: ../bakery, base: main, prepare: null, link: [node_modules]}
policies: {max_reexecute_times: 2, timeout_default_seconds: 900, release_gates_required: [build], commanders: []}
limits: {max_running: 3, cost_usd: 5}
agents:
  baker: {driver: script, argv: [python3, baker.py], prompt: You bake.}
  taster: {driver: folder}
tasks:
  - id: dough
    agent: baker
    prompt: Make the dough.
    outputs: [{name: dough.md, deliver_to: [baker]}]
  - id: bread
    agent: baker
    needs: [dough]
    inputs: [{name: dough, from: dough.md}]
    prompt: |
      Bake the bread.
      Keep it warm.
    workspace: repo
    outputs: [{name: bread.md, deliver_to: [taster], deliverable: true, versioning: {mode: keep_latest}}]
    promise:
      objective: The bread can be eaten
      acceptance: [{id: warm, description: It is warm, evidenceRequired: [thermometer]}]
      checks: [{id: thermometer, kind: run, run: "test -e warm", protected: ["tests/**"]}]
      budget: {seconds: 60}
      doneWhen: [{type: acceptance-met, target: warm}]
      abortWhen: [{type: scope-drift}]
  - id: taste
    agent: taster
    needs: [bread]
    inputs: [{name: bread, from: bread.md}]
    validate: {bread: {format: text, quality_threshold: 80}}
    prompt: Taste it.
    score_required: true
    score_criteria: 0-100, how it tastes
    gates: {required: true, thresholds: {taste_min_score: 70}, branches: [{when: "score < 70", activate: [again]}]}
    timeout: 60
    retry_times: 1
    priority: HIGH
    on_dependency_failed: SKIP
  - {id: again, agent: baker, needs: [taste], prompt: Say why.}
"""


def read(text: str) -> PlanFile:
    return reader.read_plan_file(text.encode(), yaml=True)


def problems(text: str | bytes, *, yaml: bool = True) -> list[Problem]:
    with pytest.raises(ContractError) as caught:
        reader.read_plan_file(text.encode() if isinstance(text, str) else text, yaml=yaml)
    assert all(len(problem.message) < 500 for problem in caught.value.problems)
    return list(caught.value.problems)


def only(text: str | bytes, *, yaml: bool = True) -> Problem:
    (problem,) = problems(text, yaml=yaml)
    return problem


def value(text: str) -> Any:
    return yaml_text.parse_yaml(text.encode()).value


def test_a_plan_file_is_read_with_everything_that_it_says() -> None:
    plan = read(TEAM)
    assert (plan.plan_id, plan.name, plan.project) == ("bakery", "Bread every morning", "food")
    assert plan.agents[AgentId("baker")].argv == ("python3", "baker.py")
    bread, taste = plan.tasks[1], plan.tasks[2]
    assert bread.inputs[0].source == "dough.md"
    assert bread.promise
    assert bread.promise.id == PLACEHOLDER_ID
    assert bread.prompt == "Bake the bread.\nKeep it warm.\n"
    assert taste.criteria
    assert taste.criteria["bread"].quality_threshold == 80
    assert plan.limits
    assert plan.limits.max_running == 3


def test_the_same_plan_in_json_is_the_same_plan() -> None:
    data = json.dumps(value(TEAM)).encode()
    assert reader.read_plan_file(data, yaml=False) == read(TEAM)


def test_every_problem_is_told_at_once_with_path_line_and_column() -> None:
    text = TEAM.replace("from: dough.md", "form: dough.md").replace("timeout: 60", "timeout: soon")
    text = text.replace("name: Bread", "nam: Bread").replace("seconds: 60", "secnds: 60")
    found = {problem.field: problem for problem in problems(text)}
    assert set(found) == {"nam", "tasks[1].inputs[0].form", "tasks[2].timeout", "tasks[1].promise.budget.secnds"}
    form = found["tasks[1].inputs[0].form"]
    assert (form.code, form.hint) == (Code.FIELD_UNKNOWN, "did you mean 'from'?")
    line = text.splitlines().index("    inputs: [{name: dough, form: dough.md}]") + 1
    assert form.message.endswith(f"(line {line}, column {text.splitlines()[line - 1].index('form') + 1})")


@pytest.mark.parametrize(
    ("changed", "field", "hint"),
    [
        ("policies: {timeouts: {dag_reviw: 3}}", "policies.timeouts.dag_reviw", "did you mean 'dag_review'?"),
        (
            "policies: {timeouts: {release_gate: {timeout_seconds: 3, x: 1}}}",
            "policies.timeouts.release_gate.x",
            "there",
        ),
        ("workspace: {repo: a, bas: main}", "workspace.bas", "did you mean 'base'?"),
        ("limits: {max_runing: 3}", "limits.max_runing", "did you mean 'max_running'?"),
        ("agents: {a: {drivr: script}}", "agents.a.drivr", "did you mean 'driver'?"),
        ("agents: {'a b': {}}", "agents.a b", "use letters"),
        ("name: 2026", "name", "it is 2026; put it in quotes"),
        ("zzzzzz: 1", "zzzzzz", "there are: plan_id"),
    ],
)
def test_unknown_keys_and_wrong_values_of_the_plan_are_named(changed: str, field: str, hint: str) -> None:
    problem = only(f"plan_id: p\n{changed}\ntasks: [{{id: a, agent: b, prompt: c}}]")
    assert problem.field == field
    assert problem.hint.startswith(hint)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ("validate: {x: {fromat: text}}", "validate.x.fromat"),
        ("gates: {branchs: []}", "gates.branchs"),
        ("gates: {branches: [{when: score < 3, activate: [a], oops: 1}]}", "gates.branches[0].oops"),
        ("outputs: [{name: x, versioning: {mod: keep_latest}}]", "outputs[0].versioning.mod"),
        ("promise: {id: cp-1-abcd, objective: o, acceptance: []}", "promise.id"),
        (
            "promise: {objective: o, acceptance: [{id: a, description: d, evidence: [x]}]}",
            "promise.acceptance[0].evidence",
        ),
        ("promise: {objective: o, acceptance: [], checks: [{id: a, kind: tsts}]}", "promise.checks[0].kind"),
        (
            "promise: {objective: o, acceptance: [], checks: [{id: a, kind: run, run: x, cmd: y}]}",
            "promise.checks[0].cmd",
        ),
        (
            "promise: {objective: o, acceptance: [], done_when: [{type: user-confirmed, x: 1}]}",
            "promise.done_when[0].x",
        ),
        ("promise: 3", "promise"),
        ("inputs: [{name: x, source: y}]", "inputs[0].source"),
        ("promise: {objective: o, acceptance: [], checks: [{id: a, kind: 3}]}", "promise.checks[0].kind"),
    ],
)
def test_unknown_keys_inside_a_task_are_named(said: str, field: str) -> None:
    problem = only(f"plan_id: p\ntasks: [{{id: a, agent: b, prompt: c, {said}}}]")
    assert problem.field == f"tasks[0].{field}"


def test_checks_of_extensions_have_keys_of_their_own() -> None:
    text = "checks: [{id: a, kind: lighthouse, budget: 90}, {id: b, kind: forge, pr_merged: true}]"
    plan = read(
        f"plan_id: p\ntasks: [{{id: a, agent: b, prompt: c, promise: {{objective: o, acceptance: [], {text}}}}}]"
    )
    assert plan.tasks[0].promise
    assert plan.tasks[0].promise.checks[0].model_extra == {"budget": 90}


@pytest.mark.parametrize("text", ["", "- a\n", "just words", "3", "~", "# nothing\n"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    assert only(text).code is Code.FIELD_TYPE


def test_a_plan_without_tasks_is_refused() -> None:
    assert only("plan_id: p\ntasks: []").field == "tasks"
    assert {problem.field for problem in problems("plan_id: p\ntasks: [3, {promise: [1]}]")} >= {"tasks[0]"}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("True", "True"),
        ("1:30", "1:30"),
        ("2026-01-31", "2026-01-31"),
        ("007", "007"),
        ("0x10", "0x10"),
        ("0o7", "0o7"),
        ("1_000", "1_000"),
        (".5", ".5"),
        (".inf", ".inf"),
        ("+1", "+1"),
        ("=", "="),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("12", 12),
        ("-1.5", -1.5),
        ("1e3", 1000.0),
        ("'12'", "12"),
        ('"true"', "true"),
        ('"a\\nb"', "a\nb"),
    ],
)
def test_a_bare_word_means_what_json_means_by_it_and_else_is_text(text: str, meant: object) -> None:
    assert value(f"x: {text}") == {"x": meant}
    assert type(value(f"x: {text}")["x"]) is type(meant)
    assert value(f"[{text}]") == [meant]


def test_keys_are_always_text() -> None:
    assert value("on: 1\n12: 2\nnull: 3\ntrue: 4") == {"on": 1, "12": 2, "null": 3, "true": 4}


def test_a_byte_order_mark_is_passed_over() -> None:
    assert yaml_text.parse_yaml(b"\xef\xbb\xbfa: 1").value == {"a": 1}


def test_a_key_that_stands_twice_is_told_with_both_lines() -> None:
    found = problems("plan_id: p\ntasks:\n  - id: a\n    agent: b\n    prompt: c\n    agent: d\n    id: [e]\n")
    assert [(each.code, each.field) for each in found] == [
        (Code.JSON_DUPLICATE_KEY, "tasks[0].agent"),
        (Code.JSON_DUPLICATE_KEY, "tasks[0].id"),
    ]
    assert "first at line 4, column 5 (line 6, column 5)" in found[0].message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: !!python/object/apply:os.system [x]", 1),
        ("a: !!python/name:os.system x", 1),
        ("a: !mine x", 1),
        ("a: !!str 3", 1),
        ("a: 1\n<<: {b: 2}", 2),
        ("a: 1\n? [b]\n: 2", 2),
        ("a: &x b\n*x : 2", 2),
        ("a: *nothing", 1),
        ("a: &x [*x]", 1),
        ("a: &x {b: {c: *x}}", 1),
        ("a: 1\n---\nb: 2", 2),
    ],
)
def test_what_plan_files_do_not_use_is_refused_with_its_line(text: str, line: int) -> None:
    found = problems(text)[0]
    assert found.code is Code.YAML_FEATURE
    assert f"(line {line}, " in found.message


def test_an_anchor_may_be_used_again_as_a_whole_value() -> None:
    assert value("a: &x [1, {b: 2}]\nb: *x\nc: &y word\nd: *y\n&z e: *x") == {
        "a": [1, {"b": 2}],
        "b": [1, {"b": 2}],
        "c": "word",
        "d": "word",
        "e": [1, {"b": 2}],
    }


def test_aliases_that_grow_without_end_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    began = time.process_time()
    assert "aliases stand for more than" in problems("\n".join(lines))[0].message
    assert time.process_time() - began < 2


def test_depth_is_bounded_also_through_aliases() -> None:
    assert value("[" * 64 + "]" * 64)
    assert only("[" * 65 + "]" * 65).code is Code.JSON_TOO_DEEP
    assert only("[" * 1_000_000).code is Code.JSON_TOO_DEEP
    assert only("{a: " * 100_000).code is Code.JSON_TOO_DEEP
    chain = "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 70))])
    assert problems(chain)[-1].code is Code.JSON_TOO_DEEP


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: [1", "line 2, column 1"),
        ("a:\n\t- b", "line 2, column 1"),
        ("a: b: c", "line 1, column 5"),
        ('a: "open', "line 1, column 9"),
        ('a: "\\ud800"', "line 1, column 7"),
        ("a: b\nc: d\x00", "line 2, column 5"),
        ("é\x07", "line 1, column 2"),
        ("a: @x", "line 1, column 4"),
    ],
)
def test_what_is_no_yaml_is_told_with_line_and_column(text: str, place: str) -> None:
    problem = only(text)
    assert (problem.code, place in problem.message) == (Code.YAML_SYNTAX, True), problem


def test_bytes_that_are_no_text_are_refused() -> None:
    assert "not UTF-8 at byte 5 (line 2)" in only(b"a: 1\n\xff\xfe").message
    assert only(b"\xff\xfea\x00:\x00").code is Code.YAML_SYNTAX
    assert only(b"[1", yaml=False).code is Code.JSON_SYNTAX


def test_a_file_of_ten_megabytes_is_refused_unread() -> None:
    began = time.process_time()
    assert only(b"- a\n" * 2_600_000).code is Code.JSON_TOO_LARGE
    assert time.process_time() - began < 1


def test_a_number_without_end_is_refused_and_reading_goes_on() -> None:
    found = problems(f"plan_id: {'9' * 5000}\nname: [1e999]\nnam: 1")
    assert [each.code for each in found][:2] == [Code.JSON_NUMBER] * 2
    assert "nam" in {each.field for each in found}


def test_reading_ends_after_very_many_problems() -> None:
    assert len(problems("a: 1\n" * 5000)) == yaml_text.MAX_PROBLEMS + 1
    assert len(problems("\n".join(f"k{at}: 1" for at in range(5000)))) == yaml_text.MAX_PROBLEMS


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text("ab é文😀:#-'\"\\~0", max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=4), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_json_is_yaml_and_means_the_same(document: object) -> None:
    text = json.dumps({"x": document}, ensure_ascii=False)
    assert value(text) == {"x": document}


@given(st.binary(max_size=60) | st.text(" :-[]{}&*!|>'\"%@#?,ab\n\t", max_size=60).map(str.encode))
def test_no_bytes_bring_anything_but_a_plan_or_a_refusal(data: bytes) -> None:
    with pytest.raises(ContractError):
        reader.read_plan_file(data, yaml=True)
