"""The plan of one task with which an agent changes a repository until a check is proven."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agenttalk.contracts.planfile.reader import plan_of
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.contracts.promise import RunCheck
from agenttalk.rules.changes import change_plan
from agenttalk.rules.changes.change_plan import ChangeLimits, ChangeOrder
from agenttalk.rules.changes.check_discovery import CheckCandidate
from agenttalk.rules.planfile.compiler import compile_plan
from agenttalk.rules.text import change_words

CHECK = RunCheck(id="any", kind="run", run="make test")
ORDER = ChangeOrder(
    repository="/shop",
    identity="shop abc",
    name="Fix the price",
    goal="Fix the price.\nIt is wrong.",
    agent_id="claude",
    agent={"driver": "cli", "cli": {"agent": "claude"}},
    check=CHECK,
)


def check_of(order: ChangeOrder) -> dict[str, Any]:
    plan = change_plan.make_plan(order)
    [check] = plan["tasks"][0]["promise"]["checks"]
    assert isinstance(check, dict)
    return check


FULL = replace(
    ORDER,
    protected=("data/**",),
    scope=("src/**",),
    links=(".venv",),
    prepare="npm ci",
    limits=ChangeLimits(2, 1.5, 0.001),
)


@pytest.mark.parametrize("order", [ORDER, FULL, replace(ORDER, check=None, question="Is it good?")])
def test_the_plan_is_valid(order: ChangeOrder) -> None:
    compiled = compile_plan(plan_of(YamlSource(change_plan.make_plan(order))))
    assert compiled.problems == ()


def test_every_option_reaches_the_plan() -> None:
    plan = change_plan.make_plan(FULL)
    [task] = plan["tasks"]
    assert plan["workspace"] == {"repo": "/shop", "uncommitted": "take", "link": [".venv"], "prepare": "npm ci"}
    assert (plan["limits"], task["timeout"]) == ({"seconds": 1, "cost_usd": 1.5}, 1)
    assert task["max_reexecute_times"] == 1
    assert task["promise"]["allowedScope"] == ["src/**"]
    assert task["promise"]["budget"] == {"cost_usd": 1.5}
    assert check_of(FULL)["protected"] == ["data/**"]


def test_the_check_must_fail_first_unless_it_may_be_green() -> None:
    assert check_of(ORDER)["red_first"] == "required"
    assert check_of(replace(ORDER, already_green=True))["red_first"] == "record"
    assert check_of(replace(ORDER, suspicion="refuse"))["suspicion"] == "refuse"


def test_tests_that_may_change_are_not_protected_and_may_be_made() -> None:
    assert "protected" not in check_of(ORDER)
    free = check_of(replace(ORDER, tests_allowed=True))
    assert (free["protected"], free["made_by_work"]) == ([], True)
    both = check_of(replace(ORDER, tests_allowed=True, protected=("a.py",)))
    assert both["protected"] == ["a.py"]


def test_the_same_order_gives_the_same_plan_and_any_other_another() -> None:
    first = change_plan.make_plan(ORDER)
    assert first == change_plan.make_plan(ORDER)
    assert first["plan_id"].startswith("fix-the-price-")
    others = [
        replace(ORDER, identity="shop def"),
        replace(ORDER, attempt=2),
        replace(ORDER, limits=ChangeLimits(5)),
        replace(ORDER, check=replace_run(CHECK)),
    ]
    ids = {change_plan.make_plan(each)["plan_id"] for each in (ORDER, *others)}
    assert len(ids) == 5
    assert change_plan.make_plan(replace(ORDER, name="修正价格"))["plan_id"].startswith("change-")


def replace_run(check: RunCheck) -> RunCheck:
    return check.model_copy(update={"run": "make check"})


def test_what_git_ignores_and_checks_need_is_found() -> None:
    ignored = [".venv", "app/node_modules", "node_modules", ".env", ".env.local", "build", ".env.d/x", "notes.txt"]
    assert change_plan.find_links(ignored) == (".env", ".env.local", ".venv", "app/node_modules", "node_modules")
    assert change_plan.find_links([".venv", ".venv/node_modules"]) == (".venv",)


def test_a_command_is_led_to_a_program_that_is_linked() -> None:
    places = {".venv/bin": {"pytest"}, "node_modules/.bin": {"vitest"}}
    led = change_plan.lead_to_programs("pytest -q", "pytest", [".venv"], places)
    assert led == 'export PATH="$PWD/.venv/bin:$PATH"; pytest -q'
    assert change_plan.lead_to_programs("pytest -q", "pytest", [], places) == "pytest -q"
    assert change_plan.lead_to_programs("make", "make", [".venv", "node_modules"], places) == "make"
    near = {"app/.venv/bin": {"pytest"}, **places}
    deep = change_plan.lead_to_programs("pytest", "pytest", ["app/.venv", ".venv"], near, "app/inner")
    assert deep == 'export PATH="$PWD/../.venv/bin:$PATH"; pytest'
    assert change_plan.list_program_folders("") == (".venv/bin", "venv/bin", "node_modules/.bin")
    assert change_plan.list_program_folders("app/inner")[0] == "app/inner/.venv/bin"
    assert change_plan.list_program_folders("app/inner")[-1] == "node_modules/.bin"


def test_what_is_protected_is_listed_for_people() -> None:
    candidate = CheckCandidate("make", "make test", change_words.CHECK_NAMED(), files=("Makefile", "tests/a.py"))
    listed = change_plan.list_protected(candidate, ["data/**"], tests_allowed=False)
    assert listed == ("data/**", "Makefile", "tests/a.py")
    assert change_plan.list_protected(candidate, (), tests_allowed=True) == ()
