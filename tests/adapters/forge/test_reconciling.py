"""What a forge shows ↔ tasks: one to one, whatever webhooks came before, in between or afterwards."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.forge.test_intake import A, B, at, issue, issue_event, pr_event, status
from adapters.forge.test_intake import comment as told_comment
from adapters.forge.test_intake import review as told_review
from adapters.forge.world import SOURCE, World, pull, registry, user
from agenttalk.contracts.forge import Change, Comment, ForgeEvent, ForgeIssue, PullRequest, Review, Status
from agenttalk.rules.toolchain import dedup_keys
from agenttalk.rules.toolchain.accounts import CiComment, is_single_repository
from agenttalk.rules.toolchain.reconciliation import GREEN, REVIEWED, TAKEN_BACK, ForgeSnapshot
from effort import cases

PEOPLE = ("agent-reviewer", "agent-second", "alice")
_REVIEW = {"review_request", "review_updated"}


def given_review(verdict: str, who: str = "alice", minute: int = 5, **changes: Any) -> Review:
    values = {"author": user(who), "body": "words", "commit": A, "submitted_at": at(minute)}
    return Review(verdict=verdict, **(values | changes))  # type: ignore[arg-type]


def said(body: str, who: str = "alice", number: int = 1, minute: int = 5) -> Comment:
    return Comment(id=number, body=body, author=user(who), created_at=at(minute))


def ran(*outcomes: str, context: str = "CI {} (pull_request)") -> tuple[Status, ...]:
    return tuple(
        Status(sha=A, outcome=each, context=context.format(number))  # type: ignore[arg-type]
        for number, each in enumerate(outcomes)
    )


def shown(thing: PullRequest | ForgeIssue, **parts: Any) -> ForgeSnapshot:
    return ForgeSnapshot(SOURCE, "gitea", "acme/widgets", thing, **parts)


# A forge at any moment, and the webhooks that could have told of it


logins = st.sampled_from(PEOPLE)
reviews = st.lists(
    st.builds(
        given_review,
        st.sampled_from(["APPROVED", "REQUEST_CHANGES", "COMMENT"]),
        logins,
        st.integers(1, 9),
        commit=st.sampled_from([A, B]),
        dismissed=st.booleans(),
        body=st.sampled_from(["no", "@agent-ops please", ""]),
    ),
    max_size=4,
).map(lambda found: tuple(sorted(found, key=lambda each: each.submitted_at)))
comments = st.lists(
    st.tuples(
        st.sampled_from(["@agent-ops why?", "@agent-dev @agent-second see", "@nobody", "well"]),
        st.sampled_from([*PEOPLE, "agent-ops", "agent-dev"]),
    ),
    max_size=4,
).map(lambda found: tuple(said(text, who, 10 + at, at) for at, (text, who) in enumerate(found)))
statuses = st.lists(st.sampled_from(["success", "failure", "other"]), max_size=3).map(lambda found: ran(*found))
pulls = st.builds(
    lambda asked, **changes: pull(requested_reviewers=tuple(user(each) for each in asked), updated_at=at(9), **changes),
    st.lists(logins, unique=True, max_size=2),
    draft=st.booleans(),
    body=st.sampled_from(["", "@agent-second please"]),
)
open_pulls = st.builds(shown, pulls, reviews=reviews, comments=comments | st.none(), statuses=statuses)
webhooks = st.lists(
    st.sampled_from([
        pr_event("pull_request_opened", 0),
        pr_event("pull_request_opened", 0, body="@agent-second please", requested_reviewers=(user("agent-second"),)),
        pr_event("pull_request_synced", 1, head=B),
        pr_event("review_requested", 2, requested_reviewers=(user("agent-second"),), asks="agent-second"),
        pr_event("pull_request_edited", 9),
        pr_event("pull_request_closed", 4, is_open=False),
        pr_event("pull_request_reopened", 9),
        told_review("REQUEST_CHANGES", 5, sender="alice", body="no"),
        told_review("APPROVED", 6, sender="alice", body="no"),
        status(A),
    ]),
    max_size=6,
)  # fmt: skip


def owed(found: ForgeSnapshot) -> Counter[tuple[str, str]]:
    """What somebody has to do about an open pull request, written down as plainly as can be."""
    thing = found.thing
    assert isinstance(thing, PullRequest)
    count: Counter[tuple[str, str]] = Counter()
    on_head = [each for each in found.reviews if each.commit == A and not each.dismissed]
    reviewed = {each.author.login for each in on_head}
    asked = [each.login for each in thing.requested_reviewers or ()] or ["agent-reviewer"]
    if not thing.draft:
        count += Counter(("review", each) for each in asked if each not in reviewed and each.startswith("agent-"))
    newest = {each.author.login: each for each in found.reviews if each.verdict != "COMMENT" and not each.dismissed}
    count += Counter(("review_result", "agent-dev") for each in newest.values() if each.commit == A)
    if any(each.outcome == "failure" for each in found.statuses):
        count[("ci_failure", "agent-dev")] = 1
    return count


@pytest.mark.shows("T25")
@settings(max_examples=cases(150))
@given(open_pulls, webhooks, webhooks)
def test_every_open_obligation_has_one_task_whatever_came_before_and_comes_late(
    found: ForgeSnapshot, before: list[ForgeEvent], late: list[ForgeEvent]
) -> None:
    world = World(registry())
    for each in before:
        world.see(each)
    world.reconcile(found)
    for each in late:
        world.see(each)
    world.reconcile(found)
    first = [(each.key, each.state) for each in world.tasks]
    again = world.reconcile(found)
    assert [(each.key, each.state) for each in world.tasks] == first, "looking twice changes nothing"
    assert not any(each.tasks or each.withdrawn or each.restored for each in again)
    live = [each for each in world.live() if each.head_sha in {A, ""} or each.action_type == "review_result"]
    named: Counter[tuple[str, str]] = Counter(
        ("review" if each.action_type in _REVIEW else each.action_type, each.assignee) for each in live
    )
    for what, number in owed(found).items():
        assert named[what] >= 1, f"{what} has a task"
        if what[0] != "review_result":
            assert named[what] == number
    if found.statuses and all(each.outcome == "success" for each in found.statuses):
        assert ("ci_failure", "agent-dev") not in named
    keys = [each.key for each in world.tasks]
    assert len(keys) == len(set(keys))


@pytest.mark.shows("T25")
@settings(max_examples=cases(60))
@given(open_pulls, st.booleans(), st.data())
def test_what_has_begun_is_never_cut_off(found: ForgeSnapshot, merged: bool, data: st.DataObject) -> None:
    world = World(registry())
    world.reconcile(found)
    moved = {each.key: data.draw(st.sampled_from(["begun", "ended"])) for each in world.live()}
    for key, state in moved.items():
        world.move(key, state)
    world.reconcile(shown(pull(is_open=False, merged=merged, updated_at=at(20))))
    assert {each.key: each.state for each in world.tasks if each.key in moved} == moved


def test_what_is_over_is_withdrawn_with_its_reason() -> None:
    world = World(registry())
    start = pull(requested_reviewers=(user("agent-second"),))
    no = given_review("REQUEST_CHANGES")
    world.reconcile(shown(start, reviews=(no,), statuses=ran("failure")))
    assert world.outcome() == [
        ("ci_failure", "agent-dev"),
        ("review_request", "agent-second"),
        ("review_result", "agent-dev"),
    ]
    done = given_review("COMMENT", "agent-second", body="")
    taken = no.model_copy(update={"dismissed": True})
    itself = Change(what="dismissed", by=user("agent-dev"))
    world.reconcile(shown(start, reviews=(taken,), statuses=ran("failure"), comments=None, changes=(itself,)))
    assert ("review_result", "agent-dev") in world.outcome(), "who has to act on a review cannot take it back"
    now = shown(start, reviews=(taken, done), statuses=ran("success", "success"), comments=None)
    gone = [each for decision in world.reconcile(now) for each in decision.withdrawn]
    assert sorted(each.reason for each in gone) == sorted([GREEN, REVIEWED, TAKEN_BACK])
    assert world.outcome() == []


@pytest.mark.parametrize("outcomes", [(), ("other",), ("success", "other")], ids=str)
def test_a_head_that_nobody_calls_green_stays_red(outcomes: tuple[str, ...]) -> None:
    world = World(registry())
    world.reconcile(shown(pull(), statuses=ran("failure")))
    world.reconcile(shown(pull(), statuses=ran(*outcomes)))
    assert ("ci_failure", "agent-dev") in world.outcome()


def test_a_failed_deployment_is_nothing_that_a_pull_request_shows() -> None:
    world = World(registry())
    world.reconcile(shown(pull(), statuses=ran("failure", context="deploy {}")))
    assert world.outcome() == [("review_request", "agent-reviewer")]


def test_the_minutes_of_a_review_do_not_make_two_of_it() -> None:
    """A webhook tells when the pull request changed, the API when the review was handed in: a moment before."""
    given_ = given_review("REQUEST_CHANGES", minute=5, body="no")
    late = told_review("REQUEST_CHANGES", 6, sender="alice", body="no")
    early = World(registry())
    early.see(late)
    early.reconcile(shown(pull(updated_at=at(6)), reviews=(given_,)))
    afterwards = World(registry())
    afterwards.reconcile(shown(pull(updated_at=at(6)), reviews=(given_,)))
    afterwards.see(late)
    for world in (early, afterwards):
        assert [kind for kind, _ in world.outcome()].count("review_result") == 1
    odd = given_.model_copy(update={"submitted_at": "at noon"})
    assert dedup_keys.neighbour_review_keys(late, pull(), odd) == ()


def test_an_issue_is_looked_at_like_a_pull_request() -> None:
    world = World(registry())
    taken = issue(1, "agent-dev", "alice", body="@agent-ops and @agent-second: please")
    world.reconcile(shown(taken, comments=(said("Did so.", "agent-ops"),)))
    assert world.outcome() == [("issue_assigned", "agent-dev"), ("mention", "agent-second")]
    assert world.last.warnings == (), "nobody is told again that alice is no agent"
    world.reconcile(shown(issue(2, is_open=False)))
    assert world.outcome() == [("mention", "agent-second")], "who was called answers all the same"


def test_who_took_an_issue_is_not_told_of_it() -> None:
    world = World(registry())
    world.see(issue_event("issue_assigned", 1, "agent-dev", sender="agent-dev"))
    world.reconcile(shown(issue(1, "agent-dev")))
    assert world.outcome() == []


def test_what_was_not_read_calls_nobody() -> None:
    world = World(registry())
    body = "@agent-ops please"
    world.reconcile(shown(pull(body=body), comments=None, reviews=(given_review("COMMENT", body=body),)))
    assert world.outcome() == [("review_request", "agent-reviewer")]


def test_a_ci_service_speaks_by_statuses_here() -> None:
    ci = CiComment(SOURCE, "*failed*", "ci-bot")
    world = World(registry(ci_comments=(ci,)))
    world.reconcile(shown(pull(), comments=(said("@agent-dev the build failed", "ci-bot"),)))
    assert world.outcome() == [("review_request", "agent-reviewer")]


def test_first_hand_news_holds_against_what_was_told_of_the_same_moment() -> None:
    """Some forges do not note the time when somebody is no longer asked."""
    world = World(registry())
    world.see(pr_event("review_requested", 1, requested_reviewers=(user("agent-second"),), asks="agent-second"))
    assert world.outcome() == [("review_request", "agent-second")]
    world.reconcile(shown(pull(updated_at=at(1))))
    assert world.outcome() == [("review_request", "agent-reviewer")]
    world.reconcile(shown(pull(updated_at=at(0), requested_reviewers=(user("agent-ops"),))))
    assert world.outcome() == [("review_request", "agent-reviewer")], "what is older is not news"


def test_what_was_found_to_be_done_is_called_for_again_by_its_own_event_only() -> None:
    world = World(registry())
    asked = (user("agent-second"),)
    world.see(pr_event("pull_request_opened", 0, requested_reviewers=asked))
    world.see(status(A))
    found = shown(
        pull(requested_reviewers=asked),
        reviews=(given_review("COMMENT", "agent-second", body=""),),
        comments=None,
        statuses=ran("success"),
    )
    world.reconcile(found)
    assert world.outcome() == []
    world.see(pr_event("pull_request_edited", 2, requested_reviewers=asked))
    world.see(told_comment("nothing", pull_request=pull(requested_reviewers=asked, updated_at=at(2))))
    assert world.outcome() == []
    world.see(status(A))
    assert world.outcome() == [("ci_failure", "agent-dev")]
    world.see(pr_event("review_requested", 3, requested_reviewers=asked, asks="agent-second"))
    assert world.outcome() == [("ci_failure", "agent-dev"), ("review_request", "agent-second")]
    world.see(pr_event("pull_request_edited", 4, requested_reviewers=asked))
    assert world.outcome() == [("ci_failure", "agent-dev"), ("review_request", "agent-second")]


def test_names_of_things_are_read_from_their_keys() -> None:
    key = dedup_keys.object_of("a:b%", "Acme/Widgets", 7)
    assert dedup_keys.read_object(key) == ("a:b%", "acme/widgets", 7)
    for other in (dedup_keys.commit_of("work", "acme/widgets", A), "work:outage:1#2", "plain", "work:a/b#x"):
        assert dedup_keys.read_object(other) is None
    assert is_single_repository("acme/widgets")
    assert not any(map(is_single_repository, ("acme/*", "acme", "a/b/c", "ac[m]e/w", "a/?")))


def test_names_of_nobody_in_a_text_do_not_hide_that_an_agent_was_called() -> None:
    world = World(registry())
    world.reconcile(shown(issue(body="@nobody-known and @agent-ops, please"), comments=()))
    assert world.outcome() == [("mention", "agent-ops")]
    answered = World(registry())
    answered.reconcile(
        shown(issue(body="@nobody-known and @agent-ops, please"), comments=(said("Done.", who="agent-ops"),))
    )
    assert answered.outcome() == []
