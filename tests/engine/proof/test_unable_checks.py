"""A check that cannot run before the work is an error of the plan: no agent is started for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kits.plankit import plan, states, task
from kits.provekit import CALC, FIXES, PYTEST_ALONE, RUNS, SUITE, program, promise, repository, run

STARTED = "pathlib.Path(r'{}').write_text('started')\n"


def tried(tmp_path: Path, text: str, *checks: dict[str, Any], workspace: bool = True) -> tuple[dict[str, Any], bool]:
    """How a task stands, and whether its agent was started."""
    repo = repository(tmp_path / "repo", {"calc.py": CALC, "test_calc.py": SUITE})
    where = {"workspace": "repo"} if workspace else {}
    compiled = plan(
        task("fix", "dev", promise=promise(*checks), max_reexecute_times=0, **where),
        agents={"dev": program(tmp_path, "dev", STARTED.format(tmp_path / "started") + text)},
        workspace={"repo": str(repo)},
    )
    [told] = run(tmp_path, compiled).tasks
    return dict(told), (tmp_path / "started").exists()


@pytest.mark.rest_but("record")
@pytest.mark.mends("A4")
@pytest.mark.parametrize("first", ["record", "required"])
@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({"kind": "run", "run": ".venv/bin/pytest -q"}, ".venv/bin/pytest: not found"),
        ({"kind": "run", "run": "./calc.py"}, "ermission denied"),
        ({"kind": "run", "run": f"{sys.executable} -m no_such_runner"}, "No module named no_such_runner"),
        (
            {"kind": "run", "run": f"{PYTEST_ALONE} nothing.py"},
            "not found: nothing.py",
        ),
        ({"kind": "run", "run": f"{PYTEST_ALONE} calc.py"}, "no tests ran"),
        ({"kind": "run", "run": f"{sys.executable} tests/none.py"}, "can't open file"),
        ({"kind": "tests", "run": ".venv/bin/pytest -q --junitxml=r.xml", "junit": "r.xml"}, "not found"),
        ({"kind": "tests", "run": "echo none", "junit": "r.xml"}, "no test was found"),
    ],
)
def test_a_check_that_cannot_run_before_the_work_starts_no_agent(
    tmp_path: Path, made: dict[str, Any], says: str, first: str
) -> None:
    told, started = tried(tmp_path, FIXES, {"id": "works", "red_first": first, **made})
    assert not started
    assert told["state"] == "FAILED", told
    assert says in told["reason"]
    assert "workspace.prepare" in told["reason"]
    assert "made_by_work" in told["reason"]


@pytest.mark.rest
@pytest.mark.mends("A4")
def test_a_test_that_the_work_writes_first_may_be_missing_before(tmp_path: Path) -> None:
    made = {
        "id": "works",
        "kind": "run",
        "run": f"{PYTEST_ALONE} new_test.py",
        "red_first": "required",
        "made_by_work": True,
    }
    told, started = tried(tmp_path, "pathlib.Path('new_test.py').write_text('def test_it(): pass\\n')", made)
    assert started
    assert told["state"] == "COMPLETED", told


def test_a_check_that_fails_by_itself_is_red(tmp_path: Path) -> None:
    told, started = tried(tmp_path, FIXES, {"id": "works", "kind": "run", "run": RUNS, "red_first": "required"})
    assert started
    assert told["state"] == "COMPLETED", told


def test_what_is_installed_meanwhile_is_looked_for_again(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    repo = repository(tmp_path / "repo", {"calc.py": CALC})
    made = {"id": "works", "kind": "run", "run": str(tool), "red_first": "required"}

    def compiled(name: str) -> Any:
        return plan(
            task("fix", "dev", promise=promise(made), workspace="repo"),
            agents={"dev": program(tmp_path, "dev", FIXES)},
            workspace={"repo": str(repo)},
            plan_id=name,
        )

    assert states(run(tmp_path, compiled("one"))) == {"fix": "FAILED"}
    tool.write_text("#!/bin/sh\ngrep -q 'a + b' calc.py\n")
    tool.chmod(0o755)
    assert states(run(tmp_path, compiled("two"))) == {"fix": "COMPLETED"}
