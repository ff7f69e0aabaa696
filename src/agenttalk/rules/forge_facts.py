"""What is so at a forge, from what was read there. What was not read yet is asked for; what is not there is not so.

Every question is asked of `Facts`. Where one of them was not read, `UnreadError` names it: whoever reads forges reads
it and asks again, so that exactly what is needed is read, and what is answered depends on nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from agenttalk.contracts.forge import (
    Comment,
    Comparison,
    ForgeUser,
    Issue,
    PullRequest,
    Review,
    ReviewVerdict,
    Status,
)
from agenttalk.rules.forge_registry import same_user

What = Literal["pull", "reviews", "review_comments", "comments", "statuses", "issue", "compare", "pulls_since"]
_SHORT: Final = 10
"""Characters of a commit that are shown."""
_LEAST_SHA: Final = 7
"""Characters of a commit by which it may be named."""


class Look(NamedTuple):
    """Something to read at a forge."""

    what: What
    repository: str
    key: str
    """A number, a commit, `base...head`, `number/review`, or a moment."""


class UnreadError(Exception):
    """Something has to be read first."""

    def __init__(self, look: Look) -> None:
        super().__init__(f"{look.what} {look.repository} {look.key}")
        self.look = look


class Answer(NamedTuple):
    """Whether something is so, and what was seen of it."""

    good: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read. None stands for what the forge does not have."""

    read: Mapping[Look, Any] = field(default_factory=dict)

    def pull(self, repository: str, number: int) -> PullRequest | None:
        """A pull request."""
        found: PullRequest | None = self._get("pull", repository, str(number))
        return found

    def issue(self, repository: str, number: int) -> Issue | None:
        """An issue."""
        found: Issue | None = self._get("issue", repository, str(number))
        return found

    def reviews(self, repository: str, number: int) -> tuple[Review, ...]:
        """Reviews of a pull request, the oldest first."""
        return tuple(self._get("reviews", repository, str(number)) or ())

    def review_comments(self, repository: str, number: int, review: int) -> tuple[Comment, ...]:
        """Comments on lines of one review."""
        return tuple(self._get("review_comments", repository, f"{number}/{review}") or ())

    def comments(self, repository: str, number: int) -> tuple[Comment, ...]:
        """Comments on an issue or pull request."""
        return tuple(self._get("comments", repository, str(number)) or ())

    def statuses(self, repository: str, ref: str) -> tuple[Status, ...]:
        """The newest status of each context."""
        return tuple(self._get("statuses", repository, ref) or ())

    def compare(self, repository: str, base: str, head: str) -> Comparison | None:
        """What lies between two commits."""
        found: Comparison | None = self._get("compare", repository, f"{base}...{head}")
        return found

    def pulls_since(self, repository: str, at: str) -> tuple[PullRequest, ...]:
        """Pull requests, open or not, that changed since then."""
        return tuple(self._get("pulls_since", repository, at) or ())

    def _get(self, what: What, repository: str, key: str) -> Any:
        look = Look(what, repository, key)
        if look not in self.read:
            raise UnreadError(look)
        return self.read[look]


def short(sha: str) -> str:
    """A commit as people read it."""
    return sha[:_SHORT] or "no commit"


def named(user: ForgeUser | None) -> str:
    """An account as people read it."""
    return user.login if user else "nobody knows whom"


def same_commit(left: str, right: str) -> bool:
    """Whether two names mean one commit; one of them may be cut."""
    one, other = sorted((left.lower(), right.lower()), key=len)
    return len(one) >= _LEAST_SHA and other.startswith(one)


def merged(facts: Facts, repository: str, number: int, *, by: ForgeUser | None = None, head: str = "") -> Answer:
    """Whether a pull request is merged; if asked for, by somebody, and at a head."""
    pull = facts.pull(repository, number)
    place = f"{repository}#{number}"
    if pull is None:
        return Answer(False, f"there is no pull request {place}")
    if not pull.merged:
        return Answer(False, f"{place} is not merged: it is {'open' if pull.is_open else 'closed'}")
    if by is not None and not same_user(pull.merged_by, by):
        return Answer(False, f"{place} was merged by {named(pull.merged_by)}, not by {by.login}")
    if head and not same_commit(pull.head_sha, head):
        return Answer(False, f"{place} was merged at {short(pull.head_sha)}, and {short(head)} was approved")
    return Answer(True, f"{place} was merged by {named(pull.merged_by)} at {short(pull.head_sha)}")


class Wanted(NamedTuple):
    """Which review counts."""

    by: ForgeUser
    since: str = ""
    head: str = ""
    """The commit that it has to be about; the newest one will do, too."""
    verdicts: Collection[ReviewVerdict] = ("APPROVED", "REQUEST_CHANGES")
    id: int | None = None
    newest: bool = False
    """Whether only the last word counts."""


def reviewed(facts: Facts, repository: str, number: int, wanted: Wanted) -> Answer:
    """Whether somebody has reviewed a pull request as it is asked for."""
    place, every = f"{repository}#{number}", facts.reviews(repository, number)
    own = [each for each in every if same_user(each.author, wanted.by) and wanted.id in {None, each.id}]
    if wanted.newest:
        own = [each for each in own if each.verdict != "COMMENT" or "COMMENT" in wanted.verdicts][-1:]
    if not own:
        which = f" {wanted.id}" if wanted.id is not None else ""
        return Answer(False, f"there is no review{which} of {place} by {wanted.by.login}")
    faults = [_review_fault(facts, repository, number, each, wanted) for each in own]
    for review, fault in zip(own, faults, strict=True):
        if not fault:
            return Answer(
                True, f"{place} was reviewed by {wanted.by.login}: {review.verdict} of {short(review.commit)}"
            )
    return Answer(False, f"the review of {place} by {wanted.by.login} {faults[-1]}")


def _review_fault(facts: Facts, repository: str, number: int, review: Review, wanted: Wanted) -> str:
    if wanted.since and review.submitted_at < wanted.since:
        return f"was handed in at {review.submitted_at or 'no known time'}, before {wanted.since}"
    if review.verdict not in wanted.verdicts:
        return f"is {review.verdict}, and {' or '.join(wanted.verdicts)} is asked for"
    if wanted.head and not same_commit(review.commit, wanted.head):
        pull = facts.pull(repository, number)
        if pull is None or not same_commit(review.commit, pull.head_sha):
            return f"is of {short(review.commit)}, an old head: it has to be of {short(wanted.head)}"
    return ""


def new_head(facts: Facts, repository: str, number: int, before: str, *, by: ForgeUser | None = None) -> Answer:
    """Whether commits were pushed to a pull request since a head; if asked for, not only by others."""
    pull, place = facts.pull(repository, number), f"{repository}#{number}"
    if pull is None:
        return Answer(False, f"there is no pull request {place}")
    if not before or not pull.head_sha:
        return Answer(False, f"nobody knows which head {place} had")
    if same_commit(pull.head_sha, before):
        return Answer(False, f"the head of {place} is still {short(before)}")
    between = facts.compare(repository, before, pull.head_sha)
    if between is None or not between.commits:
        return Answer(False, f"the head of {place} is {short(pull.head_sha)}, which adds nothing to {short(before)}")
    others = [each for each in between.authors if by is None or not same_user(each, by)]
    if by is not None and others and len(others) == len(between.authors):
        return Answer(False, f"the new commits of {place} are {others[-1].login}'s, not {by.login}'s")
    count = "1 commit" if len(between.commits) == 1 else f"{len(between.commits)} commits"
    return Answer(True, f"{place} has a new head {short(pull.head_sha)}, {count} after {short(before)}")


def commented(
    facts: Facts, repository: str, number: int, by: ForgeUser, *, since: str = "", id_: int | None = None
) -> Answer:
    """Whether somebody has written a comment."""
    place = f"{repository}#{number}"
    every = facts.comments(repository, number)
    own = [each for each in every if same_user(each.author, by) and each.created_at >= since]
    found = [each for each in own if id_ in {None, each.id}]
    if found:
        return Answer(True, f"{by.login} wrote comment {found[-1].id} on {place}")
    which = f" {id_}" if id_ is not None else ""
    others = [each for each in every if each.id == id_ or (id_ is None and each.created_at >= since)]
    more = f"; the last one is {others[-1].author.login}'s" if others else ""
    return Answer(False, f"there is no comment{which} on {place} by {by.login} since {since or 'ever'}{more}")


def succeeded(facts: Facts, repository: str, ref: str, context: str = "") -> Answer:
    """Whether the newest statuses of a commit are good: that of a context, or all of them."""
    place = f"{repository} at {short(ref)}"
    every = facts.statuses(repository, ref)
    found = [each for each in every if not context or each.context == context]
    if not found:
        return Answer(False, f"there is no status {context!r} of {place}" if context else f"{place} has no status")
    bad = [each for each in found if each.outcome != "success"]
    if bad:
        return Answer(False, f"the status {bad[0].context!r} of {place} is no success")
    return Answer(True, f"{len(found)} of {place} are good: {', '.join(each.context for each in found[:3])}")


def closed(facts: Facts, repository: str, number: int) -> Answer:
    """Whether an issue is closed."""
    issue = facts.issue(repository, number)
    if issue is None:
        return Answer(False, f"there is no issue {repository}#{number}")
    return Answer(not issue.is_open, f"{repository}#{number} is {'open' if issue.is_open else 'closed'}")


def opened_for(facts: Facts, repository: str, number: int, by: ForgeUser, *, since: str) -> Answer:
    """Whether somebody has opened a pull request that names an issue."""
    own = [
        each for each in facts.pulls_since(repository, since) if same_user(each.author, by) and each.created_at >= since
    ]
    for each in own:
        if names_issue(f"{each.title}\n{each.body}", repository, number):
            return Answer(True, f"{repository}#{each.number} by {by.login} names #{number}")
    more = f"; {repository}#{own[-1].number} does not" if own else ""
    return Answer(False, f"no pull request by {by.login} since {since} names {repository}#{number}{more}")


def names_issue(text: str, repository: str, number: int) -> bool:
    """Whether a text names an issue of this repository, and not one of another."""
    name = re.escape(repository)
    short_form = rf"(?<![\w/.\-])(?:{name})?#{number}(?!\w)"
    address = rf"/{name}/issues/{number}(?!\w)"
    return re.search(f"{short_form}|{address}", text, re.IGNORECASE) is not None
