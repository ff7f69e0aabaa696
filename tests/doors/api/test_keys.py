"""Idempotency-Key: a write of an operator is carried out once, however often it is asked for, and whoever dies meanwhile."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agenttalk.adapters.store import operator_folder
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import ConflictError
from agenttalk.doors.api.route_table import ROUTES
from agenttalk.engine.core import idempotency
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.idempotency import IdempotencyKeys
from agenttalk.engine.inbox.tick_report import TickReport
from agenttalk.ports.statements.core import COMMENTS_OF
from agenttalk.wiring import open_root
from doors.api.doorkit import OPERATOR, VIEWER, Door, listening
from doors.api.enginekit import engine, until
from kits.agentkit import Clock
from kits.treekit import Tree

TOKEN = {"agent_id": "far", "token": "rem_a_token_that_is_long_enough"}
TASK = "/api/projects/default/tasks/plan_shop:build"


def keyed(door: Door, path: str, body: Any, key: str, token: str = OPERATOR) -> Any:
    return door.post(path, body, token, headers={"Idempotency-Key": key})


def made(door: Door, token: str = TOKEN["token"]) -> str:
    """A new token of an agent elsewhere; its id."""
    answer = door.post("/api/tokens", {**TOKEN, "token": token})
    assert answer.status == 201
    return str(answer.json["id"])


def asked(body: Any, query: str = "") -> str:
    """What is asked, as keys remember it."""
    return wire.sha256(wire.write([query, wire.sha256(json.dumps(body).encode())]))


def begun(door: Door, path: str, body: Any, key: str) -> None:
    """What an engine leaves that was killed while it carried something out."""

    async def work(deps: Deps) -> None:
        name = idempotency.hash_key("operator", "POST", path, key)
        assert await IdempotencyKeys(deps, set()).begin(name, asked(body), repeatable=False) is None

    door.run(work)


def test_the_same_write_under_the_same_key_is_done_once_and_answered_alike(door: Door) -> None:
    path = f"/api/tokens/{made(door)}/revoke"
    first = keyed(door, path, {}, "k1")
    again = keyed(door, path, {}, "k1")
    assert (first.status, again.status) == (200, 200)
    assert first.data == again.data
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")
    assert keyed(door, path, {}, "k2").status == 404, "another key is another request, and there is nothing to revoke"
    assert door.post(path, {}).status == 404


def test_a_restart_forgets_no_key(tree: Tree) -> None:
    with listening(tree.root) as door:
        path = f"/api/tokens/{made(door)}/revoke"
        first = keyed(door, path, {}, "k1")
    with listening(tree.root) as door:
        again = keyed(door, path, {}, "k1")
    assert (again.status, again.data) == (200, first.data)


def test_a_key_is_good_for_one_request_alone(door: Door) -> None:
    assert keyed(door, "/api/tokens", TOKEN, "k").status == 201
    other = keyed(door, "/api/tokens", {**TOKEN, "agent_id": "other"}, "k")
    assert (other.status, other.code) == (409, "KEY_REUSED")
    assert keyed(door, f"{TASK}/comments", {}, "k").code != "KEY_REUSED", "another address is another request"
    assert keyed(door, "/api/tokens", TOKEN, "x" * 256).code == "FIELD_VALUE"
    assert keyed(door, "/api/tokens", TOKEN, "k", VIEWER).status == 403


def test_a_refusal_is_not_kept_because_nothing_was_done(door: Door) -> None:
    identity = made(door)
    assert keyed(door, "/api/tokens/unknown/revoke", {}, "k").status == 404
    assert keyed(door, "/api/tokens/unknown/revoke", {}, "k").status == 404
    assert keyed(door, f"/api/tokens/{identity}/revoke", {}, "k").status == 200
    bad = keyed(door, "/api/tokens", {"agent_id": "far"}, "b")
    assert bad.status == 422
    another = {**TOKEN, "token": "rem_another_that_is_long_enough"}
    assert keyed(door, "/api/tokens", another, "b").status == 201, "whoever corrects it may use the same key"


def test_what_was_begun_by_an_engine_that_died_is_in_doubt(door: Door) -> None:
    path = f"/api/tokens/{made(door)}/revoke"
    begun(door, path, {}, "k")
    answer = keyed(door, path, {}, "k")
    assert (answer.status, answer.code) == (409, "KEY_IN_DOUBT")
    assert "another key" in answer.json["hint"]
    assert keyed(door, path, {}, "k").code == "KEY_IN_DOUBT"
    assert keyed(door, path, {"other": 1}, "k").code == "KEY_REUSED"
    assert keyed(door, path, {}, "new").status == 200


def test_what_does_no_harm_is_repeated_when_it_is_in_doubt(door: Door) -> None:
    begun(door, "/api/tokens", TOKEN, "k")
    first, again = keyed(door, "/api/tokens", TOKEN, "k"), keyed(door, "/api/tokens", TOKEN, "k")
    assert (first.status, again.status, again.data) == (201, 201, first.data)
    assert again.headers["idempotency-replayed"] == "true"
    agents = [each for each in door.get("/api/tokens").json["tokens"] if each["role"] == "agent"]
    assert len(agents) == 2, "and that of the door"


def test_while_it_is_carried_out_nobody_else_begins_it(door: Door) -> None:
    going, may_end = threading.Event(), asyncio.Event()

    async def slow(_: str | None) -> TickReport:
        going.set()
        await may_end.wait()
        return TickReport(ran=1)

    door.runners["slow"] = slow
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(keyed, door, "/api/passes", {"part": "slow"}, "k")
        assert going.wait(300)
        answer = keyed(door, "/api/passes", {"part": "slow"}, "k")
        assert (answer.status, answer.code) == (409, "KEY_IN_USE")
        door.loop.call_soon_threadsafe(may_end.set)
        assert first.result(20).json["ran"] == 1
    assert keyed(door, "/api/passes", {"part": "slow"}, "k").json["ran"] == 1


def test_what_fails_on_the_way_may_be_tried_again(door: Door) -> None:
    tries: list[int] = []

    async def failing(_: str | None) -> TickReport:
        tries.append(1)
        raise RuntimeError("a fault of ours")

    door.runners["failing"] = failing
    assert [keyed(door, "/api/passes", {"part": "failing"}, "k").status for _ in range(2)] == [500, 500]
    assert len(tries) == 2
    paused = [keyed(door, "/api/plans/plan_shop/pause", {}, "k") for _ in range(2)]
    assert [each.code for each in paused] == ["ENGINE_UNREACHABLE"] * 2, "nothing was done, so it is not in doubt"


def test_an_answer_that_is_too_long_is_not_kept_but_that_it_was_done_is(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "LARGEST", 10)
    path = f"/api/tokens/{made(door)}/revoke"
    assert keyed(door, path, {}, "k").status == 200
    answer = keyed(door, path, {}, "k")
    assert answer.code == "KEY_IN_DOUBT"
    assert "answered with 200" in answer.json["detail"]


def test_keys_are_kept_for_a_day_and_not_more_than_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    (tmp_path / "agents").mkdir()

    async def work() -> None:
        async with open_root(tmp_path, clock=clock) as deps:
            held = IdempotencyKeys(deps, set())
            assert await held.begin("k", "a", repeatable=False) is None
            await held.end("k", 200, b"{}")
            clock.forward(24 * 3600 - 1)
            assert await held.begin("k", "a", repeatable=False) == (200, b"{}")
            clock.forward(2)
            assert await held.begin("k", "b", repeatable=False) is None, "it is forgotten"
            await held.end("k", 200, b"{}")
            monkeypatch.setattr(idempotency, "MOST", 3)
            for number in range(3):
                assert await held.begin(f"k{number}", "a", repeatable=False) is None
                await held.end(f"k{number}", 200, b"{}")
            assert await held.begin("k", "other", repeatable=False) is None, "it had to make way"
            with pytest.raises(ConflictError):
                await held.begin("k2", "other", repeatable=False)

    asyncio.run(work())


def test_only_a_post_is_repeatable_and_no_secret_is() -> None:
    repeatable = [route for route in ROUTES if route.repeatable]
    assert len(repeatable) > 15
    assert {route.method for route in repeatable} == {"POST"}
    assert [route.path for route in ROUTES if route.secret and route.repeatable] == []


def test_nothing_is_done_twice_or_lost_though_the_engine_is_killed(tree: Tree) -> None:
    answered = threading.Event()
    many = 32

    def say(url: str, number: int) -> int:
        """Say something under a key of its own; 0 when nobody answered."""
        where = urlsplit(url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=300)
        body = {"author": "operator", "comment_type": "general", "body": f"remark {number}"}
        token = operator_folder.token_of(tree.root)
        try:
            headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"remark-{number}"}
            connection.request("POST", f"{TASK}/comments", json.dumps(body), headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()
        if number >= many // 4:
            answered.set()
        return status

    def ready(url: str) -> bool:
        return say(url, 0) == 201

    with engine(tree.root, quick=True) as first, ThreadPoolExecutor(4) as pool:
        url = first.told["http"]
        until(lambda: ready(url), "the plan was read")
        sent = [pool.submit(say, url, number) for number in range(many)]
        assert answered.wait(300)
        first.ended(signal.SIGKILL)
        before = [each.result() for each in sent]
    assert set(before) <= {0, 201}
    with engine(tree.root, quick=True) as second:
        url = second.told["http"]
        assert [say(url, number) for number in range(many)] == [201] * many
        assert [say(url, number) for number in range(many)] == [201] * many

    async def said(folder: Path) -> list[str]:
        async with open_root(folder) as deps:
            store = await deps.stores.board("default")
            rows = await store.read(COMMENTS_OF, plan_id="plan_shop", task_id="build", after=0, limit=1_000)
            return [row[4] for row in rows]

    assert sorted(asyncio.run(said(tree.root))) == sorted(f"remark {number}" for number in range(many))
