"""What forges told us is listed, and can be decided about anew without anything being called for twice."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

from engine.toolchain.kits.bench import DOES_IT, Bench, served, written


def plain(engine: Bench, path: str) -> str:
    """An answer that is no JSON."""
    where = urlsplit(engine.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=300)
    connection.request("GET", path, None, {"Authorization": f"Bearer {engine.operator_token()}"})
    try:
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_a_delivery_that_is_decided_anew_calls_for_nothing_twice(tmp_path: Path) -> None:
    with served(written(tmp_path / "root", {"agent-reviewer": DOES_IT})) as engine:
        token = engine.operator_token()
        made = engine.told("gitea/review_request")
        engine.settled()
        status, told = engine.get("/api/webhooks?source=gitea&state=done", token)
        assert status == 200
        assert [(each["id"], each["state"]) for each in told["webhooks"]] == [(made["id"], "done")]
        assert engine.get("/api/webhooks?source=github", token)[1] == {"webhooks": [], "next": None}
        head = {"Authorization": f"Bearer {token}", "Idempotency-Key": "again"}
        path = f"/api/webhooks/{made['id']}/replay"
        first = engine.post(path, b"", head)
        assert first == (200, {"id": made["id"], "state": "new"})
        assert engine.post(path, b"", head) == first
        engine.decided(made["id"])
        assert len(engine.tasks()) == 1, "the same event is the same task"
        facts = engine.get(f"/api/ledger?board=system&subject=webhooks/{made['id'][3:]}", token)[1]["facts"]
        kinds = [each["kind"] for each in facts]
        assert kinds == ["webhook.decided", "webhook.replayed", "webhook.decided", "webhook.received"]
        assert facts[1]["body"]["by"] == "operator"
        assert engine.post("/api/webhooks/wh-77/replay", b"", head)[0] == 404
        verified = engine.get("/api/ledger/verify", token)[1]
        assert verified["ok"], json.dumps(verified)
        assert {each["chain"] for each in verified["chains"]} >= {"system", "default", "_toolchain"}
        lines = plain(engine, "/api/metrics").splitlines()
        assert "agenttalk_webhooks_received_total 1" in lines
        assert any(line.startswith('agenttalk_commits_total{database="_toolchain"} ') for line in lines)
        assert "agenttalk_ready 1" in lines
        facts = engine.get("/api/plans/_toolchain/facts?limit=500", token)[1]["facts"]
        assert {"toolchain.task", "turn.ended"} <= {each["kind"] for each in facts}
        assert [each["state"] for each in engine.get("/api/plans/_toolchain/tasks", token)[1]["tasks"]] == ["COMPLETED"]
        kinds = [each["kind"] for each in engine.get("/api/honesty", token)[1]["kinds"]]
        assert kinds == ["toolchain"]
