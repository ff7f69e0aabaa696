"""What was deleted calls nobody: comments and whole repositories, in whatever order that is told."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from adapters.forge.test_intake import A, at, comment, issue, issue_event, status
from adapters.forge.world import SOURCE, World, event, registry, run, user
from agenttalk.contracts.forge import Comment
from agenttalk.rules.toolchain import dedup_keys, event_tasks
from agenttalk.rules.toolchain.proposal import ForgeKnowledge
from agenttalk.rules.toolchain.reconciliation import UNSAID, ForgeSnapshot, find_settled_tasks

CALL = "@agent-second please"


@pytest.mark.mends("E2")
def test_a_deleted_comment_calls_nobody_in_whatever_order_it_is_told() -> None:
    opened = issue_event("issue_opened", 0)
    said, kept = comment(CALL), comment("@agent-ops please", number=302)
    gone = comment(CALL, name="comment_deleted")
    for order in permutations([said, kept, gone, gone]):
        assert run([opened, *order]).outcome() == [("mention", "agent-ops")]
    unseen = comment(CALL, name="comment_deleted", issue=issue(is_pull=True))
    assert run([unseen]).outcome() == [], "a thing that was never seen"


@pytest.mark.mends("E2")
@pytest.mark.parametrize("how", ["begun", "itself"])
def test_a_call_stays_when_it_was_begun_or_the_called_one_deleted_it(how: str) -> None:
    world = run([issue_event("issue_opened", 0), comment(CALL)])
    [task] = world.tasks
    if how == "begun":
        world.tasks = [replace(task, state="begun", idle=True)]
    gone = comment(CALL, name="comment_deleted").model_copy(
        update={"sender": user("agent-second" if how == "itself" else "alice")}
    )
    assert world.see(gone).withdrawn == ()


@pytest.mark.mends("E2")
def test_a_deleted_repository_ends_what_others_than_its_deleter_have_to_do() -> None:
    world = run(
        [issue_event("issue_opened", 0, "agent-dev", sender="alice"), comment(CALL), status(A, context="deploy")]
    )
    known = ForgeKnowledge(tasks=tuple(world.tasks))
    deleted = event("repository_deleted", sender="alice")
    ended = event_tasks.decide(deleted, registry(), known).withdrawn
    assert len(ended) == 3
    assert {each.reason for each in ended} == {"the repository acme/widgets was deleted"}
    looked = event_tasks.decide(deleted.model_copy(update={"first_hand": True, "sender": None}), registry(), known)
    assert {"may not see it any more" in each.reason for each in looked.withdrawn} == {True}
    own = event_tasks.decide(event("repository_deleted", sender="agent-second"), registry(), known)
    assert len(own.withdrawn) == 2
    late = event_tasks.decide(comment(CALL), registry(), ForgeKnowledge(gone=True))
    assert (late.tasks, late.ignored) == ((), "the repository was deleted")


@pytest.mark.mends("E2")
def test_a_look_at_the_forge_finds_comments_that_are_gone() -> None:
    body = issue_event("issue_opened", 0, sender="alice", body="@agent-ops see")
    world: World = run([body, comment(CALL), comment("@agent-lead?", number=302)])
    there = Comment(id=302, body="@agent-lead?", author=user("alice"), created_at=at(1))
    found = ForgeSnapshot(SOURCE, "gitea", "acme/widgets", issue(), comments=(there,))
    over = find_settled_tasks(found, world.tasks, registry())
    assert [(dedup_keys.comment_of(key), why) for key, why in over.items()] == [("comment-301", UNSAID)]
    assert find_settled_tasks(replace(found, comments=None), world.tasks, registry()) == {}
    closed = replace(found, thing=issue(is_open=False), comments=())
    assert find_settled_tasks(closed, world.tasks, registry()) == {}


def test_keys_tell_their_repository_and_comment() -> None:
    issue_key, commit = dedup_keys.object_of("s:1", "A/B", 5), dedup_keys.commit_of("s:1", "A/B", A)
    assert (issue_key, commit) == ("s%3A1:a/b#5", f"s%3A1:a/b@{A}")
    assert [dedup_keys.repository_in(each) for each in (issue_key, commit, "s:x:y", "s")] == ["a/b", "a/b", "", ""]
    assert dedup_keys.repository_gone("s", "A/B") == "s:repository_gone:a/b"
    assert dedup_keys.comment_of("s:mention:a/b:5-body:dev") == ""
