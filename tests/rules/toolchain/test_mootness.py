"""A task that was not done: due, moot by others' hands, or waiting for others."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.forge import (
    Change,
    Comment,
    ForgeBranch,
    ForgeIssue,
    ForgeUser,
    PullRequest,
    Push,
    Review,
    Status,
)
from agenttalk.rules.toolchain import mootness, read_back
from agenttalk.rules.toolchain.forge_facts import ForgeFacts, ForgeQuery, UnreadError
from agenttalk.rules.toolchain.read_back import ReadBackOrder

REPO, HEAD, NEXT = "acme/widgets", "a" * 40, "b" * 40


def user(login: str) -> ForgeUser:
    return ForgeUser(source="work", login=login)


ME, OTHER = user("agent-dev"), user("alice")


def pull(**changes: Any) -> PullRequest:
    values: dict[str, Any] = {"number": 5, "author": ME, "head_sha": HEAD, "base_ref": "main", "mergeable": True}
    return PullRequest(**(values | changes))


def issue(**changes: Any) -> ForgeIssue:
    values: dict[str, Any] = {"number": 5, "author": OTHER, "assignees": (ME,)}
    return ForgeIssue(**(values | changes))


def review(verdict: str = "APPROVED", who: ForgeUser = OTHER, **changes: Any) -> Review:
    values: dict[str, Any] = {"verdict": verdict, "author": who, "commit": HEAD}
    return Review(**(values | changes))


def status(outcome: str, creator: ForgeUser | None = None) -> Status:
    return Status(sha=HEAD, outcome=outcome, context="ci", creator=creator)  # type: ignore[arg-type]


def stands(action: str, read: dict[str, Any], **context: Any) -> tuple[str, str]:
    """How a task stands, by what can be read: by the kind of what is looked for."""
    number = {"issue_number": 5} if action == "issue_assigned" else {"pr_number": 5}
    order = ReadBackOrder(action, ME, {"repo": REPO, **number, **context}, HEAD)
    found: dict[ForgeQuery, Any] = {}
    for _ in range(20):
        try:
            return tuple(mootness.judge_due_status(order, ForgeFacts(found)))  # type: ignore[return-value]
        except UnreadError as missing:
            found[missing.look] = read.get(missing.look.what)
    raise AssertionError("it asks for ever")


CLOSED = Change(what="closed", by=OTHER)
MINE = Change(what="closed", by=ME)


@pytest.mark.mends("E5")
@pytest.mark.parametrize(
    "action", ["review_request", "review_comment", "ci_failure", "merge_conflict", "review_result"]
)
def test_what_others_ended_is_moot_and_what_the_agent_ended_itself_is_due(action: str) -> None:
    given = {"result": "REQUEST_CHANGES", "reviewer": "alice"}
    merged: dict[str, Any] = {"is_open": False, "merged": True}
    assert stands(action, {"pull": None}, **given) == ("moot", f"{REPO}#5 was deleted")
    by_other = {"pull": pull(**merged, merged_by=OTHER)}
    assert stands(action, by_other, **given) == ("moot", f"{REPO}#5 was merged meanwhile, by alice")
    assert stands(action, {"pull": pull(**merged, merged_by=ME)}, **given)[0] == "due"
    gone = pull(is_open=False)
    assert stands(action, {"pull": gone, "changes": (MINE, CLOSED)}, **given)[1].endswith("by alice")
    assert stands(action, {"pull": gone, "changes": (CLOSED, MINE)}, **given)[0] == "due"
    assert stands(action, {"pull": gone}, **given)[0] == "due", "nobody knows who closed it"


@pytest.mark.mends("E5")
def test_a_red_head_is_over_when_it_is_green_by_others_word_or_not_the_head_any_more() -> None:
    green = {"pull": pull(), "statuses": (status("success", OTHER),)}
    assert stands("ci_failure", green) == ("moot", f"the build of {REPO}#5 is green again")
    assert stands("merge_conflict", green)[0] == "due"
    for statuses in ((), (status("success", ME),), (status("success"), status("failure"))):
        assert stands("ci_failure", {"pull": pull(), "statuses": statuses})[0] == "due"
    assert stands("ci_failure", {"pull": pull(head_sha=NEXT)})[0] == "moot"


@pytest.mark.mends("E5")
def test_a_review_that_does_not_hold_any_more_asks_for_nothing() -> None:
    given = {"result": "REQUEST_CHANGES", "reviewer": "Alice"}
    asked = {"pull": pull(), "reviews": (review("REQUEST_CHANGES"), review("COMMENT"))}
    assert stands("review_result", asked, **given)[0] == "due"
    for last in (review("APPROVED"), review("REQUEST_CHANGES", dismissed=True)):
        found = {"pull": pull(), "reviews": (review("REQUEST_CHANGES"), last)}
        assert stands("review_result", found, **given)[0] == "moot"
    assert stands("review_result", {"pull": pull()}, **given)[0] == "due", "nobody knows the review"
    mine = {"pull": pull(), "reviews": (review("REQUEST_CHANGES", dismissed=True),)}
    for by, kind in ((ME, "due"), (OTHER, "moot")):
        taken = {**mine, "changes": (CLOSED, Change(what="dismissed", by=by))}
        assert stands("review_result", taken, **given)[0] == kind


@pytest.mark.mends("E5")
@pytest.mark.parametrize(
    ("read", "kind", "why"),
    [
        ({}, "due", ""),
        ({"pull": pull(head_sha=NEXT)}, "moot", "newer head"),
        ({"pull": pull(draft=True, mergeable=False)}, "due", ""),
        ({"pull": pull(mergeable=False)}, "conflict", "conflicts with main"),
        ({"statuses": (status("other"),)}, "waits", "waits for ci"),
        ({"changes": (Change(what="scheduled", by=ME),)}, "waits", "scheduled"),
        ({"changes": (Change(what="scheduled", by=ME), Change(what="unscheduled", by=ME))}, "due", ""),
        ({"branch": ForgeBranch(name="main", approvals=2)}, "waits", "1 of the 2"),
        ({"branch": ForgeBranch(name="main", approvals=1)}, "due", ""),
        (
            {"branch": ForgeBranch(name="main", checked=True), "statuses": (status("failure"),)},
            "waits",
            "until ci is green",
        ),
        ({"branch": ForgeBranch(name="main"), "statuses": (status("failure"),)}, "due", ""),
    ],
)
def test_a_merge_waits_for_what_is_not_its_agents_to_do(read: dict[str, Any], kind: str, why: str) -> None:
    found = stands(
        "review_result", {"pull": pull(), "reviews": (review(),), **read}, result="APPROVED", reviewer="alice"
    )
    assert found[0] == kind
    assert why in found[1]


@pytest.mark.mends("E5")
def test_an_issue_is_over_when_others_closed_deleted_or_took_it() -> None:
    assert stands("issue_assigned", {"issue": issue()})[0] == "due"
    assert stands("issue_assigned", {"issue": None}) == ("moot", f"{REPO}#5 was deleted")
    closed = issue(is_open=False)
    assert stands("issue_assigned", {"issue": closed, "changes": (CLOSED,)})[0] == "moot"
    assert stands("issue_assigned", {"issue": closed, "changes": (MINE,)})[0] == "due"
    assert stands("issue_assigned", {"issue": closed})[0] == "due"
    taken = issue(assignees=(OTHER,))
    by_other = {"issue": taken, "changes": (Change(what="unassigned", by=OTHER, who=ME),)}
    assert stands("issue_assigned", by_other) == ("moot", f"{REPO}#5 was reassigned meanwhile, by alice")
    by_me = {"issue": taken, "changes": (Change(what="unassigned", by=ME, who=ME),)}
    assert stands("issue_assigned", by_me)[0] == "due"
    assert stands("issue_assigned", {"issue": taken})[0] == "due"


@pytest.mark.mends("E2")
def test_who_is_called_where_nothing_is_any_more_owes_nothing() -> None:
    assert stands("mention", {"issue": issue(is_open=False)})[0] == "due"
    assert stands("mention", {"issue": None})[0] == "moot"
    assert stands("deploy_failure", {})[0] == "due"


@pytest.mark.mends("E9")
def test_an_escalation_is_ended_by_saying_how_it_goes_on_and_closing_it() -> None:
    said = Comment(id=1, body="dev shall do it anew", author=ME, created_at="2026-05-01T10:01:00Z")

    def ends(comments: tuple[Comment, ...], *, is_open: bool, escalation: bool = True) -> bool:
        context = {"repo": REPO, "issue_number": 5, "escalation": escalation}
        order = ReadBackOrder("issue_assigned", ME, context, "", "2026-05-01T10:00:00Z")
        read = {"comments": comments, "issue": issue(is_open=is_open)}
        found: dict[ForgeQuery, Any] = {}
        for _ in range(20):
            try:
                return read_back.check_demand(order, ForgeFacts(found)).good
            except UnreadError as missing:
                found[missing.look] = read.get(missing.look.what)
        raise AssertionError("it asks for ever")

    assert ends((said,), is_open=False)
    assert not ends((said,), is_open=True)
    assert not ends((), is_open=False)
    assert not ends((said,), is_open=False, escalation=False)


@pytest.mark.mends("E8")
@pytest.mark.parametrize("action", ["ci_failure", "merge_conflict"])
def test_an_agent_ends_nothing_by_moving_the_head_itself(action: str) -> None:
    moved = {"pull": pull(head_sha=NEXT)}
    assert stands(action, {**moved, "pushes": (Push(by=ME, commits=(HEAD, NEXT)),)})[0] == "due"
    assert (
        stands(action, {**moved, "pushes": (Push(by=ME, commits=(HEAD,)), Push(by=OTHER, commits=(NEXT,)))})[0]
        == "moot"
    )
    assert stands(action, moved)[0] == "moot", "nobody knows who moved it"


def test_evidence_of_what_is_moot_says_why() -> None:
    found = read_back.make_moot_evidence("moot", "acme/widgets#1 was closed by ann", "2026-05-01T10:00:00Z")
    assert (found.id, found.passed, found.trust, found.detail) == (
        "moot",
        True,
        "observed",
        "acme/widgets#1 was closed by ann",
    )
