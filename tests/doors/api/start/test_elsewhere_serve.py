"""An agent elsewhere and a real engine: over HTTP, with the token of its attempt, through `kill -9` and back."""

from __future__ import annotations

import base64
import http.client
import json
import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agenttalk.contracts.planfile import reader
from agenttalk.doors.cli.core import engine_client
from agenttalk.doors.cli.main import call
from agenttalk.rules.planfile.compiler import compile_plan
from doors.api.enginekit import engine, until

PLAN = """
plan_id: shop
agents:
  far: {driver: remote, prompt: You write notes.}
tasks:
  - {id: note, agent: far, prompt: Write it., outputs: [{name: note, deliverable: true}]}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "agents").mkdir(parents=True)
    return tmp_path / "root"


def submit(root: Path) -> None:
    compiled = compile_plan(reader.read_plan_file(PLAN.encode(), yaml=True))
    client = engine_client.connect_to_running_engine(root)
    assert client is not None
    profiles = {name: each.as_json() for name, each in compiled.profiles.items()}
    body = {"dag": compiled.dag.as_json(), "manifest": compiled.manifest.as_json(), "profiles": profiles}
    until(lambda: client.get("/readyz")["ok"], "it is ready")
    assert client.post("/api/plans", body)["new"]


def ask(address: str, token: str, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, Any]:
    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=300)
    headers = {"Authorization": f"Bearer {token}", **({"Idempotency-Key": key} if key else {})}
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_an_attempt_goes_on_through_the_death_of_its_engine(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["token", "create", "far", "--root", str(root), "--show", "--json"]) == 0
    token = json.loads(capsys.readouterr().out)["token"]
    task = "/api/projects/default/tasks/shop:note"
    with engine(root) as first:
        submit(root)
        address = first.told["http"]
        status, told = ask(address, token, "POST", "/api/agent/claim", {"wait_seconds": 40}, key="mine")
        taken = told["taken"]
        assert (status, taken["task"]) == (200, "shop/note")
        attempt = taken["token"]
        half = base64.b64encode(b"\x00first half").decode()
        status, kept = ask(
            address, attempt, "POST", f"{task}/artifacts", {"output": "note", "path": "a/1", "content": half}
        )
        assert (status, kept["size"]) == (201, 11)
        status, refused = ask(address, token, "GET", task)
        assert (status, refused["code"]) == (403, "NOT_ALLOWED")  # without an epoch it stands for no attempt
        assert ask(address, token, "GET", f"{task}?epoch={taken['epoch']}")[0] == 200
        assert ask(address, attempt, "GET", "/api/agent/tasks")[0] == 403
        assert first.ended(signal.SIGKILL) != 0
    with engine(root) as second:
        address = second.told["http"]

        def hands_in() -> bool:
            body = {"output": "note", "path": "a/2", "text": "second half"}
            status, told = ask(address, attempt, "POST", f"{task}/artifacts", body)
            assert status in {201, 503}, told
            return status == 201

        until(hands_in, "it is taken care of again")
        assert ask(address, attempt, "POST", f"{task}/progress", {"progress": "writing"})[0] == 200
        result = {"result": "wrote it", "usage": {"tokens": 12}}
        assert ask(address, attempt, "POST", f"{task}/result", result)[0] == 201
        client = engine_client.connect_to_running_engine(root)
        assert client is not None
        shown = until(lambda: _ended(client.get("/api/plans/shop")), "the plan ends")
        assert (shown["result"], shown["tasks"][0]["attempt"], shown["usage"]["tokens"]) == ("done", 1, 12)
        status, late = ask(address, attempt, "POST", f"{task}/result", {"result": "late"})
        assert (status, late["code"]) == (401, "TOKEN_REFUSED")
        made = root / "system_runtime/artifacts/shop/note/note/a"
        until(lambda: (made / "1").exists() and (made / "2").exists(), "it is published")
        assert ((made / "1").read_bytes(), (made / "2").read_bytes()) == (b"\x00first half", b"second half")


@pytest.mark.rest
def test_what_an_agent_held_that_fell_silent_is_given_again_and_what_it_sends_late_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["token", "create", "far", "--root", str(root), "--show", "--json"]) == 0
    token = json.loads(capsys.readouterr().out)["token"]
    task, note = "/api/projects/default/tasks/shop:note", {"output": "note", "path": "note", "text": "late"}
    with engine(root) as first:
        submit(root)
        old = ask(first.told["http"], token, "POST", "/api/agent/claim", {"wait_seconds": 40}, key="1")[1]["taken"]
        assert ask(first.told["http"], old["token"], "POST", f"{task}/artifacts", note)[0] == 201
        assert first.ended(signal.SIGKILL) != 0
    (root / "agenttalk.toml").write_text("[limits]\nremote_silence_seconds = 1\n")
    with engine(root) as second:  # in which nothing is heard of it any more
        shown = until(lambda: _offered(shop_of(root)), "it is offered again")
        assert shown["retries"] == 1
        assert second.ended(signal.SIGKILL) != 0
    (root / "agenttalk.toml").unlink()
    with engine(root) as third:
        address = third.told["http"]

        def takes() -> Any:
            status, told = ask(address, token, "POST", "/api/agent/claim", {"wait_seconds": 10}, key="2")
            assert status == 200, told
            return told["taken"]

        new = until(takes, "it is taken again")
        assert new["epoch"] > old["epoch"]
        for path, body in (("artifacts", note), ("result", {"result": "late"}), ("progress", {"progress": "late"})):
            status, refused = ask(address, old["token"], "POST", f"{task}/{path}", body)
            assert (status, refused["code"]) == (401, "TOKEN_REFUSED"), path
            status, refused = ask(address, token, "POST", f"{task}/{path}?epoch={old['epoch']}", body)
            assert (status, refused["code"]) == (403, "NOT_ALLOWED"), path
        assert ask(address, new["token"], "POST", f"{task}/artifacts", {**note, "text": "in time"})[0] == 201
        assert ask(address, new["token"], "POST", f"{task}/result", {"result": "wrote it"})[0] == 201
        shown = until(lambda: _ended(shop_of(root)), "the plan ends")
        assert (shown["result"], shown["tasks"][0]["retries"]) == ("done", 1)
        made = root / "system_runtime/artifacts/shop/note/note/note"
        until(made.exists, "it is published")
        assert made.read_text() == "in time"


def shop_of(root: Path) -> dict[str, Any]:
    client = engine_client.connect_to_running_engine(root)
    assert client is not None
    found: dict[str, Any] = client.get("/api/plans/shop")
    return found


def _offered(shown: dict[str, Any]) -> dict[str, Any] | None:
    task: dict[str, Any] = shown["tasks"][0]
    return task if task["phase"] == "offered" and task["retries"] else None


def _ended(shown: dict[str, Any]) -> dict[str, Any] | None:
    return shown if shown["state"] == "ENDED" else None
