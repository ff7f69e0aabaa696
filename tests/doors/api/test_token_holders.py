"""Tokens of people and pipelines: each has one holder, and nothing is left of one that was revoked."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest

from agenttalk.doors.api.routes import events
from doors.api.doorkit import FAR, Door


def test_a_token_is_good_for_one_holder_and_never_again_once_it_is_revoked(door: Door) -> None:
    def make(**body: str) -> int:
        return door.post("/api/tokens", {"token": token, **body}).status

    token = "tok_that_is_long_enough"
    ann, bob = {"role": "viewer", "name": "ann"}, {"role": "viewer", "name": "bob"}
    assert [make(**ann), make(**ann)] == [201, 201], "the same once more is the same"
    for other in (bob, {**ann, "role": "operator"}, {"agent_id": "far"}):
        assert make(**other) == 409
        assert door.get("/api/me", token).json["name"] == "ann"
    known = {"agent_id": "far"}, {"role": "operator", "name": "far"}
    token = FAR
    assert [make(**each) for each in known] == [201, 409], "no token of an agent becomes an operator's"
    assert door.get("/api/me", FAR).json["role"] == "remote"
    token = "tok_that_is_long_enough"
    made = [each["id"] for each in door.get("/api/tokens").json["tokens"] if each["name"] == "ann"]
    assert door.post(f"/api/tokens/{made[0]}/revoke", {}).status == 200
    again = door.post("/api/tokens", {"token": token, **ann})
    assert (again.code, again.json["detail"]) == ("STORE_CONFLICT", "this token was revoked")
    facts = door.get("/api/ledger?board=system&subject=people/ann").json["facts"]
    assert [(each["kind"], each["body"]["by"]) for each in facts] == [
        ("token.revoked", "operator"),
        ("token.made", "operator"),
    ]


def test_a_pipeline_reports_and_does_nothing_else(door: Door) -> None:
    token = "wor_that_is_long_enough"
    assert door.post("/api/tokens", {"role": "worker", "name": "ci", "token": token}).json["role"] == "worker"
    assert door.get("/api/me", token).json["name"] == "ci"
    report = {"schema_version": "1.0", "kind": "ci", "repository": "a/b", "sha": "a" * 40, "outcome": "failure"}
    assert door.post("/api/toolchain/events", report, token).status == 422, "no source is configured here"
    assert [door.get(path, token).status for path in ("/api/status", "/api/mail", "/api/tokens")] == [403] * 3


def test_who_is_revoked_hears_nothing_more_and_is_logged_out(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "AGAIN", 0.0)
    token = "tok_that_is_long_enough"
    made = door.post("/api/tokens", {"role": "operator", "name": "ann", "token": token}).json["id"]
    entered = door.get(door.post("/api/login-links", {"by": "bob"}, token).json["path"], None)
    cookie = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
    unused = door.post("/api/login-links", {}, token).json["path"]
    address = urlsplit(door.where.http)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=300)
    try:
        connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {token}"})
        stream = connection.getresponse()
        assert (stream.status, stream.readline()) == (200, b"retry: 2000\n")
        assert door.get("/plans", None, headers=cookie).status == 200
        assert door.post(f"/api/tokens/{made}/revoke", {}).status == 200
        said = {"author": "dev", "comment_type": "general", "body": "Nobody else hears this."}
        path = "/api/projects/default/tasks/plan_shop:build/comments"
        assert door.post(path, said, door.leased()).status == 201
        rest = stream.read()
    finally:
        connection.close()
    assert b"event: fact" not in rest, "it ends before anything else is told"
    assert door.get("/plans", None, headers=cookie).status != 200
    assert "set-cookie" not in door.get(unused, None).headers
