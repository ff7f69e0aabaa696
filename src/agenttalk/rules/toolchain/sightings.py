"""Which of two sightings of a pull request or issue is the newer one.

Forges deliver in any order. What decides is the moment that the forge wrote into the object, so the newest sighting
is the same in any order of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agenttalk.contracts.forge import ForgeEvent, ForgeIssue, ForgeUser, PullRequest, Review, Sighting
from agenttalk.rules.toolchain import dedup_keys
from agenttalk.rules.toolchain.accounts import same_user

_RANKS: Final[Mapping[str, int]] = {
    "pull_request_opened": 0,
    "issue_opened": 0,
    "pull_request_synced": 2,  # written before the forge notes the time of the push, so it carries an earlier one
    "pull_request_closed": 3,
    "pull_request_merged": 3,
    "issue_closed": 3,
    "issue_deleted": 4,
    "pull_request_deleted": 4,
}
_CLOSING: Final = frozenset({"issue_closed", "pull_request_closed", "pull_request_merged"})
_NARROWING: Final = frozenset({"review_request_removed", "issue_unassigned"})


def read_sighting(event: ForgeEvent) -> Sighting | None:
    """Read what an event shows of its pull request or issue."""
    pull, issue = event.pull_request, event.issue
    if pull is not None:
        at = pull.updated_at or event.at
        sighting = _sighting(event, at, pull_request=_with_requested(event, pull))
        review = event.review
        if event.name == "review_request_removed" and event.requested_reviewer is not None:
            return sighting.model_copy(update={"freed": {dedup_keys.user(event.requested_reviewer): at}})
        if review is None or event.name == "review_dismissed":
            return sighting
        author = dedup_keys.user(review.author)
        changes = {"freed": _latest(event.freed, {author: review.submitted_at or event.at})}
        if review.verdict != "COMMENT":
            changes["verdicts"] = {author: verdict_of(event, review)}
        return sighting.model_copy(update=changes)
    if issue is not None and not issue.is_pull:
        sighting = _sighting(event, issue.updated_at or event.at, issue=issue)
        shown = {"self_assigned": _taken(event, issue), "freed": _latest(event.freed, _freed(event, issue))}
        return sighting.model_copy(update={**shown, "left": _left(event, issue)})
    return None


def _freed(event: ForgeEvent, issue: ForgeIssue) -> dict[str, str]:
    """Find who owes nothing, by an event: all while the issue is closed, and before it was reopened."""
    at = issue.updated_at or event.at
    if not issue.is_open or event.name == "issue_reopened":
        return {"": at}
    if event.name == "issue_unassigned" and event.assignee is not None:
        return {dedup_keys.user(event.assignee): at}
    return {}


def merge_sightings(known: Sighting | None, seen: Sighting) -> Sighting:
    """Merge two sightings of a thing: the newer wins, and those of the same moment are combined."""
    if known is None:
        return seen
    verdicts = dict(known.verdicts)
    for name, verdict in seen.verdicts.items():
        verdicts[name] = max(verdict, verdicts.get(name, ""))
    kept = {"owed": seen.owed or known.owed, "verdicts": verdicts, "met": known.met, "covered": known.covered}
    kept["unsaid"] = tuple(sorted({*known.unsaid, *seen.unsaid}))
    kept["freed"] = _latest(known.freed, seen.freed, _between(known, seen))
    now = _newest(known, seen)
    thing = now.pull_request or now.issue
    closed = thing is not None and not thing.is_open
    kept["left"] = _still_off(now, known.left, seen.left)
    kept["closed_by"] = (now.closed_by or known.closed_by or seen.closed_by) if closed else None
    return now.model_copy(update=kept)


def _left(event: ForgeEvent, issue: ForgeIssue) -> tuple[ForgeUser, ...]:
    """List the accounts that remove themselves from the issue by this event."""
    sender = event.sender
    if event.name != "issue_unassigned" or sender is None or any(same_user(sender, each) for each in issue.assignees):
        return ()
    return (sender,)


def _still_off(now: Sighting, *left: tuple[ForgeUser, ...]) -> tuple[ForgeUser, ...]:
    """List the accounts that left and were not assigned again."""
    assigned = now.issue.assignees if now.issue else ()
    return tuple(dict.fromkeys(each for every in left for each in every if each not in assigned))


def _latest(*every: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in every:
        for name, at in each.items():
            found[name] = max(at, found.get(name, ""))
    return found


def _between(known: Sighting, seen: Sighting) -> dict[str, str]:
    """Return the accounts that two sightings of an issue together show to have owed nothing, in any order."""
    older, newer = sorted((known, seen), key=lambda each: each.at)
    if older.issue is None or newer.issue is None:
        return {}
    before = {dedup_keys.user(each) for each in older.issue.assignees}
    after = {dedup_keys.user(each) for each in newer.issue.assignees}
    return {**dict.fromkeys(before - after, newer.at), **dict.fromkeys(after - before, older.at)}


def verdict_of(event: ForgeEvent, review: Review) -> str:
    """Return a verdict with its moment. Of two of the same moment, the one that asks for work counts."""
    return f"{review.submitted_at or event.at} {int(review.verdict == 'REQUEST_CHANGES')} {review.verdict}"


def _newest(known: Sighting, seen: Sighting) -> Sighting:
    if seen.at != known.at or seen.first_hand:  # what was read now holds also for those who are not on a list any more
        return _taken_before(known, seen) if seen.at >= known.at else known
    # Of the same moment: the later kind of event tells the state, and both together tell who is asked.
    later, other = (seen, known) if seen.rank >= known.rank else (known, seen)
    merged = later.model_copy(update={"narrowed": known.narrowed or seen.narrowed})
    if later.pull_request and other.pull_request:
        asked = _together(later, other, later.pull_request.requested_reviewers, other.pull_request.requested_reviewers)
        pull = later.pull_request.model_copy(update={"requested_reviewers": asked})
        return merged.model_copy(update={"pull_request": pull})
    if later.issue and other.issue:
        assigned = _together(later, other, later.issue.assignees, other.issue.assignees)
        issue = later.issue.model_copy(update={"assignees": assigned or ()})
        return _taken_before(other, merged.model_copy(update={"issue": issue}))
    return merged


def _together(
    left: Sighting, right: Sighting, mine: tuple[ForgeUser, ...] | None, others: tuple[ForgeUser, ...] | None
) -> tuple[ForgeUser, ...] | None:
    """Combine two lists of one moment: all accounts of both, unless one was made by a removal."""
    if left.narrowed != right.narrowed:
        return mine if left.narrowed else others
    return None if mine is None and others is None else _both(mine or (), others or ())


def object_of(sighting: Sighting) -> str:
    """Return the key of the thing that was seen."""
    thing: PullRequest | ForgeIssue | None = sighting.pull_request or sighting.issue
    return dedup_keys.object_of(sighting.source, sighting.repository, thing.number if thing else 0)


def _sighting(
    event: ForgeEvent, at: str, *, pull_request: PullRequest | None = None, issue: ForgeIssue | None = None
) -> Sighting:
    return Sighting(
        source=event.source,
        repository=event.repository.key,
        pull_request=pull_request,
        issue=issue,
        at=at,
        rank=_RANKS.get(event.name, 1),
        narrowed=event.name in _NARROWING,
        first_hand=event.first_hand,
        closed_by=event.sender if event.name in _CLOSING else None,
        freed=event.freed,
    )


def _with_requested(event: ForgeEvent, pull: PullRequest) -> PullRequest:
    """Add the reviewer whom this event requests: some forges update the list later."""
    if event.name != "review_requested" or event.requested_reviewer is None:
        return pull
    asked = _both(pull.requested_reviewers or (), (event.requested_reviewer,))
    return pull.model_copy(update={"requested_reviewers": asked})


def _taken(event: ForgeEvent, issue: ForgeIssue) -> tuple[str, ...]:
    """List the accounts that take the issue by this event."""
    sender = event.sender
    if sender is None or event.name not in {"issue_opened", "issue_assigned"}:
        return ()
    assigned = issue.assignees if event.assignee is None else (event.assignee,)
    return tuple(dedup_keys.user(each) for each in assigned if dedup_keys.user(each) == dedup_keys.user(sender))


def _both(left: tuple[ForgeUser, ...], right: tuple[ForgeUser, ...]) -> tuple[ForgeUser, ...]:
    found = {dedup_keys.user(each): each for each in (*left, *right)}
    return tuple(found[name] for name in sorted(found))


def _taken_before(known: Sighting, seen: Sighting) -> Sighting:
    """Keep the accounts that took the issue themselves before and still have it."""
    if seen.issue is None:
        return seen
    names = {dedup_keys.user(each) for each in seen.issue.assignees}
    taken = sorted(names & {*known.self_assigned, *seen.self_assigned})
    return seen.model_copy(update={"self_assigned": tuple(taken)})
