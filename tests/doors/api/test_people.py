"""Questions to people over HTTP, and dead letters."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from agenttalk.contracts.human import HumanInterventionRequest
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages.router import Router
from agenttalk.engine.people import questions
from doors.api.doorkit import Door
from kits.treekit import Tree, question

PATH = "/api/human-requests/req_1"


@pytest.fixture
def sha256(door: Door) -> str:
    """A question was asked; its hash."""

    async def work(deps: Deps) -> None:
        store = await deps.stores.board("default")
        request = HumanInterventionRequest.from_json(question("req_1", for_whom="pm"))
        await store.transact(lambda tx: questions.ask(tx, request, plan_id="plan_shop", at=deps.stamp()))

    door.run(work)
    return str(door.get(PATH).json["sha256"])


def answer(sha256: str, **more: Any) -> dict[str, Any]:
    files = {"prices.csv": base64.b64encode(b"a;1\n").decode()}
    return {"decision": "PROVIDE", "files": files, "seen_sha256": sha256, "notes": "as of today", **more}


def test_an_operator_answers_what_was_shown_and_nothing_else(door: Door, sha256: str) -> None:
    assert [each["request"]["title"] for each in door.get("/api/human-requests").json["requests"]] == ["Which prices?"]
    blind = door.post(f"{PATH}/answer", {"decision": "APPROVE"})
    assert (blind.status, blind.json["problems"][0]["field"]) == (422, "seen_sha256")
    other = door.post(f"{PATH}/answer", answer("sha256:" + "0" * 64))
    assert (other.status, other.code) == (409, "ANSWER_REFUSED")
    given = door.post(f"{PATH}/answer", answer(sha256))
    assert (given.status, given.json["decision"], given.json["responder"]["name"]) == (200, "PROVIDE", "operator")
    assert given.json["provided_files"][0]["deliver_to_agent_id"] == "pm"
    assert door.get("/api/human-requests").json["requests"] == []
    assert door.get(PATH).json["state"] == "answered"


def test_no_agent_answers_for_a_person(door: Door, sha256: str) -> None:
    refused = door.post(f"{PATH}/answer", answer(sha256), door.leased())
    assert (refused.status, refused.code) == (403, "NOT_ALLOWED")
    assert door.get(PATH).json["state"] == "open"


def test_a_second_answer_is_refused_and_the_same_one_with_a_key_is_not(door: Door, sha256: str) -> None:
    key = {"Idempotency-Key": "k1"}
    first = door.post(f"{PATH}/answer", answer(sha256), headers=key)
    again = door.post(f"{PATH}/answer", answer(sha256), headers=key)
    assert (again.status, again.json) == (200, first.json)
    assert door.post(f"{PATH}/answer", answer(sha256)).code == "ANSWER_REFUSED"
    changed = door.post(f"{PATH}/answer", answer(sha256, notes="no"), headers=key)
    assert (changed.status, changed.code) == (409, "KEY_REUSED")


@pytest.mark.parametrize(
    "files", [{"prices.csv": "not base64!"}, {"../prices.csv": "QQ=="}, {"/etc/passwd": "QQ=="}, {"a": 1}, []]
)
def test_files_that_are_none_are_refused(door: Door, sha256: str, files: Any) -> None:
    refused = door.post(f"{PATH}/answer", answer(sha256, files=files))
    assert refused.status == 422
    assert door.get(PATH).json["state"] == "open"


def test_a_large_file_comes_with_an_answer(door: Door, sha256: str) -> None:
    files = {"prices.csv": base64.b64encode(b"x" * 3_000_000).decode()}
    assert door.post(f"{PATH}/answer", answer(sha256, files=files)).status == 200


def test_a_question_that_nobody_asked_is_told(door: Door) -> None:
    assert door.get(PATH).code == "NAME_UNKNOWN"
    assert door.post(f"{PATH}/answer", answer("sha256:" + "0" * 64)).status == 404


def test_dead_letters_are_listed_shown_and_replayed(door: Door, tree: Tree) -> None:
    tree.command("lead", "deploy")
    route = asyncio.Lock()

    async def work(deps: Deps) -> None:
        async with route:
            await Router(deps).pass_()

    door.run(work)
    [letter] = door.get("/api/deadletters").json["deadletters"]
    path = f"/api/deadletters/{letter['deadletter_id']}"
    assert letter["code"] == "TASK_NOT_IN_DAG"
    assert b"cmd_deploy_001" in base64.b64decode(door.get(path).json["content"])
    again = door.post(f"{path}/replay", {}).json
    assert (again["ok"], again["code"]) == (False, "TASK_NOT_IN_DAG")
    assert door.get("/api/deadletters/dl_none").code == "NAME_UNKNOWN"
    assert door.post("/api/deadletters/dl_none/replay", {}).status == 404


def test_the_status_tells_of_plans_questions_and_dead_letters(door: Door, sha256: str) -> None:
    assert sha256
    status = door.get("/api/status").json
    assert [each["plan_id"] for each in status["plans"]] == ["plan_shop"]
    assert (status["open_requests"], status["open_deadletters"]) == (1, 0)
    assert door.get("/api/fsck").json == {"faults": []}
    assert door.post("/api/republish", {}).status == 200
