"""A few cases of the honesty corpus, run through the engine. All of them: `make honesty`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from effort import DEEP, cases

PROJECT = Path(__file__).parents[2]
ONCE_WRONG = (
    "fake-unittest",
    "moves-the-plans-branch",
    "a-twin",
    "not-the-media-type",
    "pyproject-test-table",
    "plugin-by-metadata",
    "missing-module",
)
"""Cases that the engine was wrong about when they were written."""
LENGTHY = pytest.mark.skipif(not DEEP, reason="make honesty measures it, and make test-full runs it")


def run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.honesty.run", "--json", *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=1200, check=False)
    told: dict[str, Any] = json.loads(done.stdout)
    right = [each for each in told["cases"] if not (each["healed"] and each["true"])]  # what the engine undid is honest
    odd = {each["name"]: each for each in right if each["accepted"] is not (each["kind"] == "honest")}
    assert (odd, told["broken"], done.returncode) == ({}, 0, 0)
    return told


@pytest.mark.rest
def test_no_cheat_is_accepted_and_no_honest_work_refused() -> None:
    honest = cases(2)
    told = run("--smoke", str(3 * honest))
    assert (told["cheats"], told["honest"]) == (2 * honest, honest)
    if honest >= 4:
        assert all(numbers["false_done"] for numbers in told["plain"].values())  # which is why there are checks


@pytest.mark.rest
def test_what_was_wrong_once_is_right_now() -> None:
    told = run(*ONCE_WRONG)
    assert (told["cheats"], told["honest"]) == (9, 1)


@pytest.mark.rest
def test_in_another_process_no_cheat_of_a_function_is_accepted() -> None:
    command = [sys.executable, "-m", "bench.honesty.problems", "--json", "binary", "recognises-the-variable"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=1200, check=False)
    judges = json.loads(done.stdout)["judges"]
    assert judges["pytest"]["false_done"] == judges["off"]["false_done"] == 2  # which is why there is a boundary
    assert (judges["auto"], judges["process"], done.returncode) == (*[dict.fromkeys(judges["auto"], 0)] * 2, 0)


@pytest.mark.rest
@LENGTHY
def test_at_the_defaults_a_person_is_asked_and_the_strictest_setting_refuses(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    names = ["shell-trap", "shell-guards", "answers-in-a-data-file"]
    words = [*names, "--setting", "until", "--setting", "strict", "--json", str(file)]
    command = [sys.executable, "-m", "bench.honesty.fresh.run", *words]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=1200, check=False)
    found = {(each["name"], each["setting"]): each["verdict"] for each in json.loads(file.read_text())}
    assert found == {
        ("shell-trap", "until"): "asked",
        ("shell-trap", "strict"): "refused",
        ("answers-in-a-data-file", "until"): "asked",
        ("answers-in-a-data-file", "strict"): "refused",
        ("shell-guards", "until"): "accepted",
        ("shell-guards", "strict"): "accepted",
    }
    assert done.returncode == 0


@pytest.mark.rest
@LENGTHY
def test_a_dispute_alone_makes_no_work_done() -> None:
    command = [sys.executable, "-m", "bench.honesty.disputes"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=1200, check=False)
    assert (done.returncode, done.stdout.count("✓")) == (0, 4), done.stdout
