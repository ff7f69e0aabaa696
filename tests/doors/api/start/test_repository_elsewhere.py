"""Work in a plan's repository by an agent elsewhere, over HTTP: fetched by git, handed in as a pack, kept by blobs."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agenttalk.contracts.planfile import reader
from agenttalk.doors.cli.core import engine_client
from agenttalk.doors.cli.main import call
from agenttalk.rules.planfile.compiler import compile_plan
from doors.api.enginekit import engine, until
from doors.api.start.test_elsewhere_serve import ask
from kits.provekit import git, repository

PLAN = """
plan_id: shop
workspace: {{repo: {repo}}}
agents:
  far: {{driver: remote, prompt: You keep the shop.}}
tasks:
  - id: hours
    agent: far
    prompt: We open at eight.
    workspace: repo
    promise:
      objective: It says eight.
      acceptance: [{{id: a, description: It says eight., evidenceRequired: [says]}}]
      checks: [{{id: says, kind: run, run: grep -q eight hours}}]
"""


def submit(root: Path, repo: Path) -> Any:
    compiled = compile_plan(reader.read_plan_file(PLAN.format(repo=repo).encode(), yaml=True))
    client = engine_client.connect_to_running_engine(root)
    assert client is not None
    profiles = {name: each.as_json() for name, each in compiled.profiles.items()}
    body = {"dag": compiled.dag.as_json(), "manifest": compiled.manifest.as_json(), "profiles": profiles}
    until(lambda: client.get("/readyz")["ok"], "it is ready")
    assert client.post("/api/plans", body)["new"]
    return client


def fetched(address: str, taken: Any, folder: Path) -> Path:
    """What git fetches with the token of an attempt, checked out."""
    folder.mkdir()
    git(folder, "init", "-q")
    header = f"http.extraHeader=Authorization: Bearer {taken['token']}"
    git(folder, "-c", header, "fetch", "-q", address + taken["repository"]["fetch"], taken["repository"]["ref"])
    git(folder, "checkout", "-q", "FETCH_HEAD")
    return folder


def packed(clone: Path, base: str) -> bytes:
    """A thin pack of the one commit that holds what is in a clone."""
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "work")
    wanted = f"HEAD\n^{base}\n".encode()
    command = ["git", "pack-objects", "--revs", "--thin", "--stdout", "-q"]
    return subprocess.run(command, cwd=clone, input=wanted, check=True, capture_output=True).stdout


def put(address: str, token: str, path: str, body: bytes) -> tuple[int, Any]:
    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=300)
    try:
        connection.request("PUT", path, body, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def ended(client: Any) -> Any:
    shown = client.get("/api/plans/shop")
    return shown if shown["state"] == "ENDED" else None


@pytest.mark.rest
def test_another_engine_builds_the_repository_again_from_a_clone_and_the_packs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, repo = tmp_path / "root", repository(tmp_path / "repo", {"hours": "nine\n"})
    (root / "agents").mkdir(parents=True)
    shutil.copytree(repo, tmp_path / "origin")
    assert call(["token", "create", "far", "--root", str(root), "--show", "--json"]) == 0
    token = json.loads(capsys.readouterr().out)["token"]
    with engine(root) as first:
        submit(root, repo)
        address = first.told["http"]
        taken = ask(address, token, "POST", "/api/agent/claim", {"wait_seconds": 40})[1]["taken"]
        base = taken["repository"]["commit"]
        clone = fetched(address, taken, tmp_path / "clone")
        assert (clone / "hours").read_text() == "nine\n"
        (clone / "hours").write_text("eight\n")
        pack = packed(clone, base)
        status, kept = put(address, taken["token"], taken["repository"]["submit"], pack)
        assert (status, kept["size"]) == (201, len(pack))
        assert put(address, taken["token"], taken["repository"]["submit"], pack) == (201, kept)
        assert first.ended(signal.SIGKILL) != 0
    # The machine of the first engine is gone: of git there is only what everybody can clone.
    shutil.rmtree(repo)
    git(tmp_path, "clone", "-q", str(tmp_path / "origin"), str(repo))
    shutil.rmtree(root / "system_runtime" / "workspaces", ignore_errors=True)
    with engine(root) as second:
        client = engine_client.connect_to_running_engine(root)
        assert client is not None
        task = "/api/projects/default/tasks/shop:hours"

        def handed_in() -> bool:
            status, told = ask(second.told["http"], taken["token"], "POST", f"{task}/result", {"result": "eight"})
            assert status in {201, 503}, told
            return status == 201

        until(handed_in, "it is taken care of again")
        assert until(lambda: ended(client), "the plan ends")["result"] == "done"
    assert git(repo, "show", "agenttalk/shop:hours") == "eight"


def test_a_pack_that_is_not_one_commit_on_the_base_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, repo = tmp_path / "root", repository(tmp_path / "repo", {"hours": "nine\n"})
    (root / "agents").mkdir(parents=True)
    assert call(["token", "create", "far", "--root", str(root), "--show", "--json"]) == 0
    token = json.loads(capsys.readouterr().out)["token"]
    (root / "agenttalk.toml").write_text("[limits]\npayload_mib = 1\n")
    with engine(root, quick=True) as running:
        client = submit(root, repo)
        address = running.told["http"]
        taken = ask(address, token, "POST", "/api/agent/claim", {"wait_seconds": 40})[1]["taken"]
        base, address_of_tree = taken["repository"]["commit"], taken["repository"]["submit"]
        clone = fetched(address, taken, tmp_path / "clone")
        (clone / "hours").write_text("seven\n")
        packed(clone, base)
        (clone / "hours").write_text("eight\n")
        status, told = put(address, taken["token"], address_of_tree, packed(clone, base))
        assert (status, told["code"]) == (422, "PACK_REFUSED")
        git(clone, "reset", "-q", "--soft", base)
        (clone / "link").symlink_to("/etc/hostname")
        assert put(address, taken["token"], address_of_tree, packed(clone, base))[1]["code"] == "PACK_REFUSED"
        (clone / "link").unlink()
        git(clone, "checkout", "-q", "--orphan", "apart")
        assert put(address, taken["token"], address_of_tree, packed(clone, base))[1]["code"] == "PACK_REFUSED"
        git(clone, "checkout", "-q", "--detach", base)
        (clone / "hours").write_text("eight\n")
        packed(clone, base)
        assert put(address, taken["token"], address_of_tree, b"0" * (2 << 20))[1]["code"] == "FILE_TOO_LARGE"
        other = address_of_tree.replace(f"/{taken['epoch']}/", f"/{taken['epoch'] + 1}/")
        assert put(address, taken["token"], other, b"")[1]["code"] == "NOT_ALLOWED"
        git(clone, "reset", "-q", "--soft", base)
        assert put(address, taken["token"], address_of_tree, packed(clone, base))[0] == 201
        task = "/api/projects/default/tasks/shop:hours"
        assert ask(address, taken["token"], "POST", f"{task}/result", {"result": "eight"})[0] == 201
        assert until(lambda: ended(client), "the plan ends")["result"] == "done"
    assert git(repo, "show", "agenttalk/shop:hours") == "eight"
