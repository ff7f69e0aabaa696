"""What is told of tasks of forge events is so: what is still missing, and how many are open. And bit rot stays alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters.forge.test_webhooks import sample
from engine.toolchain.kits.bench import REPORTS, served, written

LOOKS = f"""{REPORTS}
def missing():
    return ask("GET", "/promise")[1]["not_shown_yet"]
before = missing()
assert report("Step 1: done. Step 2: done.")[0] == 201
report(json.dumps([before, missing()]), kind="general")
"""


@pytest.mark.shows("T06")
def test_an_agent_is_told_what_is_missing_and_not_what_it_has_handed_in(tmp_path: Path) -> None:
    with served(written(tmp_path / "root", {"agent-reviewer": LOOKS})) as bench:
        token = bench.operator_token()
        bench.told("gitea/review_request")
        [task] = bench.settled()
        here = f"/api/projects/_toolchain/tasks/{task['id']}"
        said = [each["body"] for each in bench.get(here, token)[1]["comments"] if each["type"] == "general"]
        before, after = json.loads(said[0])
        assert "'has_action_report' is not there" in before[0]
        assert after == []
        assert (task["status"], bench.get(f"{here}/promise", token)[1]["not_shown_yet"]) == ("done", [])
        counts = bench.get("/api/plans/_toolchain", token)[1]["counts"]
        assert (counts["open"], counts["completed"]) == (0, 1)


@pytest.mark.shows("T25")
def test_a_delivery_that_was_damaged_holds_up_no_other(tmp_path: Path) -> None:
    body = {**sample("gitea/review_request")["body"], "filler": "x" * 300_000}
    with served(written(tmp_path / "root", {})) as bench:
        first = bench.told("gitea/review_request", body=json.dumps(body).encode())
        digest = first["sha256"].removeprefix("sha256:")
        [stored] = (bench.root / "data").rglob(f"{digest[:2]}/{digest[2:]}")
        stored.chmod(0o600)
        stored.write_bytes(b"{" + stored.read_bytes()[1:-1] + b"!")
        headers = {"Authorization": f"Bearer {bench.operator_token()}"}
        assert bench.post(f"/api/webhooks/{first['id']}/replay", b"", headers)[0] == 200
        assert bench.told("gitea/issue_assigned")["state"] == "done"
        again = bench.decided(first["id"])
        assert (again["state"], "has another hash" in again["outcome"]) == ("failed", True)
