"""Webhooks are only hints: what a forge shows decides, whatever was lost on the way."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import Code
from agenttalk.engine.operation.fsck import check_root
from agenttalk.rules.toolchain import deployments, reconciliation
from agenttalk.testing import ForgeFault
from engine.toolchain.kits.reconcilekit import REGISTRY, REPO, Scene, play

Deed = Callable[[Scene], None]


def asked_for_review(at: Scene) -> None:
    at.pull(reviewers=("agent-second",))


def left_to_the_default(at: Scene) -> None:
    at.pull(body="@agent-ops please look")


def changes_wanted(at: Scene) -> None:
    at.review(at.pull(), "REQUEST_CHANGES", "No. @agent-ops see this")


def approved(at: Scene) -> None:
    at.review(at.pull(), "APPROVED", "Fine.")


def remarked(at: Scene) -> None:
    at.review(at.pull(), "COMMENT", "Why so?")


def red(at: Scene) -> None:
    at.ran(at.pull(), good=False)


def assigned(at: Scene) -> None:
    at.edit(at.issue(body="@agent-second fyi").number, assignees=["agent-dev", "agent-ops"])


def called(at: Scene) -> None:
    at.comment(at.issue().number, "@agent-dev, @agent-second: can you look?")
    at.comment(at.pull().issue.number, "@agent-ops why is this red?")


def called_on_a_line(at: Scene) -> None:
    pull = at.pull(reviewers=("agent-second",))
    said = [{"path": "retry.py", "new_position": 1, "body": "@agent-ops, is this how we do it?"}]
    reviewer = at.user("agent-reviewer")
    at.forge.state.pulls.review(
        at.repository, reviewer, pull.issue.number, "APPROVED", "Fine, with one question.", "", said
    )


def not_deployed(at: Scene) -> None:
    at.push("main", "main\n")
    at.deployed(good=True, context="build")
    at.deployed(good=False)
    at.deployed(good=False, context="deploy / staging")


def much(at: Scene) -> None:
    pull = at.pull(reviewers=("agent-second",))
    at.push("retry", "y\n")
    at.ran(pull, good=False)
    at.review(pull, "REQUEST_CHANGES", "Still not.", who="alice")
    at.comment(pull.issue.number, "@agent-ops help, please")
    assigned(at)


OWED: dict[Deed, list[tuple[str, str]]] = {
    asked_for_review: [("review_request", "agent-second")],
    left_to_the_default: [("mention", "agent-ops"), ("review_request", "agent-reviewer")],
    changes_wanted: [("mention", "agent-ops"), ("review_result", "agent-dev")],
    approved: [("review_result", "agent-dev")],
    remarked: [("review_comment", "agent-dev")],
    red: [("ci_failure", "agent-dev"), ("review_request", "agent-reviewer")],
    assigned: [("issue_assigned", "agent-dev"), ("issue_assigned", "agent-ops"), ("mention", "agent-second")],
    called: [
        ("mention", "agent-dev"),
        ("mention", "agent-ops"),
        ("mention", "agent-second"),
        ("review_request", "agent-reviewer"),
    ],
    called_on_a_line: [
        ("mention", "agent-ops"),
        ("review_request", "agent-second"),
        ("review_result", "agent-dev"),
    ],
    not_deployed: [("deploy_failure", "agent-ops")],
    much: [
        ("ci_failure", "agent-dev"),
        ("issue_assigned", "agent-dev"),
        ("issue_assigned", "agent-ops"),
        ("mention", "agent-ops"),
        ("mention", "agent-second"),
        ("review_request", "agent-second"),
        ("review_result", "agent-dev"),
    ],
}


TOLD = [each for each in OWED if each is not called_on_a_line]
"""Gitea's webhooks do not show what is said on lines; only reading finds it."""


@pytest.mark.rest_but("much", "assigned", "red")
@pytest.mark.shows("T25", "T23")
@pytest.mark.parametrize("deed", OWED, ids=lambda deed: deed.__name__)
def test_a_lost_webhook_is_made_good_by_the_task_that_it_would_have_made(tmp_path: Path, deed: Deed) -> None:
    async def work(at: Scene) -> None:
        deed(at)
        before = await at.reconcile(dry_run=True)
        assert sorted((each["action_type"], each["assignee"]) for each in before["made"]) == OWED[deed]
        assert await at.live() == [], "a dry run changes nothing"
        found = await at.reconcile()
        assert (found["ok"], await at.live()) == (True, OWED[deed])
        assert [each["task"] for each in found["made"]] == [each["id"] for each in await at.tasks()]
        keys = await at.keys()
        again = await at.reconcile()
        assert again["made"] == again["closed"] == again["restored"] == []
        await at.told(lambda late: random.Random(5).sample(late, len(late)))
        assert await at.keys() == keys, "webhooks that come late make no second task"
        again = await at.reconcile()
        assert again["made"] == again["closed"] == again["restored"] == []
        assert await at.keys() == keys
        assert await check_root(at.deps) == []

    play(tmp_path / "scene", work)


@pytest.mark.rest_but("much")
@pytest.mark.shows("T25")
@pytest.mark.parametrize("deed", TOLD, ids=lambda deed: deed.__name__)
def test_what_webhooks_brought_is_not_made_again(tmp_path: Path, deed: Deed) -> None:
    async def work(at: Scene) -> None:
        deed(at)
        await at.told()
        keys = await at.keys()
        found = await at.reconcile()
        assert found["made"] == found["restored"] == []
        assert all(each["why"] == reconciliation.REVIEWED for each in found["closed"])
        named = {(kind.replace("updated", "request"), agent) for kind, agent in await at.live()}
        assert set(OWED[deed]) <= named, "a second look at a head is called otherwise, and is the same task"
        assert set(await at.keys()) <= set(keys)

    play(tmp_path / "scene", work)


def close(at: Scene, _: Any) -> None:
    at.edit(1, state="closed")


def merge(at: Scene, pull: Any) -> None:
    at.forge.state.pulls.merge(at.repository, at.user("root"), 1, pull.head_sha)


def unasked(at: Scene, pull: Any) -> None:
    at.request(pull, "agent-second", remove=True)


def pushed(at: Scene, _: Any) -> None:
    at.push("retry", "new\n")


def green(at: Scene, pull: Any) -> None:
    at.ran(pull, good=True)


def dismissed(_: Scene, pull: Any) -> None:
    pull.reviews[-1].dismissed = True


def by_hand(at: Scene, pull: Any) -> None:
    at.review(pull, "COMMENT", who="agent-second")


GONE: list[tuple[str, Callable[[Scene, Any], None], list[str], list[tuple[str, str]]]] = [
    ("review", close, ["the pull request is closed"], []),
    ("review", merge, ["the pull request is closed"], [("review_merged", "agent-dev")]),
    ("review", unasked, ["another reviewer is asked for the review"], [("review_request", "agent-reviewer")]),
    ("review", pushed, ["another task takes its place"], [("review_updated", "agent-second")]),
    ("review", by_hand, [reconciliation.REVIEWED], [("review_comment", "agent-dev")]),
    ("red", green, [reconciliation.GREEN], []),
    ("red", close, ["the pull request is closed"], []),
    ("red", pushed, ["there is a newer head"], []),
    ("changes", dismissed, [reconciliation.TAKEN_BACK], []),
    ("changes", close, ["the pull request is closed"], []),
]


@pytest.mark.rest_but("review-close-why0-left0", "red-green-why5-left5")
@pytest.mark.shows("T25")
@pytest.mark.parametrize(("what", "deed", "why", "left"), GONE, ids=lambda each: getattr(each, "__name__", None))
def test_a_task_whose_reason_is_gone_is_closed_with_it(
    tmp_path: Path, what: str, deed: Callable[[Scene, Any], None], why: list[str], left: list[tuple[str, str]]
) -> None:
    async def work(at: Scene) -> None:
        pull = at.pull(reviewers=("agent-second",))
        if what != "review":
            at.review(pull, "COMMENT", "Hm.", who="agent-second")
            at.comment(pull.issue.number, "Well.", who="agent-dev")
        if what == "changes":
            at.review(pull, "REQUEST_CHANGES", who="alice")
        elif what == "red":
            at.ran(pull, good=False)
        await at.reconcile()
        [task] = await at.tasks()
        at.lost()
        deed(at, pull)
        foreseen = await at.reconcile(dry_run=True)
        found = await at.reconcile()
        assert found["closed"] == foreseen["closed"]
        assert [(each["task"], each["why"]) for each in found["closed"]] == [(task["id"], why[0])]
        shown = (await at.tasks())[0]
        assert (shown["status"], shown["closed_why"]) == ("withdrawn", why[0])
        assert [each for each in await at.live() if each in left] == left
        await at.told()
        at.edit(1, title="Another title")
        await at.told()
        assert (await at.tasks())[0]["status"] == "withdrawn", "nothing that comes later brings it back"
        again = await at.reconcile()
        assert again["closed"] == again["made"] == again["restored"] == []
        assert await check_root(at.deps) == []

    play(tmp_path / "scene", work)


@pytest.mark.shows("T25")
def test_a_failed_deployment_is_closed_when_its_own_context_is_green(tmp_path: Path) -> None:
    async def work(at: Scene) -> None:
        at.push("main", "one\n")
        first = at.deployed(good=False)
        await at.reconcile()
        at.deployed(good=True, context="deploy / staging")
        assert (await at.reconcile())["closed"] == [], "something else was deployed"
        at.push("main", "two\n")
        assert (await at.reconcile())["closed"] == [], "nothing was"
        at.deployed(good=False, context="deploy / staging")
        found = await at.reconcile()
        assert [each["action_type"] for each in found["made"]] == ["deploy_failure"], "another commit, another task"
        at.deployed(good=True)
        foreseen = await at.reconcile(dry_run=True)
        found = await at.reconcile()
        assert found["closed"] == foreseen["closed"]
        one, two = await at.tasks()
        assert found["closed"] == [{"task": one["id"], "why": deployments.DEPLOYED}]
        assert (one["status"], two["status"]) == ("withdrawn", "pending")
        assert one["must_haves"]["context"]["commit_sha"] == first
        at.deployed(good=True, context="deploy / staging")
        assert [each["task"] for each in (await at.reconcile())["closed"]] == [two["id"]]
        at.deployed(good=False, context="deploy / staging")
        assert (await at.reconcile())["restored"] == [two["id"]]
        again = await at.reconcile()
        assert again["made"] == again["closed"] == again["restored"] == []
        assert await check_root(at.deps) == []

    play(tmp_path / "scene", work)


@pytest.mark.shows("T25")
def test_deployments_are_read_only_where_somebody_is_to_hear_of_them(tmp_path: Path) -> None:
    async def work(at: Scene) -> None:
        not_deployed(at)
        found = await at.reconcile()
        assert (found["ok"], found["made"]) == (True, [])
        assert not [each for each in at.forge.requests if "/branches/" in each]

    for number, registry in enumerate((replace(REGISTRY, ops=None), replace(REGISTRY, deploy_patterns=()))):
        play(tmp_path / str(number), work, registry=registry)


@pytest.mark.shows("T25")
def test_issues_that_are_closed_or_given_away_close_their_tasks(tmp_path: Path) -> None:
    async def work(at: Scene) -> None:
        numbers = [at.issue(f"Crash {each}", assignees=("agent-dev",)).number for each in range(3)]
        await at.reconcile()
        assert await at.live() == [("issue_assigned", "agent-dev")] * 3
        at.edit(numbers[0], state="closed")
        at.edit(numbers[1], assignees=["agent-ops"])
        found = await at.reconcile()
        assert [each["why"] for each in found["closed"]] == [
            "the issue is closed",
            "the issue is not assigned to the agent any more",
        ]
        assert await at.live() == [("issue_assigned", "agent-dev"), ("issue_assigned", "agent-ops")]
        at.edit(numbers[0], state="open")
        at.lost()
        assert len((await at.reconcile())["restored"]) == 1

    play(tmp_path / "scene", work)


@pytest.mark.shows("T25")
def test_what_is_called_for_again_is_done_after_all(tmp_path: Path) -> None:
    async def work(at: Scene) -> None:
        pull = at.pull(reviewers=("agent-second",))
        at.ran(pull, good=False)
        at.review(pull, "COMMENT", who="agent-second")
        at.comment(1, "I see.", who="agent-dev")
        await at.reconcile()
        at.ran(pull, good=True)
        at.lost()
        assert [each["why"] for each in (await at.reconcile())["closed"]] == [reconciliation.GREEN]
        at.ran(pull, good=False)
        await at.told()
        assert await at.live() == [("ci_failure", "agent-dev")], "red again, by its webhook"
        at.request(pull, "agent-second", remove=True)
        at.request(pull, "agent-second")
        await at.told()
        assert ("review_request", "agent-second") in await at.live(), "asked again, by name"

    play(tmp_path / "scene", work)


def test_what_was_answered_calls_nobody(tmp_path: Path) -> None:
    async def work(at: Scene) -> None:
        number = at.issue(body="@agent-ops please").number
        at.comment(number, "@agent-dev and @agent-second, why?")
        at.comment(number, "Because.", who="agent-dev")
        at.comment(number, "On it.", who="agent-ops")
        at.comment(number, "> @agent-dev why?\n\n`@agent-ops`")
        at.lost()
        await at.reconcile()
        assert await at.live() == [("mention", "agent-second")]
        at.comment(number, "@agent-dev once more")
        at.lost()
        await at.reconcile()
        assert await at.live() == [("mention", "agent-dev"), ("mention", "agent-second")]

    play(tmp_path / "scene", work)


@pytest.mark.shows("T25")
def test_a_forge_that_does_not_answer_closes_nothing(tmp_path: Path) -> None:
    async def work(at: Scene) -> None:
        for name in ("one", "two"):
            at.pull(name)
        at.issue(assignees=("agent-dev",))
        await at.reconcile()
        live = await at.live()
        for number in (1, 2, 3):
            at.edit(number, state="closed")
        async with at.forge.down():
            found = await at.reconcile()
        assert (found["ok"], found["closed"]) == (False, [])
        assert [each["code"] for each in found["errors"]] == [str(Code.FORGE_UNREACHABLE)]
        at.forge.faults.append(ForgeFault("status", path="/issues$", status=404, times=-1))
        found = await at.reconcile()
        assert ([each["where"] for each in found["errors"]], found["closed"]) == ([f"work:{REPO}"], [])
        at.forge.faults[:] = [ForgeFault("status", path="/pulls/1$", status=403, times=-1)]
        found = await at.reconcile()
        assert [each["where"] for each in found["errors"]] == [f"work:{REPO}#1"]
        assert len(found["closed"]) == 2, "what can be read is looked at"
        at.forge.faults.clear()
        assert len((await at.reconcile())["closed"]) == 1
        assert len(live) == 3
        assert await at.live() == []

    play(tmp_path / "scene", work)


@pytest.mark.shows("T25")
def test_a_forge_that_wants_to_be_left_alone_is(tmp_path: Path) -> None:
    async def work(at: Scene) -> None:
        at.pull()
        limit = ForgeFault("status", path="/pulls$", status=429, headers={"Retry-After": "600"}, times=1)
        at.forge.faults.append(limit)
        found = await at.reconcile()
        assert [each["code"] for each in found["errors"]] == [str(Code.FORGE_LIMITED)]
        asked = len(at.forge.requests)
        at.clock.later(599)
        assert not (await at.reconcile())["ok"]
        assert len(at.forge.requests) == asked, "nobody asks before the time has come"
        at.clock.later(2)
        assert (await at.reconcile())["ok"]
        assert await at.live() == [("review_request", "agent-reviewer")]
        at.forge.faults.append(ForgeFault("status", path="/pulls$", status=503, headers={"Retry-After": "0"}, times=1))
        assert (await at.reconcile())["ok"], "a short pause is waited for"

    play(tmp_path / "scene", work)


@pytest.mark.shows("T25")
def test_pages_are_read_to_their_end_and_the_past_costs_nothing(tmp_path: Path) -> None:
    async def work(at: Scene) -> None:
        for each in range(5):
            at.issue(f"Crash {each}", assignees=("agent-dev",))
        found = await at.reconcile()
        assert (len(found["made"]), found["things"]) == (5, 5)
        asked = len(at.forge.requests)
        await at.reconcile()
        cost = len(at.forge.requests) - asked
        for each in range(40):
            at.edit(at.issue(f"Old {each}", body="@agent-ops x", assignees=("agent-ops",)).number, state="closed")
        at.lost()
        asked = len(at.forge.requests)
        assert (await at.reconcile())["made"] == []
        assert len(at.forge.requests) - asked == cost

    play(tmp_path / "scene", work, page=2)


@pytest.mark.mends("E7", "E14")
@pytest.mark.parametrize("verdict", ["APPROVED", "REQUEST_CHANGES", "COMMENT"])
def test_who_had_a_say_without_being_asked_is_not_asked_by_what_the_forge_lists(tmp_path: Path, verdict: str) -> None:
    async def work(at: Scene) -> None:
        pull = at.pull(reviewers=("agent-second",))
        at.review(pull, verdict, who="agent-ops")
        shown = at.forge.shapes().pull(at.repository, pull)
        assert {each["login"] for each in shown["requested_reviewers"]} == {"agent-second", "agent-ops"}
        at.edit(1, title="Another title")
        await at.told()
        asked = [each for each in await at.live() if each[0].startswith("review_") and each[1] != "agent-dev"]
        assert asked == [("review_request", "agent-second")]
        await at.reconcile()
        asked = [each for each in await at.live() if each[0].startswith("review_") and each[1] != "agent-dev"]
        assert asked == [("review_request", "agent-second")]
        at.push("retry", "new\n")
        await at.told()
        asked = [each for each in await at.live() if each[0].startswith("review_") and each[1] != "agent-dev"]
        again = [("review_updated", "agent-ops")] if verdict != "COMMENT" else []
        assert asked == [*again, ("review_updated", "agent-second")], "who judged an older head looks again"

    play(tmp_path / "scene", work)
