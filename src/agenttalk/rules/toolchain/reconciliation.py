"""What a forge shows ↔ tasks: every open obligation has one task, and a task whose reason is gone is closed.

An obligation is put as the event that would have told of it, so that its task is the one that a webhook makes, with the
same key: a webhook that comes late makes no second one. Beside the events stands what no agent has: reviews that
are there, heads that are green again, verdicts that were taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.forge import (
    Change,
    Comment,
    EventName,
    ForgeEvent,
    ForgeIssue,
    ForgeUser,
    PullRequest,
    Repository,
    Review,
    Sighting,
    Status,
)
from agenttalk.rules.toolchain import comment_threads, dedup_keys, event_tasks, mentions, sightings
from agenttalk.rules.toolchain.accounts import ForgeRegistry, same_user
from agenttalk.rules.toolchain.deployments import is_deployment
from agenttalk.rules.toolchain.proposal import EventDecision, ForgeKnowledge, KnownTask, Withdrawal

REVIEWED: Final = "the review is there already"
GREEN: Final = "the head is green again"
UNSAID: Final = "the comment was deleted"
TAKEN_BACK: Final = "the review was withdrawn"


@dataclass(frozen=True, slots=True)
class ForgeSnapshot:
    """What a forge shows of a pull request or an issue."""

    source: str
    kind: ForgeKind
    repository: str
    thing: PullRequest | ForgeIssue
    reviews: tuple[Review, ...] = ()
    """Of the pull request, the oldest first."""
    comments: tuple[Comment, ...] | None = ()
    """Those on lines, too, the oldest first; None when they were not read, because nothing new can be among them."""
    statuses: tuple[Status, ...] = ()
    """Of the newest head."""
    deleted: bool = False
    """Whether the forge has no such thing any more."""
    known_as: str = ""
    """What the repository is called in keys, if it is not its name."""
    repository_id: int | None = None
    writers: frozenset[str] = frozenset()
    """Names of the accounts that have write access, in lower case."""
    changes: tuple[Change, ...] = ()
    """What was done to the thing, the oldest first, as far as it was read."""

    @property
    def key(self) -> str:
        """What the repository is called in keys."""
        return (self.known_as or self.repository).lower()

    @property
    def pull(self) -> PullRequest | None:
        """The pull request, if it is one."""
        return self.thing if isinstance(self.thing, PullRequest) else None

    @property
    def issue(self) -> ForgeIssue | None:
        """The issue, if it is one."""
        return self.thing if isinstance(self.thing, ForgeIssue) else None

    @property
    def object(self) -> str:
        """The key of the thing."""
        return dedup_keys.object_of(self.source, self.key, self.thing.number)


def make_deleted_thing(source: str, number: int, *, pull: bool, at: str) -> PullRequest | ForgeIssue:
    """Make a stand-in for a thing that the forge has deleted, as of now."""
    author = ForgeUser(source=source, login="ghost", id=-1)
    what = PullRequest if pull else ForgeIssue
    return what(number=number, author=author, is_open=False, updated_at=at)


def make_events(found: ForgeSnapshot, registry: ForgeRegistry) -> tuple[ForgeEvent, ...]:
    """Make the events that would have reported everything that is owed here, in a possible order."""
    thing = found.thing
    of_it = _of_pull(found, thing, registry) if isinstance(thing, PullRequest) else _of_issue(found, thing, registry)
    return tuple(of_it)


def decide(found: ForgeSnapshot, event: ForgeEvent, registry: ForgeRegistry, known: ForgeKnowledge) -> EventDecision:
    """Decide what follows from one of the events of `make_events`. Warnings of webhooks are not repeated."""
    over = find_settled_tasks(found, known.tasks, registry)
    met = frozenset({*over, *_answered(found, event, registry)})
    decision = event_tasks.decide(event, registry, replace(known, met=met))
    gone = {each.key for each in decision.withdrawn} | {key for task in decision.tasks for key in task.replaces}
    closed = [
        Withdrawal(task.key, over[task.key])
        for task in known.tasks
        if task.key in over and task.key not in gone and task.state == "waiting"
    ]
    withdrawn = (*(replace(each, reason=over.get(each.key, each.reason)) for each in decision.withdrawn), *closed)
    noted = _remember_sightings(found, event, over, decision, known)
    return replace(
        decision, withdrawn=withdrawn, sightings=noted, warnings=(), ignored="" if closed else decision.ignored
    )


def find_settled_tasks(found: ForgeSnapshot, tasks: Iterable[KnownTask], registry: ForgeRegistry) -> dict[str, str]:
    """Keys of tasks of which the forge shows that nothing is left to do → why. What it does not show stays."""
    unsaid = _unsaid(found, tasks)
    pull = found.pull
    if pull is None or not pull.is_open:
        return unsaid
    reviewers = [registry.agent_of(each.author) for each in found.reviews if _counts(each, pull)]
    over = {
        dedup_keys.review_wanted(found.source, found.key, pull, agent): REVIEWED
        for agent in reviewers
        if agent is not None
    }
    if found.statuses and all(each.outcome == "success" for each in found.statuses):
        over[dedup_keys.ci_failure(found.source, found.key, pull.head_sha)] = GREEN
    given = {(dedup_keys.user(each.author), each.verdict) for each in found.reviews if not each.dismissed}
    took_back = {
        registry.agent_of(each.by) for each in found.changes if each.what == "dismissed" and each.by is not None
    }
    for task in tasks:
        mine = task.action_type == "review_result" and task.object == found.object
        if mine and (task.reviewer, task.verdict) not in given and task.assignee not in took_back:
            over[task.key] = TAKEN_BACK
    return over | unsaid


def _unsaid(found: ForgeSnapshot, tasks: Iterable[KnownTask]) -> dict[str, str]:
    """Calls in comments that are not there any more, where all were read."""
    if found.comments is None or not found.thing.is_open:
        return {}
    there = {f"comment-{each.id}" for each in found.comments}
    mine = [each for each in tasks if each.action_type == "mention" and each.object == found.object]
    places = {each.key: dedup_keys.comment_of(each.key) for each in mine}
    return {key: UNSAID for key, place in places.items() if place and place not in there}


# Events


def _of_pull(found: ForgeSnapshot, pull: PullRequest, registry: ForgeRegistry) -> Iterable[ForgeEvent]:
    if found.deleted:
        yield _event(found, "pull_request_deleted", None)
        return
    if not pull.is_open:
        yield _event(found, "pull_request_merged" if pull.merged else "pull_request_closed", _closer(found))
        return
    yield _event(found, "pull_request_opened", pull.author)
    for reviewer in _asked_again(pull):
        yield _event(found, "review_requested", None, requested_reviewer=reviewer, freed=_handed_in(found))
    for review in _due(found, pull):
        yield _event(found, "review_submitted", review.author, at=review.submitted_at, review=review)
    red = [each for each in found.statuses if each.outcome == "failure" and not is_deployment(each, registry)]
    if red:
        yield _event(found, "status_changed", None, status=red[0])
    yield from _calls(found, registry)


def _of_issue(found: ForgeSnapshot, issue: ForgeIssue, registry: ForgeRegistry) -> Iterable[ForgeEvent]:
    if found.deleted:
        yield _event(found, "issue_deleted", None)
        return
    if not issue.is_open:
        yield _event(found, "issue_closed", _closer(found))
        return
    for who in _left(found, issue):
        yield _event(found, "issue_unassigned", who, assignee=who)
    yield _event(found, "issue_assigned", None, freed=_freed(found))
    # Who wrote the text is not who assigned it, so that this is an event of its own.
    yield _event(found, "issue_edited", issue.author, body_before="")
    yield from _calls(found, registry)


def _asked_again(pull: PullRequest) -> list[ForgeUser]:
    """List the accounts that are asked now and have reviewed this head before."""
    given = (*pull.reviewed_by, *pull.remarked_by)
    return [each for each in pull.requested_reviewers or () if any(same_user(each, author) for author in given)]


def _handed_in(found: ForgeSnapshot) -> dict[str, str]:
    """Reviewer → when the newest review was handed in."""
    return {dedup_keys.user(each.author): each.submitted_at for each in found.reviews}


def _closer(found: ForgeSnapshot) -> ForgeUser | None:
    """Find who merged or closed a thing, if the forge shows it."""
    merged = found.pull.merged_by if found.pull else None
    closed = [each.by for each in found.changes if each.what == "closed"]
    return merged or (closed[-1] if closed else None)


def _left(found: ForgeSnapshot, issue: ForgeIssue) -> list[ForgeUser]:
    """List former assignees who removed themselves."""
    last = {dedup_keys.user(each.who): each for each in found.changes if each.what == "unassigned" and each.who}
    gone = [each.who for each in last.values() if each.who is not None and same_user(each.by, each.who)]
    return [each for each in gone if not any(same_user(each, other) for other in issue.assignees)]


def _freed(found: ForgeSnapshot) -> dict[str, str]:
    """Find when assignees last owed nothing: not assigned, or all of them while the issue was closed."""
    freed: dict[str, str] = {}
    for each in found.changes:
        if each.what == "closed":
            freed[""] = each.at
        elif each.what == "unassigned" and each.who is not None:
            freed[dedup_keys.user(each.who)] = each.at
    return freed


def _due(found: ForgeSnapshot, pull: PullRequest) -> list[Review]:
    """List the newest verdict of each reviewer on this head, and remarks that the author has not answered."""
    verdicts: dict[str, Review] = {}
    remarks: dict[str, Review] = {}
    for each in found.reviews:
        name = dedup_keys.user(each.author)
        if each.dismissed:
            continue
        if each.verdict != "COMMENT":
            verdicts[name] = each  # the newest one, of any head
        elif _counts(each, pull) and not _spoke(found, pull.author, since=each.submitted_at):
            remarks[name] = each
    given = [each for each in verdicts.values() if _counts(each, pull)]
    return [*given, *(each for name, each in remarks.items() if verdicts.get(name) not in given)]


def _counts(review: Review, pull: PullRequest) -> bool:
    """Whether a review is of this head."""
    return not review.dismissed and bool(review.commit) and review.commit == pull.head_sha


def _calls(found: ForgeSnapshot, registry: ForgeRegistry) -> Iterable[ForgeEvent]:
    """Comments that call agents who have not said anything since. What CI services say is in the statuses."""
    for comment in found.comments or ():
        ours = registry.find_failure_line(found.source, comment.author.login, comment.body) is not None
        called = [registry.find_identity(found.source, name) for name in mentions.find_names(comment.body)]
        if not ours and any(called):
            yield _event(found, "comment_created", comment.author, at=comment.created_at, comment=comment)


def list_callers(found: ForgeSnapshot, registry: ForgeRegistry) -> list[str]:
    """Names of the people there who call agents, or review, and of whom the settings do not say whether they may."""
    texts = [(each.author, each.body) for each in (*(found.comments or ()), found.thing)]
    calling = [
        author
        for author, text in texts
        if any(registry.find_identity(found.source, x) for x in mentions.find_names(text))
    ]
    people = [*calling, *(each.author for each in found.reviews)]
    unknown = [each for each in people if registry.agent_of(each) is None and not registry.may_call(each)]
    return list(dict.fromkeys(each.login for each in unknown))


def _answered(found: ForgeSnapshot, event: ForgeEvent, registry: ForgeRegistry) -> set[str]:
    """Keys of calls that were answered: the called account has written something since."""
    keys = set()
    place, since, text = _text(found, event)
    for name in mentions.find_names(text):
        identity = registry.find_identity(found.source, name)
        if identity is None:
            continue
        account = ForgeUser(source=found.source, login=identity.login, id=identity.id)
        if _spoke(found, account, since=since):
            keys.add(dedup_keys.mention(event, place, identity.agent))
    return keys


def _text(found: ForgeSnapshot, event: ForgeEvent) -> tuple[str, str, str]:
    """Return the text of an event that may call an agent: place, moment and words."""
    if event.comment is not None:
        return f"comment-{event.comment.id}", event.comment.created_at, event.comment.body
    if event.review is not None and found.pull is not None:
        key = dedup_keys.review_given(event, found.pull, event.review)
        return f"review-{key}", event.review.submitted_at, event.review.body
    return f"{found.thing.number}-body", "", found.thing.body


def _spoke(found: ForgeSnapshot, account: ForgeUser, *, since: str) -> bool:
    """Return whether an account wrote a comment or a review after a moment. Unread places count as seen before."""
    if found.comments is None:
        return True
    comments = [each.created_at for each in found.comments if comment_threads.is_written_by(each, account)]
    reviews = [each.submitted_at for each in found.reviews if same_user(each.author, account)]
    return any(at > since for at in (*comments, *reviews))


def _event(
    found: ForgeSnapshot, name: EventName, sender: ForgeUser | None, *, at: str = "", **parts: Any
) -> ForgeEvent:
    return ForgeEvent(
        source=found.source,
        kind=found.kind,
        name=name,
        repository=Repository(full_name=found.repository, id=found.repository_id, known_as=found.known_as),
        sender=sender,
        pull_request=found.pull,
        issue=found.issue,
        at=at or found.thing.updated_at,
        first_hand=True,
        writer=sender is not None and sender.login.lower() in found.writers,
        **parts,
    )


# What is remembered


def _remember_sightings(
    found: ForgeSnapshot, event: ForgeEvent, over: Mapping[str, str], decision: EventDecision, known: ForgeKnowledge
) -> tuple[Sighting, ...]:
    """Collect what to remember: sightings with the keys that are settled, and other keys of the same review."""
    before = next((each for each in known.sightings if sightings.object_of(each) == found.object), None)
    now = next((each for each in decision.sightings if sightings.object_of(each) == found.object), before)
    if now is None or found.pull is None:
        return decision.sightings
    near = {
        key for each in _due(found, found.pull) for key in dedup_keys.neighbour_review_keys(event, found.pull, each)
    }
    tasks = {*(each.key for each in known.tasks), *(each.key for each in decision.tasks)}
    met = tuple(sorted({*over, *(near - tasks)}))
    others = tuple(each for each in decision.sightings if sightings.object_of(each) != found.object)
    noted = now.model_copy(update={"met": met})
    return others if noted == before else (*others, noted)
