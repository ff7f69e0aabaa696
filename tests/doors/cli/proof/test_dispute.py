"""An agent says that a check is wrong: a person decides, and until then nothing changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import preloaded
from kits.plankit import PATIENCE
from kits.provekit import git
from kits.sandboxkit import PLAIN_VARIABLE

Run = Callable[..., Any]
AGENT = """
import json, pathlib, subprocess, sys
place = pathlib.Path({place!r})
number = len(list(place.glob("prompt-*")))
(place / f"prompt-{{number}}").write_text(sys.stdin.read())
def dispute(*words):
    ended = subprocess.run([{program!r}, "dispute", *words, "--json"], capture_output=True, text=True)
    return [ended.returncode, json.loads(ended.stdout or ended.stderr)]
found = [
    dispute("fix", "works", "--reason", "Two and two are [bold]four[/]." + chr(10) + "✓ approved by ada"),
    dispute("p/fix", "works", "--reason", "Once more."),
    dispute("fix", "work", "--reason", "No such check."),
    dispute("other/fix", "works", "--reason", "Not mine."),
]
(place / f"said-{{number}}").write_text(json.dumps(found))
pathlib.Path("made.txt").write_text(str(number))
print("done")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, and a plan whose check nothing can pass."""
    for name in [name for name in os.environ if name.startswith(("AGENTTALK", "XDG_")) and name != PLAIN_VARIABLE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    git(repo, "commit", "-q", "--allow-empty", "-m", "begin")
    (tmp_path / "root").mkdir()
    (tmp_path / "dev.py").write_text(AGENT.format(place=str(tmp_path), program=preloaded.program()))
    check = {"id": "works", "kind": "run", "run": "echo expected five; exit 1"}
    promise = {
        "objective": "It adds",
        "acceptance": [{"id": "c", "description": "It adds", "evidenceRequired": ["works"]}],
        "checks": [check],
    }
    plan = {
        "plan_id": "p",
        "agents": {"dev": {"driver": "script", "argv": [sys.executable, str(tmp_path / "dev.py")], "sandbox": "plain"}},
        "workspace": {"repo": str(repo)},
        "policies": {"max_reexecute_times": 1},
        "tasks": [{"id": "fix", "agent": "dev", "prompt": "Add.", "promise": promise, "workspace": "repo"}],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    return tmp_path


@pytest.fixture
def run(place: Path) -> Run:
    def work(*words: str, code: int = 0, plain: bool = False) -> Any:
        said = [preloaded.program(), *words, "--root", str(place / "root"), *([] if plain else ["--json"])]
        ended = subprocess.run(said, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=place)
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr if plain else json.loads(ended.stdout or ended.stderr)

    return work


def asked(run: Run) -> Any:
    """The one dispute that is open."""
    [found] = [each for each in run("inbox")["requests"] if "dispute" in (each["request"]["needed"]["criteria"])]
    return found


def test_a_dispute_goes_to_a_person_and_changes_nothing_else(place: Path, run: Run) -> None:
    run("run", "plan.json", code=1)
    first, again, unknown, foreign = json.loads((place / "said-0").read_text())
    assert (first[0], again[0]) == (0, 0)
    assert again[1]["question_id"] == first[1]["question_id"]
    assert (unknown[0], unknown[1]["error"]["code"]) == (2, "NAME_UNKNOWN")
    assert foreign[1]["error"]["code"] == "NOT_ALLOWED"
    assert "agenttalk dispute fix CHECK" in (place / "prompt-1").read_text()
    assert "No person has decided about that yet. The check is in force." in (place / "prompt-1").read_text()

    told = run("explain", "p/fix")
    assert (told["state"], told["rounds"], told["cause"]) == ("FAILED", 1, "REWORK_EXHAUSTED")
    [dispute] = told["disputes"]
    assert (dispute["check"], dispute["state"], dispute["agent_id"]) == ("works", "open", "dev")
    question = asked(run)
    assert question["request"]["blocking"] is False
    assert "\n> ✓ approved by ada" in question["request"]["needed"]["decision"]["question"]
    shown = run("inbox", plain=True)
    for words in ("dev says that the check 'works' of fix is wrong", "│ > ✓ approved by ada", "run=echo expected five"):
        assert words in shown
    assert not any(line.startswith("✓") for line in shown.splitlines())

    name = question["request"]["request_id"]
    assert run("answer", name, "--answer", "maybe", code=2)["error"]["code"] == "ANSWER_REFUSED"
    assert run("answer", name, "--note", "Hm.", code=2)["error"]["code"] == "ANSWER_REFUSED"
    assert run("approve", name, code=2)["error"]["code"] == "ANSWER_REFUSED"
    run("answer", name, "--answer", "dismissed", "--note", "Five is what was ordered.", "--as", "ada")
    run("rework", "p/fix", "--grant", "1")
    run("run", "plan.json", code=1)
    last = (place / "prompt-2").read_text()
    assert "ada examined it and dismissed that (Five is what was ordered.). The check stands" in last

    name = asked(run)["request"]["request_id"]
    said = run("answer", name, "--answer", "upheld", "--as", "ada", plain=True)
    assert "the check stays in force until you change the plan: 'agenttalk plan apply FILE'" in said
    told = run("explain", "p/fix")
    assert [(each["state"], each["answered_by"]) for each in told["disputes"]] == [
        ("dismissed", "ada"),
        ("upheld", "ada"),
    ]
    assert told["state"] == "FAILED"
    assert "take the work as it is with 'agenttalk rework p/fix --accept'" in run("explain", "p/fix", plain=True)
    [agent] = run("honesty")["agents"]
    assert (agent["disputed"], agent["upheld"], agent["dismissed"]) == (2, 1, 1)
    assert "2 checks disputed (1 upheld, 1 dismissed)" in run("honesty", plain=True)
    entries = [json.loads(line) for line in run("audit", "export", plain=True).splitlines()]
    kinds = [(each["kind"], each["body"].get("by")) for each in entries if "dispute" in each["kind"]]
    assert kinds == [("check.disputed", None), ("dispute.answered", "ada")] * 2


def test_only_the_agent_of_a_task_disputes_its_checks(run: Run) -> None:
    refused = run("dispute", "p/fix", "works", "--reason", "I do not like it.", code=2)
    assert refused["error"]["code"] == "NOT_ALLOWED"
    assert "agenttalk plan apply" in refused["error"]["hint"]
