"""Whatever the order and however often: the same events come to the same tasks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.forge.test_intake import A, B, C, comment, issue_event, pr_event, ran, review, status
from adapters.forge.world import World, registry, run, user
from agenttalk.contracts.forge import ForgeEvent
from effort import cases

SECOND = (user("agent-second"),)


def story(asked: Any, *, draft_first: bool, ends: str) -> list[ForgeEvent]:
    """The life of a pull request and an issue, as a forge could tell it. Each moment is later than the one before."""
    events = [
        pr_event("pull_request_opened", 0, draft=draft_first, body="@agent-ops please see"),
        pr_event("pull_request_synced", 1, head=B, draft=draft_first),
        status(A),
        ran(B),
        ran(B, job="lint"),
    ]
    if draft_first:
        events.append(pr_event("pull_request_ready", 2, head=B))
    if asked:
        events.append(pr_event("review_requested", 3, head=B, requested_reviewers=asked, asks=asked[0].login))
    events += [
        review("COMMENT", 4, sender="agent-second", body="a thought", head_sha=B, requested_reviewers=asked),
        review("REQUEST_CHANGES", 5, sender="agent-second", body="no", head_sha=B, requested_reviewers=asked),
        review("APPROVED", 6, sender="agent-second", body="yes", head_sha=B, requested_reviewers=asked),
        comment("@agent-lead why?", number=1),
        comment("@agent-lead why? @agent-ops", number=1, name="comment_edited", body_before="@agent-lead why?"),
        issue_event("issue_opened", 0, "agent-dev"),
        issue_event("issue_assigned", 0, "agent-dev", "agent-ops"),
        status(C, context="Deploy"),
    ]
    if ends == "pushed":
        events.append(pr_event("pull_request_synced", 7, head=C, requested_reviewers=asked))
    if ends == "closed":
        events.append(pr_event("pull_request_closed", 7, head=B, is_open=False, requested_reviewers=asked))
    if ends == "reopened":
        events.append(pr_event("pull_request_closed", 7, head=B, is_open=False, requested_reviewers=asked))
        events.append(pr_event("pull_request_reopened", 8, head=B, requested_reviewers=asked))
    if ends == "merged":
        merged = {"is_open": False, "merged": True, "merged_by": user("alice"), "requested_reviewers": asked}
        events.append(pr_event("pull_request_merged", 7, head=B, sender="alice", **merged))
    if ends == "issue taken":
        events.append(issue_event("issue_unassigned", 5, "agent-ops"))
    return events


def told(world: World) -> list[tuple[str, str, str]]:
    """What is to be done. Whether a review is the first or a further one is only a matter of words."""
    return sorted(
        (
            "review" if each.action_type in {"review_request", "review_updated"} else each.action_type,
            each.assignee,
            each.head_sha,
        )
        for each in world.live()
    )


STORIES = [
    story(asked, draft_first=draft, ends=ends)
    for asked in ((), SECOND)
    for draft in (False, True)
    for ends in ("", "pushed", "closed", "reopened", "merged", "issue taken")
]


@pytest.mark.shows("T23")
@settings(max_examples=cases(40))
@given(st.sampled_from(STORIES), st.data())
def test_any_order_and_any_number_of_deliveries_come_to_the_same_tasks(
    events: list[ForgeEvent], data: st.DataObject
) -> None:
    expected = told(run(events))
    again = data.draw(st.lists(st.sampled_from(events), max_size=8))
    order = data.draw(st.permutations([*events, *again]))
    assert told(run(order)) == expected


@pytest.mark.shows("T23")
@settings(max_examples=cases(40))
@given(st.sampled_from(STORIES), st.data())
def test_no_key_is_held_twice_and_replays_after_the_work_make_nothing_new(
    events: list[ForgeEvent], data: st.DataObject
) -> None:
    world = run(data.draw(st.permutations(events)))
    for task in world.live():
        world.move(task.key, data.draw(st.sampled_from(["begun", "ended"])))
    before = world.outcome()
    for each in data.draw(st.lists(st.sampled_from(events), max_size=10)):
        world.see(each)
    assert world.outcome() == before
    keys = [each.key for each in world.live()]
    assert len(keys) == len(set(keys))


def test_the_stories_come_to_what_people_expect() -> None:
    base = run(story((), draft_first=False, ends=""))
    assert base.outcome() == [
        ("ci_failure", "agent-dev"),
        ("deploy_failure", "agent-ops"),
        ("issue_assigned", "agent-dev"),
        ("issue_assigned", "agent-ops"),
        ("mention", "agent-lead"),
        ("mention", "agent-ops"),
        ("mention", "agent-ops"),
        ("review_comment", "agent-dev"),
        ("review_result", "agent-dev"),
        ("review_updated", "agent-reviewer"),
    ]
    assert registry().default_reviewer == "agent-reviewer"
    merged = run(story(SECOND, draft_first=True, ends="merged")).outcome()
    assert [each for each in merged if each[0].startswith(("review", "ci"))] == [("review_merged", "agent-dev")]
