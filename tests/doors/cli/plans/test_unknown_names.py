"""Names that nobody has: every command says so, and what to look at instead."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from agenttalk.doors.cli.main import call

COMMANDS = [
    "retry {}/x",
    "retry {}/x --from",
    "abort {}/x",
    "override {}/x --checkpoint pre-plan --reason r",
    "rework {}/x --accept",
    "rework {}/x --grant 1",
    "rework {}/x --abort",
    "explain {}/x",
    "verify {}",
    "release {}",
    "pause {}",
    "resume {}",
    "cancel {}",
    "status {}",
    "answer {}",
]
PLAN = """
plan_id: shop
agents: {dev: {driver: script, argv: ["true"]}}
tasks: [{id: make, agent: dev, prompt: Make it.}]
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one plan, whose only task is `make`."""
    folder = tmp_path_factory.mktemp("unknown")
    (folder / "plan.yaml").write_text(PLAN)
    asked(folder / "root", f"run {folder / 'plan.yaml'}")
    return folder / "root"


def asked(root: Path, line: str) -> tuple[int, dict[str, str]]:
    said = io.StringIO()
    with redirect_stdout(said):
        code = call([*line.split(), "--root", str(root), "--json"])
    return code, json.loads(said.getvalue()).get("error", {})


@pytest.mark.parametrize("line", COMMANDS)
def test_an_unknown_plan_is_named_and_a_way_out_is_shown(root: Path, line: str) -> None:
    code, error = asked(root, line.format("nope"))
    assert (code, error["code"] in {"NAME_UNKNOWN", "TASK_NOT_FOUND"}) == (2, True), error
    assert "nope" in error["message"]
    assert error["hint"]


@pytest.mark.parametrize("line", [line for line in COMMANDS if "/x" in line])
def test_an_unknown_task_is_named_and_a_way_out_is_shown(root: Path, line: str) -> None:
    code, error = asked(root, line.format("shop"))
    assert (code, error["code"]) == (2, "TASK_NOT_FOUND")
    assert "x" in error["message"]
    assert "agenttalk status shop" in error["hint"]
