"""A dispute that was taken is there after a kill, once, also on PostgreSQL; and so is what a day may cost."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.cli.core import engine_client
from doors.api.enginekit import REPORTS, agenttalk, engine, until
from kits.plankit import plan, task
from kits.provekit import promise

AGENT = f"""{REPORTS}
def dispute():
    connection = Over("agenttalk")
    path = "/api/projects/default/tasks/%(AGENTTALK_PLAN_ID)s:%(AGENTTALK_TASK_ID)s/disputes" % os.environ
    headers = {{"Authorization": "Bearer " + os.environ["AGENTTALK_TOKEN"]}}
    said = {{"check": "five", "reason": "It should be four."}}
    connection.request("POST", path, json.dumps(said), headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())
here = pathlib.Path(__file__).parent
status, told = dispute()
number = len(list(here.glob("said-*")))
(here / f"writing-{{number}}").write_text(json.dumps([status, told["question_id"]]))
(here / f"writing-{{number}}").rename(here / f"said-{{number}}")
import time
while not (here / "go").exists():
    time.sleep(0.01)
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "app.txt").write_text("four")
print("done")
"""


@pytest.fixture(params=["sqlite", "postgres"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "postgres":
        monkeypatch.setenv("AGENTTALK__STORE__URL", request.getfixturevalue("database"))
    found = tmp_path / "root"
    (found / "agents").mkdir(parents=True)
    (found / "dev.py").write_text(AGENT)
    return found


def told(root: Path, *words: str, code: int = 0) -> Any:
    ended = agenttalk(*words, "--json", "--root", str(root))
    assert ended.returncode == code, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


def submit(root: Path) -> None:
    check = {"id": "five", "kind": "file", "path": "app.txt", "contains": "five"}
    outputs = [{"name": "app.txt", "deliverable": True}]
    made = plan(
        task("count", "dev", outputs=outputs, promise=promise(check)),
        agents={"dev": {"driver": "script", "argv": [sys.executable, str(root / "dev.py")], "sandbox": "plain"}},
        policies={"max_reexecute_times": 0},
    )
    body = {
        "dag": made.dag.as_json(),
        "manifest": made.manifest.as_json(),
        "profiles": {name: each.as_json() for name, each in made.profiles.items()},
    }
    client = engine_client.connect_to_running_engine(root)
    assert client is not None
    client.post("/api/plans", body)


@pytest.mark.rest_but("sqlite")
def test_a_dispute_and_a_limit_outlive_a_kill(root: Path) -> None:
    with engine(root, quick=True) as first:
        submit(root)
        told(root, "budget", "set", "5")
        until((root / "said-0").exists, "the check is disputed")
        first.ended(signal.SIGKILL)
    status, request_id = json.loads((root / "said-0").read_text())
    assert status == 201
    [asked] = told(root, "inbox")["requests"]
    assert asked["request"]["request_id"] == request_id
    with engine(root, quick=True):
        until((root / "said-1").exists, "the attempt that begins anew disputes it, too")
        assert json.loads((root / "said-1").read_text()) == [201, request_id]
        assert told(root, "budget", "show")["limit_usd"] == 5.0
        told(root, "answer", request_id, "--answer", "dismissed", "--as", "ada")
        (root / "go").touch()
        until(lambda: told(root, "explain", "p/count")["state"] == "FAILED", "no round is left")
    found = told(root, "explain", "p/count")
    assert [(each["state"], each["answered_by"]) for each in found["disputes"]] == [("dismissed", "ada")]
    [agent] = told(root, "honesty")["agents"]
    assert (agent["disputed"], agent["dismissed"], agent["upheld"]) == (1, 1, 0)
    (root / "policy.yaml").write_text("min_trust: observed\n")
    assert told(root, "audit", "replay", "--policy", str(root / "policy.yaml"))["totals"]["kept"] == 0
