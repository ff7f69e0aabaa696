"""Forge events → tasks: one for each thing to do, also when events repeat or come in another order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts.forge import (
    Comment,
    Deployment,
    EventName,
    ForgeEvent,
    ForgeIssue,
    ForgeUser,
    PullRequest,
    Repository,
    Review,
    Run,
    Sighting,
)
from agenttalk.contracts.toolchain import ActionType, PipelineResult, ProposedTask
from agenttalk.rules.text import toolchain_words
from agenttalk.rules.toolchain import dedup_keys, generations, mention_tasks, review_requests, sightings
from agenttalk.rules.toolchain.accounts import ForgeRegistry, same_user
from agenttalk.rules.toolchain.proposal import (
    LONGEST_TITLE,
    DecisionDraft,
    DeploymentOutcome,
    EventDecision,
    ForgeKnowledge,
    KnownTask,
    Lookup,
    SightingChanges,
    cut_text,
)

_OVER: Final[tuple[ActionType, ...]] = ("review_result", "review_comment", "ci_failure", "merge_conflict")
_OF_A_HEAD: Final = frozenset({"ci_failure", "merge_conflict"})
_GIVEN: Final = frozenset({"issue_assigned", "issue_opened"})


@dataclass(frozen=True, slots=True)
class EventLookupKeys:
    """What to look up before an event is decided."""

    objects: frozenset[str]
    """Pull requests and issues: all of their tasks, and the newest sighting."""
    commits: frozenset[str]
    """Commits: tasks that belong to them, open pull requests whose newest head they are, and failures that wait."""


def find_lookup_keys(event: ForgeEvent, known: ForgeKnowledge = ForgeKnowledge()) -> EventLookupKeys:  # noqa: B008 - frozen
    """Find what an event is about. A second call with the sightings found so far adds what they lead to."""
    numbers = [event.pull_request.number] if event.pull_request else []
    numbers += [event.issue.number] if event.issue else []
    numbers += event.run.pulls if event.run else ()
    numbers += [each.pull_request.number for each in known.sightings if each.pull_request]
    heads = [each.pull_request.head_sha for each in known.sightings if each.pull_request]
    heads += [event.pull_request.head_sha] if event.pull_request else []
    heads += [_sha(event)]
    source, repository = event.source, event.repository.key
    return EventLookupKeys(
        frozenset(dedup_keys.object_of(source, repository, number) for number in numbers),
        frozenset(dedup_keys.commit_of(source, repository, head) for head in heads if head),
    )


def decide(event: ForgeEvent, registry: ForgeRegistry, known: ForgeKnowledge) -> EventDecision:
    """Decide what follows from an event. The same events in any order, repeated or not, give the same tasks."""
    draft = DecisionDraft(event, registry, known, SightingChanges(known.sightings))
    if not (registry.covers(event.repository.full_name) or registry.covers(event.repository.key)):
        draft.notes.append(toolchain_words.DELIVERY["not_ours"](repository=event.repository.full_name))
    elif mention_tasks.is_our_own(event, registry):
        draft.notes.append(toolchain_words.DELIVERY["own"]())
    elif known.gone and event.name != "repository_deleted":
        draft.notes.append(toolchain_words.DELIVERY["repository_deleted"]())
    else:
        _HANDLERS[event.name](draft)
    return draft.to_decision()


def make_outage_task(
    registry: ForgeRegistry, source: str, *, outage: str, what: str, detail: str = "", at: str = ""
) -> ProposedTask | None:
    """Return the task for operations, once per outage; None when no agent has that role."""
    if registry.ops is None:
        return None
    key = dedup_keys.infrastructure_failure(source, outage)
    context = {"what": cut_text(what, LONGEST_TITLE), "detail": cut_text(detail), "outage": outage}
    return ProposedTask.model_validate(
        {
            "key": key,
            "action_type": "infrastructure_failure",
            "assignee": registry.ops,
            "source": source,
            "object": key,
            "context": context,
            "at": at,
        }
    )


def make_conflict_task(
    *, source: str, object_key: str, agent: str, context: Mapping[str, Any], head_sha: str, at: str
) -> ProposedTask:
    """Make the author's task for an approved head that conflicts."""
    names = ("repo", "pr_number", "pr_title", "url", "head_sha", "fork", "branch", "base", "author")
    return ProposedTask.model_validate(
        {
            "key": dedup_keys.merge_conflict(object_key, head_sha),
            "action_type": "merge_conflict",
            "assignee": agent,
            "source": source,
            "object": object_key,
            "context": {name: context[name] for name in names if name in context},
            "head_sha": head_sha,
            "at": at,
        }
    )


def make_pipeline_event(source: str, result: PipelineResult, *, at: str = "") -> ForgeEvent:
    """Make an event from the result of a pipeline without a webhook."""
    repository = Repository(full_name=result.repository)
    common = {"sha": result.sha, "outcome": result.outcome, "url": result.url}
    if result.kind == "deploy":
        deployment = Deployment.model_validate(common | {"environment": result.name, "description": result.description})
        return ForgeEvent(
            source=source, kind="gitea", name="deployment_changed", repository=repository, deployment=deployment, at=at
        )
    run = Run.model_validate(common | {"name": result.name})
    return ForgeEvent(source=source, kind="gitea", name="run_finished", repository=repository, run=run, at=at)


# Pull requests


def _pull_request(draft: DecisionDraft) -> None:
    """Update the tasks of a pull request that an event shows: reviews, red heads and closed ones."""
    shown = sightings.read_sighting(draft.event)
    own = draft.event.pull_request
    if shown is None or own is None:
        draft.notes.append(toolchain_words.DELIVERY["no_pull"]())
        return
    now = draft.sightings.remember(shown)
    _settle(draft, now)
    if draft.event.name == "pull_request_deleted":
        _forget(draft, sightings.object_of(now), "the pull request was deleted")
    _mentions_in_body(draft, own.body, own.number, tuple(own.requested_reviewers or ()))


def _dismissed(draft: DecisionDraft) -> None:
    """Withdraw the task for a review that was taken back, unless the agent that has to act took it back."""
    shown, review = sightings.read_sighting(draft.event), draft.event.review
    if shown is None or review is None:
        draft.notes.append(toolchain_words.DELIVERY["no_review"]())
        return
    now = draft.sightings.remember(shown)
    _settle(draft, now)
    for task in draft.tasks_of(sightings.object_of(now), "review_result"):
        if task.reviewer != dedup_keys.user(review.author):
            continue
        sender = draft.event.sender
        if sender is not None and draft.registry.agent_of(sender) == task.assignee:
            draft.notes.append(toolchain_words.DELIVERY["review_taken_back"](agent=task.assignee))
        else:
            draft.withdraw(task, "the review was withdrawn")


def _settle(draft: DecisionDraft, sighting: Sighting) -> PullRequest | None:
    pull = sighting.pull_request
    if pull is None:
        return None
    key = sightings.object_of(sighting)
    review_requests.settle_reviews(draft, sighting, pull)
    for task in draft.tasks_of(key, *_OVER):
        if (why := _is_over(task, sighting, pull)) is None:
            draft.restore(task)
        else:
            _end(draft, task, sighting, why)
    if pull.merged:
        _merged(draft, key, pull)
    for failure in draft.known.held:
        if pull.is_open and pull.head_sha == _sha(failure):
            _red(draft, key, pull, _failure(failure))
    return pull


def _is_over(task: KnownTask, sighting: Sighting, pull: PullRequest) -> str | None:
    """Explain why a task has nothing left to do; None if it has."""
    if not pull.is_open:
        return toolchain_words.DELIVERY["closed"]()
    if task.head_sha != pull.head_sha and (task.action_type in _OF_A_HEAD or task.verdict == "APPROVED"):
        return "there is a newer head"
    newest = sighting.verdicts.get(task.reviewer)
    if newest and task.action_type == "review_result" and newest.split()[-1] != task.verdict:
        return toolchain_words.DELIVERY["newer_verdict"]()
    return None


def _merged(draft: DecisionDraft, object_key: str, pull: PullRequest) -> None:
    by = pull.merged_by or draft.event.sender
    agent = draft.registry.agent_of(pull.author)
    if draft.event.name != "pull_request_merged":
        return
    if agent is None:
        draft.warn(pull.author.login, "review_merged")
    elif same_user(by, pull.author):
        draft.notes.append(toolchain_words.DELIVERY["author_merged"]())
    else:
        context = {"pr_author": pull.author.login, "merged_by": by.login if by else ""}
        key = dedup_keys.review_merged(draft.event.source, draft.place, pull.number)
        draft.propose("review_merged", agent, key, object_key, context, pull=pull)


def _review(draft: DecisionDraft) -> None:
    """Handle a submitted review: its pull request's author may get a task."""
    shown, review, own = sightings.read_sighting(draft.event), draft.event.review, draft.event.pull_request
    now = draft.sightings.remember(shown) if shown else None
    pull = _settle(draft, now) if now else None
    if pull is None or review is None or own is None or now is None:
        draft.notes.append(toolchain_words.DELIVERY["no_review"]())
        return
    if draft.event.kind != "github" and not draft.event.first_hand:  # there, comments on lines are events of their own
        draft.lookups.append(Lookup(draft.repository, own.head_sha, own.number, lines=True))
    if why := _does_not_count(draft, now, pull, own, review):
        draft.notes.append(why)
        return
    action: ActionType = "review_comment" if review.verdict == "COMMENT" else "review_result"
    agent = draft.find_agent(pull.author, action)
    object_key = sightings.object_of(now)
    key = dedup_keys.review_given(draft.event, own, review)
    if draft.event.first_hand:
        there = {task.key for task in draft.tasks_of(object_key, action)}
        near = dedup_keys.neighbour_review_keys(draft.event, own, review)
        key = next((each for each in (key, *near) if each in there), key)
    skip: tuple[ForgeUser, ...] = ()
    if agent is not None:
        skip = (pull.author,)
        context: dict[str, Any] = {"reviewer": review.author.login, "review_body": cut_text(review.body)}
        context |= {"branch": pull.head_ref, "base": pull.base_ref, "review_id": review.id}
        context |= {"result": review.verdict, "author": pull.author.login, "base_sha": pull.base_sha}
        talk = review.verdict == "COMMENT"
        hop = (
            mention_tasks.count_hops(draft, object_key, review.body)
            if talk
            else mention_tasks.round_of(draft, object_key)
        )
        if review.verdict == "COMMENT":
            if mention_tasks.may_go_on(draft, object_key, hop, pull.author.login):
                draft.propose(action, agent, key, object_key, context, pull=own, hop=hop)
        elif review.verdict == "APPROVED" or mention_tasks.may_go_on(
            draft, object_key, hop, pull.author.login, reviews=True
        ):
            draft.propose(action, agent, key, object_key, context, pull=own, hop=hop)
    if not pull.is_open:
        draft.postpone(key, toolchain_words.DELIVERY["closed"]())
    mention_tasks.propose_mention_tasks(
        draft, object_key, f"review-{key}", review.body, source_type="review", skip=skip
    )


def _does_not_count(draft: DecisionDraft, now: Sighting, pull: PullRequest, own: PullRequest, review: Review) -> str:
    """Return why no agent has to act on a review; empty when its author has to."""
    if pull.merged:
        return toolchain_words.DELIVERY["merged"]()
    if review.verdict == "APPROVED" and own.head_sha != pull.head_sha:
        return toolchain_words.DELIVERY["old_approval"]()
    newest = now.verdicts.get(dedup_keys.user(review.author), "")
    if review.verdict != "COMMENT" and newest > sightings.verdict_of(draft.event, review):
        return toolchain_words.DELIVERY["newer_verdict"]()
    return (
        ""
        if mention_tasks.may_call(draft, review.author)
        else mention_tasks.describe_missing_right(draft, review.author)
    )


# Comments and issues


def _comment(draft: DecisionDraft) -> None:
    """Handle a comment: it may call agents, or report a failure in a CI service's name."""
    event, comment, issue = draft.event, draft.event.comment, draft.event.issue
    pull = event.pull_request
    if comment is None or (issue is None and pull is None):
        draft.notes.append(toolchain_words.DELIVERY["no_comment"]())
        return
    number = pull.number if pull else issue.number if issue else 0
    if (shown := sightings.read_sighting(event)) is not None:
        now = draft.sightings.remember(shown)
        pull = _settle(draft, now) or pull
    object_key = dedup_keys.object_of(event.source, draft.place, number)
    if event.name == "comment_deleted":
        _unsay(draft, object_key, comment)
        return
    line = draft.registry.find_failure_line(event.source, comment.author.login, comment.body)
    if line is not None and event.name == "comment_created":
        _failed_by_comment(draft, object_key, number, line)
        return
    if draft.sightings.is_deleted_comment(object_key, comment.id):
        draft.notes.append(toolchain_words.DELIVERY["comment_deleted"]())
        return
    on_pull = pull is not None or (issue is not None and issue.is_pull)
    kind = "pull_request_comment" if on_pull else "issue_comment"
    mention_tasks.propose_mention_tasks(draft, object_key, f"comment-{comment.id}", comment.body, source_type=kind)


def _unsay(draft: DecisionDraft, object_key: str, comment: Comment) -> None:
    """Withdraw the answer to a deleted comment, unless the called agent deleted it or has begun."""
    draft.sightings.remember_deleted_comment(object_key, comment.id)
    place = f"comment-{comment.id}"
    for task in draft.tasks_of(object_key, "mention"):
        if task.key == dedup_keys.mention(draft.event, place, task.assignee) and not task.idle:
            _withdraw_for_others(draft, task, toolchain_words.DELIVERY["comment_deleted"]())


def _repository_deleted(draft: DecisionDraft) -> None:
    """Withdraw the tasks of a deleted repository."""
    why = f"the repository {draft.repository} was deleted"
    if draft.event.first_hand:
        why = f"the repository {draft.repository} is gone, or the engine's account may not see it any more"
    for task in draft.known.tasks:
        _withdraw_for_others(draft, task, why)


def _withdraw_for_others(draft: DecisionDraft, task: KnownTask, why: str) -> None:
    """Withdraw a task with nothing left to do, unless its own agent caused that."""
    sender = draft.event.sender
    if sender is not None and draft.registry.agent_of(sender) == task.assignee:
        draft.notes.append(toolchain_words.DELIVERY["did_itself"](agent=task.assignee))
    else:
        draft.withdraw(task, why)


def _failed_by_comment(draft: DecisionDraft, object_key: str, number: int, line: str) -> None:
    sighting = draft.sightings.find(object_key) or sightings.read_sighting(draft.event)
    pull = sighting.pull_request if sighting else None
    if pull is None:
        draft.held = True
        draft.lookups.append(Lookup(draft.repository, "", number))
    elif pull.is_open:
        url = draft.event.comment.url if draft.event.comment else ""
        _red_again(draft, object_key, pull)
        _red(draft, object_key, pull, {"error_summary": cut_text(line, LONGEST_TITLE), "log_url": url})


def _issue(draft: DecisionDraft) -> None:
    """Handle an issue: it is the work of its assignees while it is open."""
    shown = sightings.read_sighting(draft.event)
    own = draft.event.issue
    if shown is None or own is None:
        draft.notes.append(toolchain_words.DELIVERY["no_issue"]())
        return
    now = draft.sightings.remember(shown)
    issue, key = now.issue or own, sightings.object_of(now)
    before = draft.tasks_of(key, "issue_assigned")
    if not issue.is_open and draft.event.name in _GIVEN:
        draft.sightings.remember_owed(now)
    for assignee in _to_tell(draft, issue, before, owed=now.owed):
        mine = [task for task in before if _is_for(draft, task, assignee)]
        if dedup_keys.user(assignee) in now.self_assigned and all(task.state == "ended" for task in mine):
            draft.notes.append(toolchain_words.DELIVERY["taken"](who=assignee.login))
        elif (agent := draft.find_agent(assignee, "issue_assigned", from_sender=True)) is not None:
            base = dedup_keys.issue_assigned(draft.event.source, draft.place, issue.number, agent)
            name = generations.key_of(draft, base, mine, draft.sightings.freed_at(key, assignee))
            context = _issue_context(issue, agent) | {"escalation": mention_tasks.is_escalation(draft, issue)}
            draft.propose("issue_assigned", agent, name, key, context)
    why = "the issue was deleted" if draft.event.name == "issue_deleted" else "the issue is closed"
    for task in before:
        if not issue.is_open:
            _end(draft, task, now, why)
        elif not any(_is_for(draft, task, each) for each in issue.assignees):
            _end(draft, task, now, "the issue is not assigned to the agent any more")
    if draft.event.name == "issue_deleted":
        _forget(draft, key, why)
    _mentions_in_body(draft, own.body, own.number, tuple(own.assignees))


def _forget(draft: DecisionDraft, object_key: str, why: str) -> None:
    """Withdraw the tasks of a deleted text."""
    for task in draft.tasks_of(object_key, "mention"):
        draft.withdraw(task, why)


def _end(draft: DecisionDraft, task: KnownTask, now: Sighting, why: str) -> None:
    """Withdraw a task, unless its agent itself closed or left the issue: that does not end begun work."""
    ended_by = (*now.left, now.closed_by) if now.closed_by is not None else now.left
    if task.idle and task.assignee in {draft.registry.agent_of(each) for each in ended_by}:
        draft.notes.append(toolchain_words.DELIVERY["left"](agent=task.assignee))
    else:
        draft.withdraw(task, why)


def _to_tell(draft: DecisionDraft, issue: ForgeIssue, before: list[KnownTask], *, owed: bool) -> list[ForgeUser]:
    """List the assignees who may not know yet that the issue is theirs."""
    if not issue.is_open:
        return []
    if draft.event.name in _GIVEN or (owed and not before):
        named = draft.event.assignee if draft.event.name == "issue_assigned" else None
        return [each for each in issue.assignees if named is None or same_user(each, named)]
    key = dedup_keys.object_of(draft.event.source, draft.place, issue.number)
    found = []
    for each in issue.assignees:
        mine = [task for task in before if _is_for(draft, task, each)]
        back = any(task.state == "withdrawn" for task in mine)
        if back or generations.is_due_again(draft, mine, draft.sightings.freed_at(key, each)):
            found.append(each)
        else:
            for task in mine:
                if task.state != "ended":
                    draft.sightings.cover(key, task.key)
    return found


def _is_for(draft: DecisionDraft, task: KnownTask, user: ForgeUser) -> bool:
    return draft.registry.agent_of(user) == task.assignee


def _issue_context(issue: ForgeIssue, agent: str) -> dict[str, Any]:
    return {
        "issue_number": issue.number,
        "issue_title": cut_text(issue.title, LONGEST_TITLE),
        "issue_body": cut_text(issue.body),
        "labels": list(issue.labels),
        "branch": f"fix/{issue.number}-{agent}",
        "url": issue.url,
        "author": issue.author.login,
    }


def _mentions_in_body(draft: DecisionDraft, body: str, number: int, skip: tuple[ForgeUser, ...]) -> None:
    if draft.event.name not in {"pull_request_opened", "issue_opened", "pull_request_edited", "issue_edited"}:
        return
    key = dedup_keys.object_of(draft.event.source, draft.place, number)
    kind = "pull_request" if draft.event.pull_request else "issue"
    mention_tasks.propose_mention_tasks(draft, key, f"{number}-body", body, source_type=kind, skip=skip)


# What ran


def _ran(draft: DecisionDraft) -> None:
    """Make the task for a status, run or deployment that failed."""
    event = draft.event
    outcome = event.status or event.run or event.deployment
    if outcome is None or outcome.outcome != "failure":
        draft.notes.append(toolchain_words.DELIVERY["nothing_failed"]())
        by_agent = event.sender is not None and draft.registry.agent_of(event.sender) is not None
        if event.deployment is not None and event.deployment.outcome == "success" and not by_agent:
            draft.deployed = _deployed(draft, event.deployment, good=True)
    elif _is_deployment(draft):
        _not_deployed(draft)
    else:
        _red_head(draft)


def _is_deployment(draft: DecisionDraft) -> bool:
    event = draft.event
    if event.deployment:
        return True
    if event.run:
        on_pull = event.run.trigger.startswith("pull_request") or bool(event.run.pulls)
        if event.run.job and not (event.run.name or event.run.branch):
            return False  # what it ran for is unknown here; the event of its workflow says it
        return not on_pull and draft.registry.is_deployment_name(event.run.name, event.run.file, event.run.job)
    context = event.status.context if event.status else ""
    return not context.endswith("(pull_request)") and draft.registry.is_deployment_name(context)


def _deployed(draft: DecisionDraft, deployment: Deployment, *, good: bool) -> DeploymentOutcome:
    where = dedup_keys.deployment_key(draft.event.source, draft.place, deployment.environment)
    return DeploymentOutcome(where, deployment.sha, draft.event.at, good)


def _not_deployed(draft: DecisionDraft) -> None:
    sha = _sha(draft.event)
    if draft.event.deployment is not None:
        draft.deployed = _deployed(draft, draft.event.deployment, good=False)
    if draft.registry.ops is None:
        draft.warn("ops", "deploy_failure")
        return
    failure = _failure(draft.event)
    context = {"commit_sha": sha, "reason": failure["error_summary"], "log_url": failure["log_url"]}
    context |= {"environment": failure["environment"], **_where_deployed(draft.event)}
    source, repository = draft.event.source, draft.place
    commit = dedup_keys.commit_of(source, repository, sha)
    key = _since_done(draft, commit, dedup_keys.deploy_failure(source, repository, sha, failure["environment"]))
    draft.propose("deploy_failure", draft.registry.ops, key, commit, context, head=sha)


def _since_done(draft: DecisionDraft, object_key: str, key: str) -> str:
    """Make the key of a failure: one after its task was done gets a new key, so that it is not lost."""
    done = {task.key: task.done_at for task in draft.tasks_of(object_key, "deploy_failure") if task.done_at}
    while key in done and draft.event.at > done[key]:
        key = dedup_keys.repeated_key(key, done[key])
    return key


def _where_deployed(event: ForgeEvent) -> dict[str, str]:
    """Return the status and place that would show a later success; empty where no status does."""
    if event.status is not None:
        return {"deploy_context": event.status.context, "branch": event.repository.default_branch}
    if event.run is not None:
        name = event.run.file.rpartition("/")[2] or event.run.name
        return {"deploy_context": name, "branch": event.run.branch or event.repository.default_branch}
    return {"deploy_context": "", "branch": event.repository.default_branch}


def _red_head(draft: DecisionDraft) -> None:
    """Give a red head to the author of the open pull request. Only the newest head counts."""
    shown = sightings.read_sighting(draft.event)
    if shown is not None:
        draft.sightings.remember(shown)
    sha = _sha(draft.event)
    every = {sightings.object_of(each): each for each in (*draft.known.sightings, *draft.sightings.changed)}
    pulls = {key: each.pull_request for key, each in every.items() if each.pull_request}
    with_head = sorted(
        ((key, pull) for key, pull in pulls.items() if pull.head_sha == sha), key=lambda each: each[1].number
    )
    if opened := [(key, pull) for key, pull in with_head if pull.is_open]:
        _red_again(draft, *opened[0])
        _red(draft, *opened[0], _failure(draft.event))
    elif with_head:
        draft.notes.append(toolchain_words.DELIVERY["closed"]())
        draft.held = not all(pull.merged for _, pull in with_head)
    elif _numbers(draft.event) & {pull.number for pull in pulls.values()}:
        draft.notes.append(toolchain_words.DELIVERY["old_commit"]())
    else:
        draft.held = True
        number = min(_numbers(draft.event), default=None)
        draft.lookups.append(Lookup(draft.repository, sha, number))


def _numbers(event: ForgeEvent) -> set[int]:
    named = set(event.run.pulls) if event.run else set()
    return named | ({event.pull_request.number} if event.pull_request else set())


def _red(draft: DecisionDraft, object_key: str, pull: PullRequest, failure: Mapping[str, Any]) -> None:
    """Propose a task for a red head to its author, not to the account that pushed or ran it."""
    agent = draft.find_agent(pull.author, "ci_failure", from_sender=True)
    if agent is not None:
        key = dedup_keys.ci_failure(draft.event.source, draft.place, pull.head_sha)
        context = {"branch": pull.head_ref, "author": pull.author.login, **failure}
        draft.propose("ci_failure", agent, key, object_key, context, pull=pull)


def _red_again(draft: DecisionDraft, object_key: str, pull: PullRequest) -> None:
    """Let a head that was green in between and is red again call for a new task."""
    draft.call_again(object_key, dedup_keys.ci_failure(draft.event.source, draft.place, pull.head_sha))


def _sha(event: ForgeEvent) -> str:
    ran = event.status or event.run or event.deployment
    return ran.sha if ran else ""


def _failure(event: ForgeEvent) -> dict[str, Any]:
    """Describe the failure in one line, with a link to its details."""
    if event.deployment:
        what, why = event.deployment.environment, event.deployment.description
    elif event.run:
        what, why = event.run.name or event.run.file, event.run.job
    else:
        what, why = (event.status.context, event.status.description) if event.status else ("", "")
    ran = event.deployment or event.run or event.status
    summary = ": ".join(part for part in (what, why) if part)
    return {
        "error_summary": cut_text(summary, LONGEST_TITLE),
        "log_url": ran.url if ran else "",
        "environment": event.deployment.environment if event.deployment else "",
    }


_HANDLERS: Final[Mapping[EventName, Callable[[DecisionDraft], None]]] = {
    "pull_request_opened": _pull_request,
    "pull_request_ready": _pull_request,
    "pull_request_drafted": _pull_request,
    "pull_request_edited": _pull_request,
    "pull_request_synced": _pull_request,
    "pull_request_reopened": _pull_request,
    "pull_request_closed": _pull_request,
    "pull_request_merged": _pull_request,
    "review_requested": _pull_request,
    "review_request_removed": _pull_request,
    "review_submitted": _review,
    "comment_created": _comment,
    "comment_edited": _comment,
    "comment_deleted": _comment,
    "issue_opened": _issue,
    "issue_edited": _issue,
    "issue_assigned": _issue,
    "issue_unassigned": _issue,
    "issue_reopened": _issue,
    "issue_closed": _issue,
    "issue_deleted": _issue,
    "pull_request_deleted": _pull_request,
    "review_dismissed": _dismissed,
    "status_changed": _ran,
    "run_finished": _ran,
    "deployment_changed": _ran,
    "repository_deleted": _repository_deleted,
}
