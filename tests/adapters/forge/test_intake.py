"""Events → tasks: who gets which, and that it is one, in whatever order they come."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from adapters.forge.world import World, event, pull, registry, run, user
from agenttalk.contracts.errors import Code
from agenttalk.contracts.forge import Comment, Deployment, ForgeEvent, ForgeIssue, Repository, Review, Run, Status
from agenttalk.contracts.toolchain import PipelineResult
from agenttalk.rules.toolchain import dedup_keys, event_tasks, sightings
from agenttalk.rules.toolchain.accounts import CiComment, ForgeIdentity
from agenttalk.rules.toolchain.mentions import Marker, write_marker
from agenttalk.rules.toolchain.proposal import ForgeKnowledge

A, B, C = "a" * 40, "b" * 40, "c" * 40


def at(minute: int) -> str:
    return f"2026-05-01T10:{minute:02}:00Z"


def pr_event(name: str, minute: int = 0, *, head: str = A, sender: str = "agent-dev", **changes: Any) -> ForgeEvent:
    asked = changes.pop("asks", None)
    parts = {} if asked is None else {"requested_reviewer": user(asked)}
    return event(name, sender=sender, pull_request=pull(head_sha=head, updated_at=at(minute), **changes), **parts)


def review(
    verdict: str, minute: int = 1, *, sender: str = "agent-reviewer", body: str = "", **changes: Any
) -> ForgeEvent:
    given = Review(verdict=verdict, author=user(sender), body=body, submitted_at=at(minute))  # type: ignore[arg-type]
    return event(
        "review_submitted",
        sender=sender,
        pull_request=pull(updated_at=at(minute), **changes),
        review=given,
        at=at(minute),
    )


def issue(minute: int = 0, *assignees: str, **changes: Any) -> ForgeIssue:
    values: dict[str, Any] = {"number": 9, "title": "Crash", "author": user("alice"), "updated_at": at(minute)}
    return ForgeIssue(**(values | {"assignees": tuple(map(user, assignees))} | changes))


def issue_event(name: str, minute: int, *assignees: str, sender: str = "alice", **changes: Any) -> ForgeEvent:
    parts = {"assignee": user(changes.pop("assignee"))} if "assignee" in changes else {}
    before = changes.pop("body_before", None)
    return event(name, sender=sender, issue=issue(minute, *assignees, **changes), body_before=before, **parts)


def comment(
    body: str, *, sender: str = "alice", number: int = 301, name: str = "comment_created", **parts: Any
) -> ForgeEvent:
    said = Comment(id=number, body=body, author=user(sender), url="https://git.example.test/c")
    return event(name, sender=sender, comment=said, **({"issue": issue()} | parts))


def status(
    sha: str = A, context: str = "CI / test (pull_request)", outcome: str = "failure", **parts: Any
) -> ForgeEvent:
    seen = Status(sha=sha, outcome=outcome, context=context)  # type: ignore[arg-type]
    return event("status_changed", sender="gitea-actions", status=seen, **parts)


def ran(sha: str = A, **changes: Any) -> ForgeEvent:
    return event("run_finished", run=Run(**({"sha": sha, "outcome": "failure", "name": "CI"} | changes)))


# Who reviews


@pytest.mark.shows("T03")
def test_who_is_asked_reviews_and_else_the_default() -> None:
    asked = run([pr_event("pull_request_opened", requested_reviewers=(user("agent-second"),))])
    assert asked.outcome() == [("review_request", "agent-second")]
    assert run([pr_event("pull_request_opened")]).outcome() == [("review_request", "agent-reviewer")]


@pytest.mark.mends("E7")
@pytest.mark.parametrize(
    ("shown", "called"),
    [
        ({"reviewed_by": (user("alice"),)}, []),
        ({"reviewed_by": (user("agent-second"),)}, []),
        ({"reviewed_before": (user("agent-second"),)}, [("review_updated", "agent-second")]),
        ({"reviewed_before": (user("alice"),)}, []),
        ({"reviewed_before": (user("agent-dev"), user("agent-second"))}, [("review_updated", "agent-second")]),
        ({"remarked_by": (user("agent-second"),)}, []),
        ({"remarked_by": (user("alice"),)}, [("review_updated", "agent-reviewer")]),
        ({"requested_reviewers": (user("agent-ops"),)}, [("review_updated", "agent-ops")]),
    ],
)
def test_who_has_had_a_say_is_not_asked_and_who_only_remarked_is_no_reviewer(
    shown: dict[str, Any], called: list[tuple[str, str]]
) -> None:
    world = World(registry())
    world.see(pr_event("pull_request_synced", 1, **shown))
    assert world.outcome() == called


def test_the_default_reviewer_never_reviews_its_own_work() -> None:
    world = run([pr_event("pull_request_opened", sender="alice", author=user("agent-reviewer"))])
    assert world.outcome() == []
    assert world.last.warnings == ()


def test_an_author_who_is_asked_does_not_review() -> None:
    world = run([pr_event("pull_request_opened", sender="alice", requested_reviewers=(user("agent-dev"),))])
    assert world.outcome() == [("review_request", "agent-reviewer")]


@pytest.mark.shows("T14")
def test_an_assignee_who_is_no_agent_gets_no_task_and_is_named_in_a_warning() -> None:
    events = [
        pr_event("pull_request_opened", requested_reviewers=(user("mallory"),)),
        review("APPROVED", author=user("mallory")),
        issue_event("issue_assigned", 0, "mallory"),
        pr_event("pull_request_merged", is_open=False, merged=True, author=user("mallory"), sender="alice"),
    ]
    for each in events:
        world = run([each])
        assert world.outcome() == []
        assert [problem.code for problem in world.last.warnings] == [Code.FORGE_ASSIGNEE_UNKNOWN]
        assert "mallory" in world.last.warnings[0].message


@pytest.mark.shows("T14")
def test_what_is_for_somebody_who_is_not_configured_is_a_warning() -> None:
    nobody = registry(default_reviewer=None, ops=None)
    for each in (pr_event("pull_request_opened"), status(context="Deploy")):
        assert [problem.code for problem in run([each], nobody).last.warnings] == [Code.FORGE_ASSIGNEE_UNKNOWN]


def test_one_who_asks_themselves_gets_no_task() -> None:
    assert run([pr_event("review_requested", sender="agent-second", asks="agent-second")]).outcome() == []


@pytest.mark.shows("T23")
def test_opened_and_review_requested_come_to_one_task_in_either_order() -> None:
    opened, asked = pr_event("pull_request_opened"), pr_event("review_requested", asks="agent-second")
    for order in permutations([opened, asked, opened, asked]):
        assert run(order).outcome() == [("review_request", "agent-second")]


def test_a_default_review_that_has_begun_goes_on_beside_the_one_that_is_asked_for() -> None:
    world = run([pr_event("pull_request_opened")])
    world.move(world.tasks[0].key, "begun")
    world.see(pr_event("review_requested", 1, asks="agent-second"))
    assert world.outcome() == [("review_request", "agent-reviewer"), ("review_request", "agent-second")]


def test_whoever_is_no_longer_asked_has_nothing_to_do_and_the_default_takes_over() -> None:
    events = [
        pr_event("pull_request_opened", 0),
        pr_event("review_requested", 1, asks="agent-second"),
        pr_event("review_request_removed", 2, asks="agent-second"),
    ]
    for order in permutations(events):
        assert run(order).outcome() == [("review_request", "agent-reviewer")]


def test_a_list_that_the_forge_does_not_send_withdraws_nothing() -> None:
    asked = pr_event("review_requested", 1, asks="agent-second")
    edited = pr_event("pull_request_edited", 2, requested_reviewers=None)
    assert run([asked, edited]).outcome() == [("review_request", "agent-second")]


def test_new_commits_call_the_reviewer_again_for_the_new_head_only() -> None:
    opened, pushed = pr_event("pull_request_opened"), pr_event("pull_request_synced", 1, head=B)
    for order in permutations([opened, pushed, pushed]):
        world = run(order)
        assert [(each.action_type, each.head_sha) for each in world.live()] == [("review_updated", B)]


def test_after_a_review_new_commits_call_its_reviewer_and_whoever_is_asked() -> None:
    world = run([pr_event("pull_request_opened", requested_reviewers=(user("agent-second"),))])
    world.move(world.tasks[0].key, "ended")
    world.see(pr_event("pull_request_synced", 1, head=B, requested_reviewers=(user("agent-reviewer"),)))
    assert world.outcome()[1:] == [("review_updated", "agent-reviewer"), ("review_updated", "agent-second")]
    world.see(pr_event("pull_request_edited", 2, head=B, requested_reviewers=(user("agent-reviewer"),)))
    assert len(world.live()) == 3


def test_a_reviewer_who_pushes_is_not_asked_to_review_that() -> None:
    world = run([pr_event("pull_request_opened")])
    world.move(world.tasks[0].key, "ended")
    world.see(pr_event("pull_request_synced", 1, head=B, sender="agent-reviewer"))
    assert len(world.live()) == 1


def test_an_earlier_reviewer_who_became_the_author_or_left_is_not_asked() -> None:
    for configured in (registry("agent-dev", "agent-reviewer"), registry()):
        world = run([pr_event("pull_request_opened", requested_reviewers=(user("agent-second"),))])
        world.move(world.tasks[0].key, "ended")
        world.registry = configured
        author = user("agent-second" if configured == registry() else "agent-dev")
        world.see(pr_event("pull_request_synced", 1, head=B, author=author))
        assert world.outcome()[1:] == [("review_updated", "agent-reviewer")]


def test_drafts_call_nobody_until_they_are_ready() -> None:
    opened = pr_event("pull_request_opened", 0, draft=True)
    pushed = pr_event("pull_request_synced", 1, head=B, draft=True)
    ready = pr_event("pull_request_ready", 2, head=B)
    assert run([opened, pushed]).outcome() == []
    for order in permutations([opened, pushed, ready]):
        assert run(order).outcome() == [("review_request", "agent-reviewer")]


def test_what_becomes_a_draft_or_is_closed_takes_back_what_has_not_begun() -> None:
    changes: dict[str, dict[str, Any]] = {
        "pull_request_drafted": {"draft": True},
        "pull_request_closed": {"is_open": False},
    }
    for name, change in changes.items():
        opened, over = pr_event("pull_request_opened"), pr_event(name, 1, **change)
        for order in permutations([opened, over]):
            assert run(order).outcome() == []
        world = run([opened])
        world.move(world.tasks[0].key, "begun")
        world.see(over)
        assert world.outcome() == [("review_request", "agent-reviewer")]


def test_what_is_opened_again_is_asked_for_again() -> None:
    opened = pr_event("pull_request_opened", 0)
    closed = pr_event("pull_request_closed", 1, is_open=False)
    again = pr_event("pull_request_reopened", 2)
    for order in permutations([opened, closed, again]):
        assert run(order).outcome() == [("review_request", "agent-reviewer")]
    assert run([again]).outcome() == []


def test_a_fork_is_marked_as_untrusted() -> None:
    world = run([pr_event("pull_request_opened", fork=True)])
    assert next(iter(world.proposed.values())).context["fork"] is True
    world = run([pr_event("pull_request_opened")])
    assert next(iter(world.proposed.values())).context["fork"] is False


# Results of reviews


@pytest.mark.shows("T03")
@pytest.mark.parametrize(
    ("verdict", "action"),
    [("APPROVED", "review_result"), ("REQUEST_CHANGES", "review_result"), ("COMMENT", "review_comment")],
)
def test_a_review_is_its_authors_work_once(verdict: str, action: str) -> None:
    world = run([review(verdict, body="see below")] * 3)
    assert world.outcome() == [(action, "agent-dev")]
    context = next(iter(world.proposed.values())).context
    assert (context["result"], context["reviewer"], context["review_body"]) == (verdict, "agent-reviewer", "see below")


def test_a_review_of_what_is_closed_waits_however_often_it_is_told() -> None:
    given, closed = review("REQUEST_CHANGES", 1), pr_event("pull_request_closed", 5, is_open=False)
    for order in permutations([given, closed, given]):
        world = run(order)
        assert world.outcome() == []
    world.see(pr_event("pull_request_reopened", 6))
    assert world.outcome() == [("review_result", "agent-dev")]


def test_two_reviews_that_say_something_else_are_two() -> None:
    world = run([review("REQUEST_CHANGES", 1, body="a"), review("REQUEST_CHANGES", 2, body="b")])
    assert len(world.live()) == 2


def test_a_reviewer_who_changes_the_verdict_takes_the_other_one_back() -> None:
    for first, then in (("APPROVED", "REQUEST_CHANGES"), ("REQUEST_CHANGES", "APPROVED")):
        for order in permutations([review(first, 1), review(then, 2)]):
            world = run(order)
            assert [each.verdict for each in world.live()] == [then]
    for order in permutations([review("APPROVED", 1), review("REQUEST_CHANGES", 1)]):
        assert [each.verdict for each in run(order).live()] == ["REQUEST_CHANGES"]


def test_an_approval_of_an_older_head_merges_nothing() -> None:
    pushed = pr_event("pull_request_synced", 5, head=B, requested_reviewers=(user("alice"),))
    for order in permutations([review("APPROVED", 1), pushed]):
        assert run(order).outcome() == []
    for order in permutations([review("REQUEST_CHANGES", 1), pushed]):
        assert run(order).outcome() == [("review_result", "agent-dev")]


def test_a_review_of_what_is_merged_calls_for_nothing() -> None:
    merged = pr_event("pull_request_merged", 5, is_open=False, merged=True, sender="alice", merged_by=user("alice"))
    for order in permutations([review("APPROVED", 1), merged]):
        assert run(order).outcome() == [("review_merged", "agent-dev")]


def test_who_merges_their_own_work_needs_no_notice() -> None:
    merged = pr_event("pull_request_merged", 5, is_open=False, merged=True)
    assert run([merged]).outcome() == []
    world = run([pr_event("pull_request_merged", 5, is_open=False, merged=True, sender=None)])  # type: ignore[arg-type]
    assert world.outcome() == [("review_merged", "agent-dev")]
    assert next(iter(world.proposed.values())).context["merged_by"] == ""


def test_a_name_in_a_review_is_called_unless_it_is_the_author() -> None:
    world = run([review("COMMENT", body="@agent-dev and @agent-ops, please look")])
    assert world.outcome() == [("mention", "agent-ops"), ("review_comment", "agent-dev")]


# Red heads and deployments


@pytest.mark.shows("T03", "T23")
def test_a_red_head_is_one_task_however_many_jobs_are_red() -> None:
    opened = pr_event("pull_request_opened", requested_reviewers=(user("alice"),))
    events = [opened, status(), status(context="lint"), ran(), ran(job="test")]
    for order in permutations(events):
        assert run(order).outcome() == [("ci_failure", "agent-dev")]


def test_a_failure_waits_for_its_pull_request_and_says_what_to_look_up() -> None:
    world = run([status()])
    assert (world.outcome(), world.last.held) == ([], True)
    assert [(each.sha, each.number) for each in world.last.lookups] == [(A, None)]
    assert run([ran(pulls=(5,))]).last.lookups[0].number == 5


def test_a_head_that_is_no_longer_the_newest_calls_for_nothing() -> None:
    asked: dict[str, Any] = {"requested_reviewers": (user("alice"),)}
    opened = pr_event("pull_request_opened", 0, **asked)
    pushed = pr_event("pull_request_synced", 1, head=B, **asked)
    for order in permutations([opened, pushed, status(A)]):
        assert run(order).outcome() == []
    assert run([opened, pushed, ran(A, pulls=(5,))]).last.ignored == "the commit is not the head any more"


def test_a_closed_pull_requests_head_calls_for_nothing() -> None:
    closed = pr_event("pull_request_closed", 1, is_open=False)
    for order in permutations(
        [pr_event("pull_request_opened", requested_reviewers=(user("alice"),)), closed, status()]
    ):
        assert run(order).outcome() == []
    assert run([closed, status()]).last.held
    merged = pr_event("pull_request_merged", 1, is_open=False, merged=True)
    assert run([merged, status()]).last.ignored == "the pull request is closed"
    again = pr_event("pull_request_reopened", 2, requested_reviewers=(user("alice"),))
    for order in permutations([closed, status(), again, review("REQUEST_CHANGES", 1)]):
        assert run(order).outcome() == [("ci_failure", "agent-dev"), ("review_result", "agent-dev")]


def test_a_run_that_brings_its_pull_request_along_waits_for_nothing() -> None:
    brought = event("run_finished", sender=None, pull_request=pull(), run=Run(sha=A, outcome="failure", pulls=(5,)))
    assert run([brought]).outcome() == [("ci_failure", "agent-dev")]
    stale = event("run_finished", sender=None, pull_request=pull(head_sha=B), run=Run(sha=A, outcome="failure"))
    assert run([stale]).outcome() == []


def test_a_persons_red_head_is_told_to_operators_only() -> None:
    world = run([pr_event("pull_request_opened", author=user("alice"), requested_reviewers=(user("bob"),)), status()])
    assert world.outcome() == []
    assert [each.code for each in world.last.warnings] == [Code.FORGE_ASSIGNEE_UNKNOWN]


def test_the_author_of_a_red_head_gets_it_even_when_they_ran_it() -> None:
    opened = pr_event("pull_request_opened", requested_reviewers=(user("alice"),))
    assert run([opened, ran()]).outcome() == [("ci_failure", "agent-dev")]


def test_nothing_follows_from_what_is_green_or_only_ended() -> None:
    opened = pr_event("pull_request_opened", requested_reviewers=(user("alice"),))
    for outcome in ("success", "other"):
        assert run([opened, status(outcome=outcome), ran(outcome=outcome)]).outcome() == []


@pytest.mark.shows("T03")
@pytest.mark.parametrize(
    "failed",
    [
        status(context="Deploy / production (push)"),
        ran(name="x", file=".gitea/workflows/DEPLOY.yml", trigger="push"),
        ran(job="deploy it"),
        event("deployment_changed", deployment=Deployment(sha=A, outcome="failure", environment="production")),
    ],
)
def test_a_failed_deployment_is_the_work_of_who_runs_things(failed: ForgeEvent) -> None:
    world = run([failed, failed])
    assert world.outcome() == [("deploy_failure", "agent-ops")]
    assert next(iter(world.proposed.values())).context["commit_sha"] == A


@pytest.mark.shows("T23")
def test_a_deployment_that_fails_again_after_its_task_was_done_is_a_new_one() -> None:
    def failed(minute: int, place: str = "production") -> ForgeEvent:
        deployment = Deployment(sha=A, outcome="failure", environment=place)
        return event("deployment_changed", at=at(minute), deployment=deployment)

    world = run([failed(0), failed(0), failed(1, "staging")])
    assert [each.key.rpartition(":")[2] for each in world.tasks] == ["production", "staging"]
    for minute in (3, 6):  # done at this minute, the newest of production's alone
        world.tasks = [
            replace(each, state="ended", done_at=at(minute)) if "production" in each.key and not each.done_at else each
            for each in world.tasks
        ]
        before = len(world.tasks)
        for old in (failed(minute - 1), failed(minute), failed(2, "staging")):
            world.see(old)
        assert len(world.tasks) == before, "what is told late is old news"
        for new in (failed(minute + 1), failed(minute + 2), failed(minute - 2)):
            world.see(new)
        assert len(world.tasks) == before + 1
    assert not world.see(failed(0)).tasks


def test_a_deployment_that_is_only_tried_in_a_pull_request_is_a_red_head() -> None:
    opened = pr_event("pull_request_opened", requested_reviewers=(user("alice"),))
    for failed in (status(context="deploy (pull_request)"), ran(name="deploy", trigger="pull_request_target")):
        assert run([opened, failed]).outcome() == [("ci_failure", "agent-dev")]


def test_pipelines_without_webhooks_report_the_same() -> None:
    def told(kind: str, outcome: str = "failure") -> ForgeEvent:
        result = PipelineResult(kind=kind, repository="acme/widgets", sha=A, outcome=outcome, name="night", url="u")  # type: ignore[arg-type]
        return event_tasks.make_pipeline_event("work", result, at=at(3))

    opened = pr_event("pull_request_opened", requested_reviewers=(user("alice"),))
    assert run([opened, told("ci"), status()]).outcome() == [("ci_failure", "agent-dev")]
    assert run([told("deploy")]).outcome() == [("deploy_failure", "agent-ops")]
    assert run([opened, told("ci", "success"), told("deploy", "success")]).outcome() == []


def test_a_services_comment_says_that_a_head_is_red() -> None:
    configured = registry(ci_comments=(CiComment("work", "*build failed*", "ci-bot"),))
    opened = pr_event("pull_request_opened", requested_reviewers=(user("alice"),))
    on_pull: dict[str, Any] = {"issue": issue(number=5, is_pull=True)}
    told = comment("Build failed: 3 tests\n@agent-ops", sender="ci-bot", **on_pull)
    assert run([opened, told, status()], configured).outcome() == [("ci_failure", "agent-dev")]
    assert run([opened, comment("Build failed", sender="mallory", **on_pull)], configured).outcome() == []
    world = run([told], configured)
    assert (world.outcome(), world.last.held, world.last.lookups[0].number) == ([], True, 5)
    closed = pr_event("pull_request_closed", 1, is_open=False)
    assert run([closed, told], configured).outcome() == []
    with_pull = comment("build failed", sender="ci-bot", pull_request=pull(), issue=None)
    assert run([with_pull], configured).outcome() == [("ci_failure", "agent-dev")]
    edited = comment("build failed", sender="ci-bot", name="comment_edited", **on_pull)
    assert run([opened, edited], configured).outcome() == []


# Issues


@pytest.mark.shows("T03", "T23")
def test_an_issue_that_is_opened_and_assigned_is_one_task_in_either_order() -> None:
    opened, assigned = issue_event("issue_opened", 0, "agent-dev"), issue_event("issue_assigned", 0, "agent-dev")
    for order in permutations([opened, assigned, assigned, opened]):
        assert run(order).outcome() == [("issue_assigned", "agent-dev")]


def test_each_assignee_gets_the_issue_once() -> None:
    first, second = (
        issue_event("issue_assigned", 0, "agent-dev"),
        issue_event("issue_assigned", 0, "agent-ops", "agent-dev"),
    )
    for order in permutations([first, second]):
        assert run(order).outcome() == [("issue_assigned", "agent-dev"), ("issue_assigned", "agent-ops")]


def test_where_the_forge_says_who_was_added_only_they_are_told() -> None:
    event_ = issue_event("issue_assigned", 0, "agent-dev", "agent-ops", assignee="agent-ops")
    assert run([event_]).outcome() == [("issue_assigned", "agent-ops")]


def test_who_takes_an_issue_needs_no_task_even_when_others_join() -> None:
    taken = issue_event("issue_assigned", 0, "agent-dev", sender="agent-dev")
    joined = issue_event("issue_assigned", 1, "agent-dev", "agent-ops")
    assert run([taken]).outcome() == []
    assert run([taken, joined]).outcome() == [("issue_assigned", "agent-ops")]
    left, given = issue_event("issue_unassigned", 2), issue_event("issue_assigned", 3, "agent-dev")
    assert run([taken, left, given]).outcome() == [("issue_assigned", "agent-dev")]
    by_name = issue_event("issue_assigned", 0, "agent-dev", sender="agent-dev", assignee="agent-dev")
    assert run([by_name]).outcome() == []


def test_an_issue_that_is_taken_away_or_closed_is_nobodys_until_it_is_given_again() -> None:
    given = issue_event("issue_assigned", 0, "agent-dev")
    changes: dict[str, dict[str, Any]] = {"issue_unassigned": {}, "issue_closed": {"is_open": False}}
    for name, change in changes.items():
        over = issue_event(name, 1, **change)
        for order in permutations([given, over]):
            assert run(order).outcome() == []
    closed = issue_event("issue_closed", 1, "agent-dev", is_open=False)
    again = issue_event("issue_reopened", 2, "agent-dev")
    for order in permutations([given, closed, again]):
        assert run(order).outcome() == [("issue_assigned", "agent-dev")]


# Names


@pytest.mark.shows("T03")
def test_a_name_in_any_text_calls_its_agent_once() -> None:
    body = "@agent-ops please look"
    for each in (
        comment(body),
        comment(body, issue=issue(number=5, is_pull=True)),
        issue_event("issue_opened", 0, body=body),
        pr_event("pull_request_opened", body=body, draft=True),
        review("APPROVED", sender="agent-second", body=body, author=user("agent-second")),
    ):
        world = run([each] * 3)
        assert ("mention", "agent-ops") in world.outcome()
        assert [key for key, _ in world.outcome()].count("mention") == 1
        task = next(task for task in world.proposed.values() if task.action_type == "mention")
        assert (task.context["intent_hint"], task.context["content_snippet"]) == ("request", body)


def test_names_that_are_no_agents_and_ones_own_call_nobody() -> None:
    assert run([comment("@nobody @agent-dev @alice", sender="agent-dev")]).outcome() == []
    assert run([comment("@nobody")]).last.warnings == ()


def test_who_is_asked_for_the_review_or_assigned_is_not_called_beside() -> None:
    asked = pr_event("pull_request_opened", body="@agent-second", requested_reviewers=(user("agent-second"),))
    assert run([asked]).outcome() == [("review_request", "agent-second")]
    given = issue_event("issue_opened", 0, "agent-dev", body="@agent-dev")
    assert run([given]).outcome() == [("issue_assigned", "agent-dev")]


def test_an_edit_calls_only_the_names_that_it_adds() -> None:
    edited = comment("@agent-dev @agent-ops", name="comment_edited", body_before="@agent-dev")
    created = comment("@agent-dev")
    for order in permutations([created, edited, edited]):
        assert run(order).outcome() == [("mention", "agent-dev"), ("mention", "agent-ops")]
    assert run([comment("@agent-dev", name="comment_edited")]).outcome() == []
    issue_edited = issue_event("issue_edited", 1, body="@agent-ops", body_before="")
    assert run([issue_edited]).outcome() == [("mention", "agent-ops")]


def test_what_the_engine_wrote_itself_calls_nobody() -> None:
    body = f"@agent-dev your report is missing\n{write_marker(Marker('tc-1', 0, by_engine=True))}"
    assert run([comment(body, sender="bot")]).outcome() == []
    known = registry(engines={"work": "Bot"})
    assert run([comment(body, sender="bot")], known).outcome() == []
    # Whoever copies the marker does not silence anybody where the engine's account is known.
    assert run([comment(body, sender="mallory")], known).outcome() == [("mention", "agent-dev")]
    opened = issue_event("issue_opened", 0, "agent-lead", sender="bot", body=body)
    assert run([opened], known).outcome() == [("issue_assigned", "agent-lead")]


def test_agents_that_only_answer_each_other_are_stopped_and_a_person_begins_anew() -> None:
    world, speakers = World(registry(hops=4)), ["agent-dev", "agent-ops"]
    for turn in range(8):
        speaker, other = speakers[turn % 2], speakers[(turn + 1) % 2]
        marker = write_marker(Marker("tc-1", turn))
        world.see(comment(f"@{other} please {marker}", sender=speaker, number=turn, at=f"2026-05-01T10:0{turn}:00Z"))
    assert len(world.live()) == 4
    assert [each.code for each in world.last.warnings] == [Code.FORGE_HOPS_EXCEEDED]
    world.see(comment("@agent-dev go on", number=99, at="2026-05-01T11:00:00Z"))
    assert len(world.live()) == 5
    assert world.tasks[-1].hop == 0
    for turn in range(5):
        said = f"@{speakers[(turn + 1) % 2]} please"
        world.see(comment(said, sender=speakers[turn % 2], number=100 + turn, at=f"2026-05-01T12:0{turn}:00Z"))
    assert len(world.live()) == 9, "four more answers, with or without a marker"
    assert [each.code for each in world.last.warnings] == [Code.FORGE_HOPS_EXCEEDED]


def test_an_agent_cannot_lower_its_hop_by_leaving_the_marker_out() -> None:
    world, speakers = World(registry(hops=4)), ["agent-dev", "agent-ops"]
    for turn in range(5):
        world.see(comment(f"@{speakers[(turn + 1) % 2]} please", sender=speakers[turn % 2], number=turn))
    assert len(world.live()) == 4
    assert [each.code for each in world.last.warnings] == [Code.FORGE_HOPS_EXCEEDED]


def test_review_comments_of_agents_end_too() -> None:
    marker = write_marker(Marker("tc-1", 4))
    world = run([review("COMMENT", body=f"again {marker}")])
    assert world.outcome() == []
    assert [each.code for each in world.last.warnings] == [Code.FORGE_HOPS_EXCEEDED]


# The rest


def test_events_of_other_repositories_are_ignored() -> None:
    world = run([pr_event("pull_request_opened")], registry(repositories=("other/*",)))
    assert (world.outcome(), world.last.ignored) == ([], "acme/widgets is not one of our repositories")


@pytest.mark.shows("T03")
def test_an_outage_is_one_task_for_who_runs_things() -> None:
    configured = registry()
    first = event_tasks.make_outage_task(configured, "work", outage="2026-05-01T10", what="work does not answer")
    assert first
    assert (first.action_type, first.assignee) == ("infrastructure_failure", "agent-ops")
    again = event_tasks.make_outage_task(configured, "work", outage="2026-05-01T10", what="still")
    assert again
    assert again.key == first.key
    assert event_tasks.make_outage_task(replace(configured, ops=None), "work", outage="x", what="y") is None


def test_keys_begin_with_the_source_and_parts_cannot_run_into_each_other() -> None:
    assert dedup_keys.ci_failure("a:b", "c/d", "e") != dedup_keys.ci_failure("a", "b:c/d", "e")
    assert dedup_keys.ci_failure("a%3Ab", "c/d", "e") != dedup_keys.ci_failure("a:b", "c/d", "e")


def test_accounts_with_numbers_are_known_by_them() -> None:
    configured = registry(
        identities=(ForgeIdentity("dev", "work", "agent-dev", 11), ForgeIdentity("rev", "work", "agent-reviewer", 12))
    )
    seen = pr_event(
        "pull_request_opened", author=user("agent-dev", 11), requested_reviewers=(user("agent-reviewer", 12),)
    )
    assert run([seen], configured).outcome() == [("review_request", "rev")]
    impostor = pr_event("pull_request_opened", requested_reviewers=(user("agent-reviewer", 99),))
    assert run([impostor], configured).outcome() == []


@pytest.mark.parametrize(
    "name",
    ["pull_request_opened", "review_submitted", "comment_created", "issue_assigned", "run_finished"],
)
def test_an_event_without_its_object_comes_to_nothing(name: str) -> None:
    bare = event(name)
    decision = event_tasks.decide(bare, registry(), ForgeKnowledge())
    assert (decision.tasks, bool(decision.ignored)) == ((), True)


def test_an_event_of_a_comment_alone_comes_to_nothing() -> None:
    assert run([comment("@agent-dev", issue=None)]).outcome() == []
    with_review = event("review_submitted", pull_request=pull())
    assert run([with_review]).outcome() == []


def test_two_pull_requests_with_one_head_are_one_red_head() -> None:
    first = event("pull_request_opened", pull_request=pull(5, requested_reviewers=(user("alice"),)))
    second = event("pull_request_opened", pull_request=pull(6, requested_reviewers=(user("alice"),)))
    for order in permutations([first, second]):
        world = run([*order, status()])
        assert world.outcome() == [("ci_failure", "agent-dev")]
        assert next(iter(world.proposed.values())).context["pr_number"] == 5


def test_sightings_of_the_same_moment_are_joined() -> None:
    one = pr_event("review_requested", 0, asks="agent-second")
    two = pr_event("review_requested", 0, asks="agent-ops")
    for order in permutations([one, two, one]):
        assert run(order).outcome() == [("review_request", "agent-ops"), ("review_request", "agent-second")]


def test_a_push_that_carries_the_time_of_what_was_before_is_still_newer() -> None:
    """Gitea writes the event of a push before it notes the push's time in the pull request."""
    opened = pr_event("pull_request_opened", 0)
    talked = pr_event("pull_request_edited", 5)
    pushed = pr_event("pull_request_synced", 5, head=B)
    removed = pr_event("review_request_removed", 5, asks="agent-second")
    for order in permutations([opened, talked, pushed, removed]):
        assert [(each.assignee, each.head_sha) for each in run(order).live()] == [("agent-reviewer", B)]


def test_who_is_asked_in_the_second_of_a_push_is_asked() -> None:
    pushed = pr_event("pull_request_synced", 5, head=B)
    asked = pr_event("review_requested", 5, head=B, asks="agent-second")
    for order in permutations([pushed, asked]):
        assert [(each.assignee, each.head_sha) for each in run(order).live()] == [("agent-second", B)]
    unknown = pr_event("pull_request_edited", 5, head=B, requested_reviewers=None)
    for order in permutations([pushed, asked, unknown]):
        assert [(each.assignee, each.head_sha) for each in run(order).live()] == [("agent-second", B)]
    assert run([unknown, unknown.model_copy(update={"delivery": "2"})]).outcome() == []


def test_who_is_taken_off_in_the_second_of_being_put_on_is_off() -> None:
    on, off = (
        pr_event("review_requested", 5, asks="agent-second"),
        pr_event("review_request_removed", 5, asks="agent-second"),
    )
    for order in permutations([on, off, on]):
        assert run(order).outcome() == [("review_request", "agent-reviewer")]
    given, taken = issue_event("issue_assigned", 5, "agent-dev"), issue_event("issue_unassigned", 5)
    for order in permutations([given, taken, given]):
        assert run(order).outcome() == []


def test_of_two_things_with_one_number_at_one_moment_the_later_one_is_kept() -> None:
    seen = [
        sightings.read_sighting(each)
        for each in (issue_event("issue_edited", 0, number=5), pr_event("review_requested"))
    ]
    assert seen[0]
    assert seen[1]
    assert sightings.merge_sightings(seen[0], seen[1]).pull_request


def test_a_team_that_is_asked_is_the_defaults_work() -> None:
    assert run([pr_event("review_requested")]).outcome() == [("review_request", "agent-reviewer")]


def test_a_repository_is_the_same_in_any_case() -> None:
    opened = pr_event("pull_request_opened")
    other = opened.model_copy(update={"repository": Repository(full_name="Acme/Widgets")})
    assert len(run([opened, other]).live()) == 1


def test_more_names_than_anybody_calls_are_not_looked_at() -> None:
    text = " ".join(f"@nobody{n}" for n in range(30)) + " @agent-dev"
    assert run([comment(text)]).outcome() == []
