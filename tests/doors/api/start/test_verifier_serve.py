"""Verifiers and an engine as processes: over HTTP, in a repository, through the death of each."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.planfile import reader
from agenttalk.doors.cli.core import engine_client
from agenttalk.rules.planfile.compiler import compile_plan
from doors.api.enginekit import clean, engine, read_object, until
from kits.provekit import CALC, RUNS, SUITE, git, repository

PLAN = """
plan_id: shop
workspace: {{repo: {repo}}}
agents:
  near: {{driver: script, argv: ["{python}", -c, "open('hours', 'w').write('eight'); print('wrote it')"]}}
tasks:
  - id: hours
    agent: near
    prompt: We open at eight.
    workspace: repo
    promise:
      objective: It says eight.
      acceptance: [{{id: a, description: It says eight., evidenceRequired: [says]}}]
      checks: [{{id: says, kind: run, run: "{run}", red_first: {red}}}]
"""
SETTINGS = '[checks]\npool = "verify"\nsandbox = "plain"\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "agents").mkdir(parents=True)
    (tmp_path / "root" / "agenttalk.toml").write_text(SETTINGS)
    return tmp_path / "root"


def connect(root: Path) -> Any:
    client = engine_client.connect_to_running_engine(root)
    assert client is not None
    until(lambda: client.get("/readyz")["ok"], "it is ready")
    return client


def submit(client: Any, repo: Path, run: str, red: str = "record") -> None:
    post(client, PLAN.format(repo=repo, python=sys.executable, run=run, red=red))


def post(client: Any, text: str) -> None:
    compiled = compile_plan(reader.read_plan_file(text.encode(), yaml=True))
    assert compiled.problems == ()
    profiles = {name: each.as_json() for name, each in compiled.profiles.items()}
    body = {"dag": compiled.dag.as_json(), "manifest": compiled.manifest.as_json(), "profiles": profiles}
    assert client.post("/api/plans", body)["new"]


@contextmanager
def verifier(folder: Path, client: Any, server: str, name: str = "one") -> Iterator[subprocess.Popen[str]]:
    """A verifier that says to be a machine of its own."""
    options = ["--server", server, "--folder", str(folder / name), "--name", name, "--machine", name, "--json"]
    if not (folder / name / "worker.json").exists():
        token = f"inv_token_that_is_long_enough_for_{name}"
        client.post("/api/workers/invitations", {"pool": "verify", "role": "verifier", "token": token})
        options += ["--enrol", token]
    with (folder / f"{name}.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "agenttalk", "worker", *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=clean(),
        )
    try:
        assert read_object(process)["pool"] == "verify"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=300)


def ended(client: Any) -> Any:
    shown = client.get("/api/plans/shop")
    return shown if shown["state"] == "ENDED" else None


def test_a_verifier_checks_a_tree_that_it_fetches(root: Path, tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"hours": "nine\n"})
    with engine(root, quick=True) as running:
        client = connect(root)
        submit(client, repo, "grep -q eight hours")
        path = "/api/plans/shop/tasks/hours/explanation"
        until(lambda: "invite --pool verify --role verifier" in client.get(path)["moves_on"], "it waits")
        with verifier(tmp_path, client, running.told["http"]) as process:
            shown = until(lambda: ended(client), "the plan ends")
            assert shown["result"] == "done"
            process.send_signal(signal.SIGTERM)
            assert process.wait(300) == 0
        told = client.get(path)
        [check] = told["attempts"][-1]["checks"]
        assert (check["by"], check["seals"][0]["name"], check.get("weak")) == (
            "verifier one",
            "one",
            None,
        )
    assert git(repo, "show", "agenttalk/shop:hours") == "eight"


SUITE_PLAN = """
plan_id: shop
workspace: {{repo: {repo}}}
agents:
  near:
    driver: script
    argv: ["{python}", -c, "t = open('calc.py').read(); open('calc.py', 'w').write(t.replace('0', 'a + b')); print('wrote it')"]
tasks:
  - id: hours
    agent: near
    prompt: Let it add.
    workspace: repo
    promise:
      objective: It adds.
      acceptance: [{{id: a, description: It adds., evidenceRequired: [suite]}}, {{id: b, description: Tests notice., evidenceRequired: [faults]}}]
      checks:
        - {{id: suite, kind: tests, run: "{run}", red_first: required}}
        - {{id: faults, kind: mutants, of: suite}}
"""


@pytest.mark.rest
def test_suites_and_faults_put_into_the_work_are_tried_at_a_verifier(root: Path, tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"calc.py": CALC, "test_calc.py": SUITE})
    with engine(root, quick=True) as running:
        client = connect(root)
        post(client, SUITE_PLAN.format(repo=repo, python=sys.executable, run=RUNS))
        with verifier(tmp_path, client, running.told["http"]):
            shown = until(lambda: ended(client), "the plan ends")
            assert shown["result"] == "done", str(client.get("/api/plans/shop/tasks/hours/explanation"))
        suite, faults = client.get("/api/plans/shop/tasks/hours/explanation")["attempts"][-1]["checks"]
        assert (suite["by"], suite["source"], suite.get("weak")) == ("verifier one", "channel", None)
        assert faults["passed"]
        assert client.get("/api/workers")["workers"][0]["state"] == "active"


def waiting_check(runs: Path, go: Path) -> str:
    return f"echo $$ >> {runs}; while [ ! -e {go} ]; do sleep 0.02; done; grep -q eight hours"


@pytest.mark.rest
@pytest.mark.parametrize("who", ["verifier", "engine"])
def test_a_check_is_made_again_after_the_death_of(who: str, root: Path, tmp_path: Path) -> None:
    repo, runs, go = repository(tmp_path / "repo", {"hours": "nine\n"}), tmp_path / "runs", tmp_path / "go"
    with engine(root) as first:
        client, server = connect(root), first.told["http"]
        submit(client, repo, waiting_check(runs, go), red="off")
        with verifier(tmp_path, client, server) as process:
            until(runs.exists, "the check runs")
            if who == "verifier":
                process.send_signal(signal.SIGKILL)
                process.wait(300)
                check = Path("/proc", runs.read_text().strip())
                until(lambda: not check.exists(), "its programs are dead")
                go.touch()
                with verifier(tmp_path, client, server):
                    assert until(lambda: ended(client), "the plan ends")["result"] == "done"
            else:
                assert first.ended(signal.SIGKILL) != 0
                go.touch()
                port = server.rpartition(":")[2]
                with engine(root, "--port", port):
                    assert until(lambda: ended(connect(root)), "the plan ends")["result"] == "done"
    assert len(runs.read_text().split()) >= 2
    assert git(repo, "show", "agenttalk/shop:hours") == "eight"
    assert git(repo, "rev-list", "--count", "agenttalk/shop") == "2"


@pytest.mark.rest
def test_a_verifier_that_stood_still_for_too_long_answers_for_nothing(root: Path, tmp_path: Path) -> None:
    (root / "agenttalk.toml").write_text(f"{SETTINGS}[limits]\nworker_ttl_seconds = 6\n")
    repo, runs, go = repository(tmp_path / "repo", {"hours": "nine\n"}), tmp_path / "runs", tmp_path / "go"
    with engine(root, quick=True) as running:
        client, server = connect(root), running.told["http"]
        submit(client, repo, waiting_check(runs, go), red="off")
        with verifier(tmp_path, client, server, "slow") as slow:
            until(runs.exists, "the check runs")
            slow.send_signal(signal.SIGSTOP)
            with verifier(tmp_path, client, server, "quick"):
                until(lambda: len(runs.read_text().split()) > 1, "the other makes it")
                go.touch()
                assert until(lambda: ended(client), "the plan ends")["result"] == "done"
                slow.send_signal(signal.SIGCONT)
                until(
                    lambda: all(each["liveness"] == "online" for each in client.get("/api/workers")["workers"]), "both"
                )
        [check] = client.get("/api/plans/shop/tasks/hours/explanation")["attempts"][-1]["checks"]
        assert check["by"] == "verifier quick"
    assert git(repo, "rev-list", "--count", "agenttalk/shop") == "2"
