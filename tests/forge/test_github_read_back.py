"""What agents did is read back from GitHub as from the others: answers as its API writes them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from agenttalk.contracts.forge import ForgeUser
from agenttalk.forge.client import Caller
from agenttalk.forge.github import GitHub
from agenttalk.forge.read_back import answered
from agenttalk.rules.forge_facts import Answer
from agenttalk.rules.read_back import Order, demanded

OLD, NEW = "a" * 40, "b" * 40
SINCE, BEFORE, AFTER = "2026-05-02T10:00:00Z", "2026-05-02T09:59:59Z", "2026-05-02T10:20:00Z"
DEV, OTHER = {"id": 7, "login": "Agent-Dev"}, {"id": 8, "login": "somebody"}
ACCOUNT = ForgeUser(source="hub", login="agent-dev")
Answers = dict[str, Any]


def pull(**more: Any) -> dict[str, Any]:
    at = {"created_at": AFTER, "updated_at": AFTER}
    head, base = {"ref": "fix", "sha": NEW, "repo": {"id": 1}}, {"ref": "main", "sha": OLD, "repo": {"id": 1}}
    return {
        "number": 5,
        "user": DEV,
        "title": "x",
        "body": "",
        "state": "open",
        "head": head,
        "base": base,
        **at,
        **more,
    }


def review(**more: Any) -> dict[str, Any]:
    return {"id": 1, "user": DEV, "state": "APPROVED", "body": "", "commit_id": NEW, "submitted_at": AFTER, **more}


def seen(action: str, answers: Answers, *, head: str = NEW, number: str = "pr_number", **context: Any) -> Answer:
    """What is found at a GitHub that has these answers, by their paths, and nothing else."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        path = request.url.path.removeprefix("/repos/acme/shop/")
        if path not in answers:
            return httpx2.Response(404, json={"message": "Not Found"})
        return httpx2.Response(200, json=answers[path])

    async def scene() -> Answer:
        transport = httpx2.MockTransport(answer)
        async with httpx2.AsyncClient(transport=transport, base_url="https://api.forge.test/") as client:
            order = Order(action, ACCOUNT, {"repo": "acme/shop", number: 5, **context}, head, SINCE)
            return await answered(GitHub("hub", Caller(client)), lambda facts: demanded(order, facts))

    return asyncio.run(scene())


@pytest.mark.shows("T19")
@pytest.mark.parametrize(
    ("given", "good"),
    [
        (review(), True),
        (review(state="CHANGES_REQUESTED"), True),
        (review(state="COMMENTED"), False),
        (review(state="DISMISSED"), False),
        (review(state="PENDING", submitted_at=None), False),
        (review(user=OTHER), False),
        (review(submitted_at=BEFORE), False),
        (review(commit_id=OLD), False),
    ],
)
@pytest.mark.parametrize("action", ["review_request", "review_updated"])
def test_a_review_counts_on_its_head_after_the_event_by_its_account(
    action: str, given: dict[str, Any], *, good: bool
) -> None:
    assert seen(action, {"pulls/5": pull(), "pulls/5/reviews": [review(user=OTHER), given]}).good is good


@pytest.mark.parametrize(
    ("given", "good"),
    [
        (pull(state="closed", merged=True, merged_by=DEV), True),
        (pull(state="closed", merged=True, merged_by=OTHER), False),
        (pull(state="closed", merged=True, merged_by=DEV, head={"sha": OLD}), False),
        (pull(state="closed", merged=False), False),
        (pull(), False),
    ],
)
def test_an_approved_pull_request_is_merged_by_its_author_at_the_approved_head(
    given: dict[str, Any], *, good: bool
) -> None:
    assert seen("review_result", {"pulls/5": given}, result="APPROVED").good is good


@pytest.mark.parametrize(
    ("commits", "good"),
    [
        ([{"sha": NEW, "author": DEV, "committer": DEV}], True),
        ([{"sha": NEW, "author": None, "committer": None}], True),  # an address that no account has
        ([{"sha": NEW, "author": OTHER, "committer": OTHER}], False),
        ([], False),
    ],
)
@pytest.mark.parametrize(("action", "result"), [("review_result", "REQUEST_CHANGES"), ("ci_failure", None)])
def test_changes_are_a_new_head_that_is_not_only_others(
    action: str, result: str | None, commits: list[Any], *, good: bool
) -> None:
    answers = {"pulls/5": pull(), f"compare/{OLD}...{NEW}": {"commits": commits, "files": []}}
    assert seen(action, answers, head=OLD, result=result).good is good
    assert not seen(action, {"pulls/5": pull(head={"sha": OLD})}, head=OLD, result=result).good


@pytest.mark.parametrize(
    ("given", "good"),
    [
        (pull(number=9, title="Mend it, closes #5"), True),
        (pull(number=9, body="acme/shop#5", state="closed"), True),
        (pull(number=9, title="#55"), False),
        (pull(number=9, title="#5", user=OTHER), False),
        (pull(number=9, title="#5", created_at=BEFORE), False),
    ],
)
def test_an_issue_is_carried_out_by_a_pull_request_that_names_it(given: dict[str, Any], *, good: bool) -> None:
    assert seen("issue_assigned", {"pulls": [given]}, number="issue_number").good is good


def test_only_newer_pull_requests_are_read() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        page = [pull(number=9), pull(number=3, updated_at=BEFORE)]
        return httpx2.Response(200, json=page, headers={"Link": '<https://api.forge.test/next>; rel="next"'})

    async def scene() -> list[int]:
        transport = httpx2.MockTransport(answer)
        async with httpx2.AsyncClient(transport=transport, base_url="https://api.forge.test/") as client:
            found = await GitHub("hub", Caller(client)).pull_requests_since("acme/shop", SINCE)
            return [each.number for each in found]

    assert (asyncio.run(scene()), len(asked)) == ([9], 1)
    assert {"state=all", "sort=updated", "direction=desc"} <= set(asked[0].partition("?")[2].split("&"))


@pytest.mark.parametrize(("by", "at", "good"), [(DEV, AFTER, True), (OTHER, AFTER, False), (DEV, BEFORE, False)])
def test_a_call_is_answered_by_a_comment_of_whoever_was_called(by: dict[str, Any], at: str, *, good: bool) -> None:
    comment = {"id": 3, "user": by, "body": "Forty.", "created_at": at}
    answers = {"issues/5/comments": [comment]}
    assert seen("mention", answers, number="issue_number", intent_hint="question").good is good


@pytest.mark.parametrize("as_check", [True, False])
@pytest.mark.parametrize(
    ("outcome", "at", "good"),
    [("success", AFTER, True), ("success", BEFORE, False), ("failure", AFTER, False), (None, AFTER, False)],
)
def test_a_deployment_is_mended_by_a_later_success_of_its_context(
    outcome: str | None, at: str, *, good: bool, as_check: bool
) -> None:
    runs = [{"name": "deploy", "conclusion": outcome, "completed_at": at}] if as_check else []
    statuses = [] if as_check else [{"context": "deploy", "state": outcome, "updated_at": at}]
    answers = {"commits/main/status": {"statuses": statuses}, "commits/main/check-runs": {"check_runs": runs}}
    assert seen("deploy_failure", answers, head="", deploy_context="deploy", branch="main").good is good
