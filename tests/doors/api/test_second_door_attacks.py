"""The doors once more: names that are taken, links that are looked at before they are used, keys that others use."""

from __future__ import annotations

import http.client
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agenttalk.adapters.store.root_lock import RootLock
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.doors.api.routes import events
from agenttalk.engine.messages.router import Router
from doors.api.doorkit import OPERATOR, VIEWER, Door
from kits.treekit import Tree, node, question

pytestmark = pytest.mark.rest


def made(door: Door, role: str, name: str, token: str) -> int:
    return door.post("/api/tokens", {"role": role, "name": name, "token": token}).status


# Tokens


def test_nobody_is_called_as_the_engines_own_operator_is(door: Door) -> None:
    """A token of that name would stand in no list, and nobody could revoke it."""
    for role in ("operator", "viewer", "worker"):
        answer = door.post("/api/tokens", {"role": role, "name": "operator", "token": f"tok_of_{role}_long_enough"})
        if answer.status == 201:
            shown = [each["id"] for each in door.get("/api/tokens").json["tokens"]]
            assert answer.json["id"] in shown
            assert door.post(f"/api/tokens/{answer.json['id']}/revoke", {}).status == 200
        assert door.get("/api/me", f"tok_of_{role}_long_enough").status == 401


def test_a_key_opens_no_answer_to_who_may_not_ask(door: Door) -> None:
    ann, other = "tok_of_ann_long_enough", "wor_of_ann_long_enough"
    assert [made(door, "operator", "ann", ann), made(door, "worker", "ann", other)] == [201, 201]
    key, path = {"Idempotency-Key": "one"}, "/api/tokens"
    body = {"agent_id": "far", "token": "rem_a_token_that_is_long_enough"}
    assert door.post(path, body, ann, headers=key).status == 201
    assert door.post(path, body, ann, headers=key).headers["idempotency-replayed"] == "true"
    refused = door.post(path, body, other, headers=key)
    assert (refused.status, "idempotency-replayed" in refused.headers) == (403, False)
    [(shown, _)] = [(each["id"], each["name"]) for each in door.get(path).json["tokens"] if each["role"] == "operator"]
    assert door.post(f"{path}/{shown}/revoke", {}).status == 200
    assert door.post(path, body, ann, headers=key).status == 401, "nor does an answer outlive the token"


def test_the_token_of_an_attempt_hears_nothing_more_when_its_lease_ends(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "AGAIN", 0.0)
    token = door.leased()
    address = urlsplit(door.where.http)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=300)
    try:
        connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {token}"})
        stream = connection.getresponse()
        if stream.status == 200:
            door.released()
            stream.read()  # comes to its end
        else:
            assert stream.status in {401, 403}
    finally:
        connection.close()


# Links and sessions


def test_a_link_that_is_only_looked_at_is_not_used_up(door: Door) -> None:
    """Programs that show or scan links ask for their head first."""
    path = door.post("/api/login-links", {}).json["path"]
    looked = door.ask("HEAD", path)
    assert "set-cookie" not in looked.headers
    entered = door.get(path, None)
    assert (entered.status, "set-cookie" in entered.headers) == (200, True)
    assert door.get(path, None).status == 401


def test_a_session_that_somebody_chose_beforehand_is_none(door: Door) -> None:
    port = urlsplit(door.where.http).port
    name = f"agenttalk_session_{port}"
    chosen = {"Cookie": f"{name}=chosen-by-eve"}
    assert door.get("/", None, headers=chosen).status == 401
    path = door.post("/api/login-links", {}).json["path"]
    entered = door.get(path, None, headers=chosen)
    cookie = entered.headers["set-cookie"].partition(";")[0]
    assert "chosen-by-eve" not in cookie
    assert door.get("/", None, headers=chosen).status == 401, "entering does not make it good"
    assert door.get("/", None, headers={"Cookie": cookie}).status == 200


def test_guessing_links_opens_nothing_and_uses_none_up(door: Door) -> None:
    path = door.post("/api/login-links", {}).json["path"]
    start, _, key = path.partition("key=")
    for wrong in (key[:-1], f"{key}x", key.swapcase(), f"%20{key}", "", "a" * 5_000, f"{key}%00"):
        answer = door.get(f"{start}key={wrong}", None)
        assert "set-cookie" not in answer.headers, wrong
    twice = door.get(f"{start}key=wrong&key={key}", None)
    again = door.get(path, None)
    assert {twice.status, again.status} <= {200, 401}
    assert [twice.status, again.status].count(200) == 1, "once, and no more than that"


# Questions


def asked_in(tree: Tree, plan_id: str, document: dict[str, Any]) -> None:
    tree.put("dev", f"human_intervention_request_{document['request_id']}.json", document, plan_id=plan_id)


@pytest.mark.parametrize("same", [True, False])
def test_a_question_under_the_id_of_another_plans_is_not_lost(door: Door, tree: Tree, same: bool) -> None:
    tree.dag([node("build", "dev")], plan_id="plan_two")
    document = question("r1", for_whom="dev")
    asked_in(tree, "plan_shop", document)
    door.run(lambda deps: Router(deps).pass_())
    asked_in(tree, "plan_two", document if same else {**document, "title": "Which colours?"})
    door.run(lambda deps: Router(deps).pass_())
    waiting = door.get("/api/human-requests").json["requests"]
    mine = [each for each in waiting if each["plan_id"] == "plan_two"]
    assert mine or tree.codes("plan_two") == ["CONTROL_CHANGED"], "it is asked, or its agent is told"
    assert [each["plan_id"] for each in waiting if each["request"]["request_id"] == "r1"] == ["plan_shop"]


def test_an_answer_names_what_was_shown_also_beside_a_question_with_the_same_words(door: Door, tree: Tree) -> None:
    for name in ("r1", "r2"):
        asked_in(tree, "plan_shop", question(name, for_whom="dev"))
    door.run(lambda deps: Router(deps).pass_())
    shown = {each["request"]["request_id"]: each["sha256"] for each in door.get("/api/human-requests").json["requests"]}
    body = {"decision": "PROVIDE", "notes": "no", "seen_sha256": shown["r2"]}
    refused = door.post("/api/human-requests/r1/answer", body)
    assert refused.status in {409, 422}
    assert door.post("/api/human-requests/r1/answer", body, VIEWER).status == 403
    assert len(door.get("/api/human-requests").json["requests"]) == 2


# Requests


def test_two_ways_to_say_who_one_is_do_not_add_up(door: Door) -> None:
    path = door.post("/api/login-links", {"role": "operator"}).json["path"]
    cookie = door.get(path, None).headers["set-cookie"].partition(";")[0]
    both = door.ask("POST", "/api/tokens/x/revoke", {}, token=VIEWER, headers={"Cookie": cookie})
    assert both.status == 403, "whoever shows a token is what the token says"
    bare = door.ask("POST", "/api/tokens/x/revoke", {}, headers={"Cookie": cookie})
    assert bare.status in {401, 403}, "a session writes by forms alone"
    odd = door.ask("GET", "/api/status", headers={"Authorization": f"Bearer {OPERATOR}, Bearer {VIEWER}"})
    assert odd.status == 401


# Locks


def test_a_root_whose_files_are_the_same_under_another_name_is_the_same_root(tmp_path: Path) -> None:
    """A tree of hard links to a root is that root: two engines would write the same databases."""
    root, twin, link = tmp_path / "root", tmp_path / "twin", tmp_path / "link"
    (root / "data").mkdir(parents=True)
    with RootLock.acquire(root, "engine"):
        (twin / "data").mkdir(parents=True)
        for each in (root / "data").iterdir():
            os.link(each, twin / "data" / each.name)
        link.symlink_to(root)
        for other in (twin, link, root / "data" / ".."):
            with pytest.raises(MachineError) as refused:
                RootLock.acquire(other, "engine")
            assert refused.value.code is Code.ENGINE_RUNNING


def test_what_a_copy_of_a_root_says_of_its_engine_is_not_believed(tmp_path: Path) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    with RootLock.acquire(root, "engine") as lock:
        lock.announce(http="http://127.0.0.1:9", socket=None)
        (copy / "data").mkdir(parents=True)
        told = json.loads((root / "data/engine.json").read_bytes())
        (copy / "data/engine.json").write_bytes(json.dumps({**told, "http": "http://evil.example"}).encode())
        RootLock.acquire(copy, "engine").release()
    assert not (copy / "data/engine.json").exists()
