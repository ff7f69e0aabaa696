"""`agenttalk release` and what `run`, `status` and the API tell of releases and reviews."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.store import operator_folder
from agenttalk.doors.cli.core.engine_client import connect_to_running_engine
from doors.cli.plans.test_run import Desk
from kits.sandboxkit import PLAIN_VARIABLE

WORK = """
import json, os, pathlib
here = pathlib.Path(__file__).parent
outputs = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
command = json.loads(pathlib.Path(os.environ["AGENTTALK_COMMAND"]).read_text())
for each in command.get("produces", []):
    name = each["output_name"]
    said = {"score": 90 if (here / "fine").exists() else 10, "decision": "APPROVE"}
    text = "hello" if (here / "green").exists() else "bye"
    (outputs / name).write_text(json.dumps(said) if name.startswith("dag_review") else text)
print("released, all gates PASS")
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in [name for name in os.environ if name.startswith(("AGENTTALK", "XDG_")) and name != PLAIN_VARIABLE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "work.py").write_text(WORK)
    return Desk(tmp_path)


def shipping(desk: Desk, **keys: Any) -> str:
    gates = {"build": {"kind": "run", "run": "grep -q hello app"}}
    made = {"id": "make", "agent": "worker", "prompt": "Make it.", "outputs": [{"name": "app", "deliverable": True}]}
    agents = {name: {"driver": "script", "argv": [sys.executable, "work.py"]} for name in ("worker", "lead")}
    said = {"plan_id": "shop", "agents": agents, "tasks": [made], "release": {"gates": gates}, **keys}
    path = desk.folder / "plan.json"
    path.write_text(json.dumps(said), encoding="utf-8")
    return str(path)


def asked(desk: Desk, path: str, body: dict[str, Any] | None = None, token: str | None = None) -> tuple[int, Any]:
    client = connect_to_running_engine(desk.root)
    assert client is not None
    told = json.loads((desk.root / "data/engine.json").read_text())
    request = urllib.request.Request(f"{told['http']}{path}", json.dumps(body).encode() if body is not None else None)
    request.add_header("Authorization", f"Bearer {token or operator_folder.ensure_token(desk.root)}")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_run_ends_with_one_until_the_release_is_approved(desk: Desk) -> None:
    told = desk.json("run", shipping(desk), code=1)
    assert (told["ok"], told["result"], told["release"]["state"]) == (False, "failed", "rejected")
    assert "rejected" in desk("status", "shop")
    assert "gate 'build' says REJECT" in desk("release", "shop", code=1)
    assert "rejected" in desk("explain", "shop/make")
    first = desk.json("release", "shop", code=1)["release_id"]
    again = desk.json("release", "shop", "--again", code=1)
    assert (again["decision"], again["release_id"] != first) == ("REJECT", True)
    desk.let("green")
    desk("retry", "shop/make", "--from")
    assert desk.json("run", shipping(desk))["result"] == "done"
    assert desk.json("release", "shop")["decision"] == "APPROVE"
    assert len(list(desk.root.glob("system_runtime/artifacts/shop/rel_*/make/app/app"))) == 1


def test_a_plan_without_a_release_says_so(desk: Desk) -> None:
    desk("run", desk.plan({"id": "one", "agent": "worker", "prompt": "Go."}))
    assert "has no release" in desk.refused("release", "shop")
    assert "ships nothing" in desk.refused("release", "shop", "--again")


def test_a_plan_waits_for_its_review_and_a_person_may_decide(desk: Desk) -> None:
    desk.let("green")
    file = shipping(desk, review={"reviewers": ["lead"]})
    assert "lead gives 10; at least 70 is required" in desk("run", file, code=3)
    status = desk.json("status", "shop")["plans"][0]
    assert (status["review"]["state"], status["tasks"][0]["state"]) == ("waits", "PENDING")
    assert "is not approved" in desk.refused("resume", "shop")
    [request] = desk.json("inbox")["requests"]
    desk("answer", request["request"]["request_id"], "--decision", "APPROVE")
    assert "its DAG was approved by operator" in desk("run", file)


@pytest.mark.rest
def test_the_api_tells_and_decides_anew_for_operators_only(desk: Desk) -> None:
    file = shipping(desk)
    with desk.serving():
        desk("run", file, code=1)
        status, manifest = asked(desk, "/api/plans/shop/release_manifest")
        assert (status, manifest["decision"], manifest["evidence_required"]) == (200, "REJECT", ["build"])
        assert asked(desk, "/api/plans/none/release_manifest")[1]["code"] == "NAME_UNKNOWN"
        assert asked(desk, "/api/plans/shop/release", {}, token="no")[0] == 401
        before = desk.json("release", "shop", code=1)["release_id"]
        status, told = asked(desk, "/api/plans/shop/release", {"by": "ada"})
        assert (status, told["state"], told["release_id"] == before) == (200, "rejected", False)
        assert desk.json("release", "shop", "--again", code=1)["gates"][0]["gate"] == "build"
