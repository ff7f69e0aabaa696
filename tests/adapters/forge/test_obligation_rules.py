"""Obligations: opened again, deleted, dismissed, renamed, by right, and how long agents keep each other busy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.forge.test_intake import A, B, at, comment, issue, issue_event, pr_event, ran, review
from adapters.forge.world import SOURCE, World, event, pull, registry, run, user
from agenttalk.contracts.forge import Change, Comment, ForgeEvent, ForgeIssue, Review
from agenttalk.rules.toolchain import dedup_keys, event_tasks, mention_tasks, reconciliation
from agenttalk.rules.toolchain.accounts import ForgeIdentity
from agenttalk.rules.toolchain.reconciliation import ForgeSnapshot

ENGINE = "<!-- agenttalk:task=tc-1 hop=1 by=engine -->"


def ended(world: World) -> World:
    """All that is to be done was done."""
    world.tasks = [
        each if each.state == "withdrawn" else replace(each, state="ended", done_at=at(0)) for each in world.tasks
    ]
    return world


def waiting(world: World) -> list[tuple[str, str]]:
    return sorted((each.action_type, each.assignee) for each in world.tasks if each.state == "waiting")


@pytest.mark.mends("E3")
@pytest.mark.parametrize("turned", [False, True])
def test_a_named_assignee_who_was_taken_off_and_assigned_again_owes_again(turned: bool) -> None:
    world = ended(run([issue_event("issue_opened", 0, "agent-dev")]))
    later = [
        issue_event("issue_unassigned", 3, assignee="agent-dev"),
        issue_event("issue_assigned", 4, "agent-dev", assignee="agent-dev"),
    ]
    for each in later[::-1] if turned else later:
        world.see(each)
    if turned:
        world.see(issue_event("issue_edited", 5, "agent-dev"))
    assert waiting(world) == [("issue_assigned", "agent-dev")]
    for each in later:
        world.see(each)
    assert len(world.tasks) == 2


@pytest.mark.mends("E3")
def test_a_review_that_failed_is_owed_again_when_it_is_asked_for_again_and_one_that_was_given_too() -> None:
    asks: dict[str, Any] = {"asks": "agent-second", "requested_reviewers": (user("agent-second"),)}
    world = run([pr_event("review_requested", 0, **asks)])
    world.tasks = [replace(each, state="ended") for each in world.tasks]
    world.see(pr_event("review_requested", 0, **asks))
    assert waiting(world) == []
    world.see(pr_event("review_requested", 2, **asks))
    assert waiting(world) == [("review_request", "agent-second")]
    ended(world)
    world.see(pr_event("review_requested", 3, **asks))
    assert waiting(world) == [], "it was not given since"
    world.see(pr_event("review_request_removed", 4, asks="agent-second"))
    world.see(pr_event("review_requested", 5, **asks))
    assert waiting(world) == [("review_request", "agent-second")]


@pytest.mark.mends("E2")
def test_what_was_deleted_is_owed_by_nobody() -> None:
    world = run([issue_event("issue_opened", 0, "agent-dev"), comment("@agent-ops please see")])
    world.see(issue_event("issue_deleted", 0, "agent-dev", is_open=False))
    assert waiting(world) == []
    world = run([pr_event("pull_request_opened", 0, body="@agent-ops please see")])
    assert len(waiting(world)) == 2
    world.see(pr_event("pull_request_deleted", 1, is_open=False))
    assert waiting(world) == []


@pytest.mark.mends("E12")
def test_a_review_that_was_dismissed_asks_for_nothing() -> None:
    world = run([pr_event("pull_request_opened", 0), review("REQUEST_CHANGES", 1, sender="agent-second")])
    assert ("review_result", "agent-dev") in waiting(world)
    taken = Review(verdict="REQUEST_CHANGES", author=user("agent-lead"), dismissed=True)
    shown = pull(updated_at=at(2))
    world.see(event("review_dismissed", pull_request=shown, review=taken))
    assert ("review_result", "agent-dev") in waiting(world), "it was another's"
    own = taken.model_copy(update={"author": user("agent-second")})
    world.see(event("review_dismissed", sender="agent-dev", pull_request=shown, review=own))
    assert ("review_result", "agent-dev") in waiting(world), "whoever has to act on it cannot take it back"
    world.see(event("review_dismissed", sender="alice", pull_request=shown, review=own))
    assert ("review_result", "agent-dev") not in waiting(world)
    assert world.see(event("review_dismissed")).ignored == "it shows no review of a pull request"


@pytest.mark.mends("E5")
def test_an_agent_does_not_end_by_closing_it_what_it_has_begun() -> None:
    world = run([issue_event("issue_opened", 0, "agent-dev")])
    world.tasks = [replace(each, state="begun", idle=True) for each in world.tasks]
    own = issue_event("issue_closed", 1, "agent-dev", sender="agent-dev", is_open=False)
    assert world.see(own).withdrawn == ()
    others = issue_event("issue_closed", 2, "agent-dev", sender="alice", is_open=False)
    assert [each.reason for each in world.see(others).withdrawn] == ["the issue is closed"]


@pytest.mark.parametrize("how", ["told", "read"])
def test_an_agent_does_not_end_by_leaving_it_what_it_has_begun(how: str) -> None:
    world = run([issue_event("issue_opened", 0, "agent-dev")])
    world.tasks = [replace(each, state="begun", idle=True) for each in world.tasks]
    off = issue_event("issue_unassigned", 1, sender="agent-dev")
    assert off.issue is not None
    if how == "told":
        assert world.see(off).withdrawn == ()
    else:
        left = Change(what="unassigned", by=user("agent-dev"), who=user("agent-dev"), at=at(1))
        found = ForgeSnapshot(off.source, "gitea", "acme/widgets", off.issue, changes=(left,))
        assert [each for decision in world.reconcile(found) for each in decision.withdrawn] == []
    assert world.see(issue_event("issue_edited", 2, sender="alice")).withdrawn == (), "nor by what is told later"
    world.see(issue_event("issue_assigned", 3, "agent-dev", sender="alice"))
    taken = world.see(issue_event("issue_unassigned", 4, sender="alice")).withdrawn
    assert [each.reason for each in taken] == ["the issue is not assigned to the agent any more"]


@pytest.mark.mends("E9")
def test_rounds_of_a_pull_request_between_agents_end_and_a_person_begins_them_anew() -> None:
    world = World(registry(rounds=2))
    world.see(pr_event("pull_request_opened", 0))
    hops = []
    for number in range(1, 8):
        ended(world)
        head = f"{number:040x}"
        before = f"{number - 1:040x}" if number > 1 else A
        world.see(review("REQUEST_CHANGES", 3 * number, sender="agent-reviewer", body=f"no {number}", head_sha=before))
        ended(world)
        world.see(pr_event("pull_request_synced", 3 * number + 1, head=head))
        hops.append([each.hop for each in world.tasks])
    assert max(hops[-1]) == 4, "nobody is called after two rounds"
    assert hops[-1] == hops[1]
    assert "FORGE_HOPS_EXCEEDED" in {str(each.code) for each in world.last.warnings}
    ended(world)
    world.see(
        comment(
            "@agent-reviewer go on, please",
            sender="alice",
            issue=issue(number=5, is_pull=True),
            pull_request=pull(head_sha=f"{7:040x}", updated_at=at(40)),
        )
    )
    ended(world)
    world.see(review("REQUEST_CHANGES", 45, sender="agent-reviewer", body="still no", head_sha=f"{7:040x}"))
    assert waiting(world) == [("review_result", "agent-dev")]


@pytest.mark.mends("E9")
@pytest.mark.parametrize(
    ("author", "body", "is_one"), [("root", ENGINE, True), ("root", "", False), ("eve", ENGINE, False)]
)
def test_only_what_the_engine_opened_is_an_escalation(author: str, body: str, is_one: bool) -> None:
    known = registry(engines={SOURCE: "root"})
    opened = issue_event("issue_opened", 0, "agent-lead", sender="alice", body=body, author=user(author))
    world = run([opened], known)
    [task] = [each for each in world.proposed.values() if each.action_type == "issue_assigned"]
    assert task.context["escalation"] is is_one


@pytest.mark.mends("F8")
def test_words_are_work_only_from_those_who_may_write_or_are_listed() -> None:
    strict = registry(callers={})

    def seen(said: ForgeEvent) -> Any:
        return event_tasks.decide(said, strict, World(strict).known(said))

    stranger = comment("@agent-dev please")
    assert "it is unknown whether it may write" in seen(stranger).ignored
    assert "no write access" in seen(stranger.model_copy(update={"writer": False})).ignored
    assert [each.action_type for each in seen(stranger.model_copy(update={"writer": True})).tasks] == ["mention"]
    assert [each.action_type for each in seen(comment("@agent-dev please", sender="agent-ops")).tasks] == ["mention"]
    assert (
        "an unknown account cannot call agents"
        in seen(comment("@agent-dev please").model_copy(update={"sender": None})).ignored
    )
    approved = review("APPROVED", sender="total-stranger")
    assert [each.action_type for each in seen(approved).tasks] == []
    listed = registry(callers={SOURCE: ("al*",)})
    assert not mention_tasks.asks_for_rights(stranger, listed)
    assert mention_tasks.asks_for_rights(stranger, strict)
    assert mention_tasks.asks_for_rights(approved, strict)
    for known in (
        comment("no name here"),
        comment("@agent-dev", sender="agent-ops"),
        pr_event("pull_request_closed", sender="alice"),
    ):
        assert not mention_tasks.asks_for_rights(known, strict)
    assert not mention_tasks.asks_for_rights(stranger, replace(strict, repositories=("other/*",)))
    ghost = user("alice", -1)
    assert not listed.may_call(ghost)


@pytest.mark.mends("E10")
def test_an_account_with_a_number_has_the_name_that_it_has_now() -> None:
    known = registry(identities=(ForgeIdentity("dev", SOURCE, "old", 7), ForgeIdentity("ops", SOURCE, "ops")))
    assert known.with_names(SOURCE, {}) is known
    assert known.with_names("other", {7: "new"}) is known
    now = known.with_names(SOURCE, {7: "new"})
    assert [now.find_identity(SOURCE, name) is not None for name in ("new", "old", "ops")] == [True, False, True]
    assert dedup_keys.user(user("New", 7)) == "7"
    keys = {dedup_keys.repository("s", 1), dedup_keys.repository_named("s", "A/B"), dedup_keys.accounts("s")}
    assert keys == {"s:repository:1", "s:repository_named:a/b", "s:accounts"}
    assert dedup_keys.repository_kept_as("s", "A/B") == "s:repository_kept_as:a/b"
    assert dedup_keys.escalations("s", "dev", "ci_failure") == "s:escalations:dev:ci_failure"


@pytest.mark.mends("E12")
def test_a_job_that_says_neither_workflow_nor_branch_is_no_deployment() -> None:
    assert run([ran(name="", job="deploy")]).outcome() == []
    assert run([ran(name="", job="deploy", branch="main")]).outcome() == [("deploy_failure", "agent-ops")]


def test_a_conflict_is_the_authors() -> None:
    context = {"repo": "acme/widgets", "pr_number": 5, "reviewer": "alice"}
    made = event_tasks.make_conflict_task(
        source="s", object_key="s:a/b#5", agent="dev", context=context, head_sha=A, at=at(1)
    )
    assert (made.action_type, made.assignee, made.key) == ("merge_conflict", "dev", f"s:a/b#5:merge_conflict:{A}")
    assert made.context == {"repo": "acme/widgets", "pr_number": 5}


@pytest.mark.mends("E3", "E2")
def test_a_look_at_the_forge_tells_who_closed_what_was_deleted_and_who_is_asked_again() -> None:
    known = registry()
    things = {
        "issue": ForgeIssue(number=9, author=user("alice"), assignees=(user("agent-dev"),), updated_at=at(9)),
        "closed": ForgeIssue(number=9, author=user("alice"), is_open=False, updated_at=at(9)),
    }
    changes = (
        Change(what="closed", by=user("eve"), at=at(3)),
        Change(what="unassigned", who=user("agent-dev"), at=at(4)),
        Change(what="assigned", at=at(5)),
    )
    [assigned, _] = reconciliation.make_events(
        ForgeSnapshot(SOURCE, "gitea", "acme/widgets", things["issue"], changes=changes), known
    )
    assert assigned.freed == {"": at(3), "agent-dev": at(4)}
    [gone] = reconciliation.make_events(
        ForgeSnapshot(SOURCE, "gitea", "acme/widgets", things["closed"], changes=changes), known
    )
    assert gone.sender == user("eve")
    for is_pull, name in ((True, "pull_request_deleted"), (False, "issue_deleted")):
        left = reconciliation.make_deleted_thing(SOURCE, 9, pull=is_pull, at=at(9))
        [deleted] = reconciliation.make_events(
            ForgeSnapshot(SOURCE, "gitea", "acme/widgets", left, deleted=True), known
        )
        assert deleted.name == name
    again = pull(requested_reviewers=(user("agent-second"),), reviewed_by=(user("agent-second"),))
    given = Review(verdict="APPROVED", author=user("agent-second"), commit=A, submitted_at=at(1))
    events = reconciliation.make_events(ForgeSnapshot(SOURCE, "gitea", "acme/widgets", again, reviews=(given,)), known)
    [asked] = [each for each in events if each.name == "review_requested"]
    assert asked.freed == {"agent-second": at(1)}


@pytest.mark.mends("F8")
def test_those_are_looked_up_who_call_or_review_and_are_not_known() -> None:
    known = registry(callers={})
    thing = ForgeIssue(number=9, author=user("eve"), body="@agent-dev now")
    said = (Comment(id=1, body="@agent-ops", author=user("alice")), Comment(id=2, body="fine", author=user("bob")))
    reviews = (Review(verdict="APPROVED", author=user("carol")), Review(verdict="APPROVED", author=user("agent-dev")))
    found = ForgeSnapshot(SOURCE, "gitea", "acme/widgets", thing, comments=said, reviews=reviews)
    assert reconciliation.list_callers(found, known) == ["alice", "eve", "carol"]
    assert reconciliation.list_callers(replace(found, comments=None, reviews=()), known) == ["eve"]
    assert B != A
