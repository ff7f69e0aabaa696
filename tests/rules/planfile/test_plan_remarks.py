"""What is said of a plan before it begins: what its checks leave open, and what no task will see."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.planfile import plan_remarks

PATHS = ("app.py", "calc.py", "tests/test_calc.py")


def said(*checks: dict[str, Any], paths: tuple[str, ...] = PATHS, workspace: str = "repo", **keys: Any) -> list[str]:
    made = [{"id": f"c{number}", **each} for number, each in enumerate(checks)]
    promise = {"id": "cp-1-0000", "objective": "o", "acceptance": [], "checks": made, **keys}
    told = {"task_id": "fix", "assigned_agent_id": "dev", "workspace": workspace, "promise": promise}
    if workspace != "repo":
        del told["workspace"]
    node = Node.model_validate(told)
    return [f"{each.field}: {each.message}" for each in plan_remarks.find_remarks([node], paths, ())]


@pytest.mark.mends("A3")
@pytest.mark.parametrize(
    ("checks", "keys", "words"),
    [
        (
            [{"kind": "run", "run": "pytest", "protected": []}],
            {},
            "checks[0].protected: the check 'c0' protects nothing",
        ),
        (
            [{"kind": "run", "run": "cargo test"}],
            {"paths": ("src/lib.rs",)},
            "no file is known of which the check 'c0'",
        ),
        ([{"kind": "run", "run": "pytest", "protect_config": False}], {}, "how the check 'c0' runs tests"),
        (
            [{"kind": "run", "run": "python3 app.py"}],
            {},
            "the work cannot change 'app.py', because the check 'c0' runs it",
        ),
        ([{"kind": "run", "run": "pytest"}], {"allowedScope": ["tests/**"]}, "may change what its checks consist of"),
    ],
)
def test_what_checks_leave_open_or_close_by_surprise_is_said(
    checks: list[dict[str, Any]], keys: dict[str, Any], words: str
) -> None:
    found = said(*checks, **keys)
    assert any(words in each for each in found), found
    assert all(each.startswith("tasks[0].promise") for each in found)


def test_what_a_promise_leaves_open_is_known_without_its_files() -> None:
    check = {"id": "c", "kind": "run", "run": "pytest", "protected": [], "protect_config": False}
    said = {"id": "cp-1-0000", "objective": "o", "acceptance": [], "checks": [check, {"id": "r", "kind": "report"}]}
    assert len(plan_remarks.list_open_points(CompletionPromise.model_validate(said))) == 2


def test_nothing_is_said_of_what_is_as_it_should_be() -> None:
    assert said({"kind": "run", "run": "pytest"}, {"kind": "report"}) == []
    assert said({"kind": "run", "run": "grep -q x app.py"}) == []
    assert said({"kind": "run", "run": "pytest", "protected": []}, workspace="") == []


@pytest.mark.mends("A5")
def test_what_is_not_committed_is_named_as_far_as_anybody_reads() -> None:
    [few] = plan_remarks.find_remarks([], PATHS, ["b.py", "a\udcff.py"])
    assert (few.code, few.field) == (Code.UNCOMMITTED, "workspace")
    assert "a\\xff.py, b.py" in few.message
    [many] = plan_remarks.find_remarks([], PATHS, [f"{number}.py" for number in range(12)])
    assert many.message.endswith("and 2 more")
