"""What is so at a forge, from what was read there. What was not read yet is asked for; what is not there is not so.

Every question is asked of `Facts`. Where one of them was not read, `UnreadError` names it: whoever reads forges reads
it and asks again, so that exactly what is needed is read, and what is answered depends on nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from agenttalk.contracts.forge import (
    Branch,
    Change,
    Comment,
    Comparison,
    ForgeUser,
    Issue,
    PullRequest,
    Review,
    ReviewVerdict,
    Status,
)
from agenttalk.rules import words_of_forges
from agenttalk.rules.forge_registry import same_user
from agenttalk.rules.mentions import read_marker

What = Literal[
    "pull",
    "reviews",
    "review_comments",
    "comments",
    "statuses",
    "issue",
    "compare",
    "pulls_since",
    "changes",
    "branch",
]
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

    def changes(self, repository: str, number: int) -> tuple[Change, ...]:
        """What was done to an issue or pull request, the oldest first."""
        return tuple(self._get("changes", repository, str(number)) or ())

    def branch(self, repository: str, name: str) -> Branch | None:
        """What a branch asks of those who merge into it."""
        found: Branch | None = self._get("branch", repository, name)
        return found

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
    return sha[:_SHORT] or words_of_forges.NO_COMMIT()


def named(user: ForgeUser | None) -> str:
    """An account as people read it."""
    return user.login if user else words_of_forges.UNKNOWN_WHO()


def same_commit(left: str, right: str) -> bool:
    """Whether two names mean one commit; one of them may be cut."""
    one, other = sorted((left.lower(), right.lower()), key=len)
    return len(one) >= _LEAST_SHA and other.startswith(one)


def merged(facts: Facts, repository: str, number: int, *, by: ForgeUser | None = None, head: str = "") -> Answer:
    """Whether a pull request is merged; if asked for, by somebody, and at a head."""
    pull = facts.pull(repository, number)
    place = f"{repository}#{number}"
    if pull is None:
        return Answer(False, words_of_forges.NO_PULL(place=place))
    if not pull.merged:
        unmerged = words_of_forges.NOT_MERGED_OPEN if pull.is_open else words_of_forges.NOT_MERGED_CLOSED
        return Answer(False, unmerged(place=place))
    if by is not None and not same_user(pull.merged_by, by):
        return Answer(False, words_of_forges.MERGED_BY_OTHER(place=place, who=named(pull.merged_by), by=by.login))
    if head and not same_commit(pull.head_sha, head):
        return Answer(False, words_of_forges.MERGED_ELSEWHERE(place=place, at=short(pull.head_sha), head=short(head)))
    return Answer(True, words_of_forges.MERGED(place=place, who=named(pull.merged_by), at=short(pull.head_sha)))


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
        return Answer(False, words_of_forges.NO_REVIEW(which=which, place=place, by=wanted.by.login))
    faults = [_review_fault(facts, repository, number, each, wanted) for each in own]
    for review, fault in zip(own, faults, strict=True):
        if not fault:
            return Answer(
                True,
                words_of_forges.REVIEWED(
                    place=place, by=wanted.by.login, verdict=review.verdict, commit=short(review.commit)
                ),
            )
    return Answer(False, words_of_forges.BAD_REVIEW(place=place, by=wanted.by.login, why=faults[-1]))


def _review_fault(facts: Facts, repository: str, number: int, review: Review, wanted: Wanted) -> str:
    if wanted.since and review.submitted_at < wanted.since:
        return words_of_forges.TOO_EARLY(at=review.submitted_at or words_of_forges.NO_TIME(), since=wanted.since)
    if review.verdict not in wanted.verdicts:
        return words_of_forges.OTHER_VERDICT(found=review.verdict, asked=" or ".join(wanted.verdicts))
    if wanted.head and not same_commit(review.commit, wanted.head):
        pull = facts.pull(repository, number)
        if pull is None or not same_commit(review.commit, pull.head_sha):
            return words_of_forges.OLD_HEAD(found=short(review.commit), asked=short(wanted.head))
    return ""


def new_head(facts: Facts, repository: str, number: int, before: str, *, by: ForgeUser | None = None) -> Answer:
    """Whether commits were pushed to a pull request since a head; if asked for, not only by others."""
    pull, place = facts.pull(repository, number), f"{repository}#{number}"
    if pull is None:
        return Answer(False, words_of_forges.NO_PULL(place=place))
    if not before or not pull.head_sha:
        return Answer(False, words_of_forges.UNKNOWN_HEAD(place=place))
    if same_commit(pull.head_sha, before):
        return Answer(False, words_of_forges.SAME_HEAD(place=place, head=short(before)))
    between = facts.compare(repository, before, pull.head_sha)
    if between is None or not between.commits:
        return Answer(False, words_of_forges.NOTHING_NEW(place=place, head=short(pull.head_sha), before=short(before)))
    others = [each for each in between.authors if by is None or not same_user(each, by)]
    if by is not None and others and len(others) == len(between.authors):
        return Answer(False, words_of_forges.COMMITS_OF_OTHERS(place=place, who=others[-1].login, by=by.login))
    count = len(between.commits)
    commits = words_of_forges.ONE_COMMIT() if count == 1 else words_of_forges.COMMITS(count=count)
    return Answer(
        True, words_of_forges.NEW_HEAD(place=place, head=short(pull.head_sha), commits=commits, before=short(before))
    )


def is_by(comment: Comment, user: ForgeUser) -> bool:
    """Whether somebody wrote a comment. What the engine wrote is nobody's deed, also where it shares an account."""
    marker = read_marker(comment.body)
    return same_user(comment.author, user) and not (marker is not None and marker.by_engine)


def commented(
    facts: Facts, repository: str, number: int, by: ForgeUser, *, since: str = "", id_: int | None = None
) -> Answer:
    """Whether somebody has written a comment."""
    place = f"{repository}#{number}"
    every = facts.comments(repository, number)
    own = [each for each in every if is_by(each, by) and each.created_at >= since]
    found = [each for each in own if id_ in {None, each.id}]
    if found:
        return Answer(True, words_of_forges.COMMENTED(by=by.login, id=found[-1].id, place=place))
    which = f" {id_}" if id_ is not None else ""
    others = [each for each in every if each.id == id_ or (id_ is None and each.created_at >= since)]
    ever = since or words_of_forges.EVER()
    if others:
        last = others[-1].author.login
        return Answer(
            False, words_of_forges.NO_COMMENT_BUT(which=which, place=place, by=by.login, ever=ever, last=last)
        )
    return Answer(False, words_of_forges.NO_COMMENT(which=which, place=place, by=by.login, ever=ever))


def succeeded(facts: Facts, repository: str, ref: str, context: str = "") -> Answer:
    """Whether the newest statuses of a commit are good: that of a context, or all of them."""
    place = f"{repository} at {short(ref)}"
    every = facts.statuses(repository, ref)
    found = [each for each in every if not context or each.context == context]
    if not found:
        return Answer(
            False,
            words_of_forges.NO_SUCH_STATUS(name=context, place=place)
            if context
            else words_of_forges.NO_STATUS(place=place),
        )
    bad = [each for each in found if each.outcome != "success"]
    if bad:
        return Answer(False, words_of_forges.BAD_STATUS(name=bad[0].context, place=place))
    return Answer(
        True,
        words_of_forges.GOOD_STATUSES(
            count=len(found), place=place, names=", ".join(each.context for each in found[:3])
        ),
    )


def of_context(statuses: Iterable[Status], context: str) -> list[Status]:
    """Those of a context: of that name, or of a job of a workflow of that name."""
    return [each for each in statuses if each.context == context or each.context.startswith(f"{context} /")]


def closed(facts: Facts, repository: str, number: int) -> Answer:
    """Whether an issue is closed."""
    issue = facts.issue(repository, number)
    if issue is None:
        return Answer(False, words_of_forges.NO_ISSUE(place=f"{repository}#{number}"))
    state = words_of_forges.IS_OPEN if issue.is_open else words_of_forges.IS_CLOSED
    return Answer(not issue.is_open, state(place=f"{repository}#{number}"))


def opened_for(facts: Facts, repository: str, number: int, by: ForgeUser, *, since: str) -> Answer:
    """Whether somebody has opened a pull request that names an issue."""
    own = [
        each for each in facts.pulls_since(repository, since) if same_user(each.author, by) and each.created_at >= since
    ]
    for each in own:
        if names_issue(f"{each.title}\n{each.body}", repository, number):
            return Answer(
                True, words_of_forges.PULL_NAMES_ISSUE(repo=repository, own=each.number, by=by.login, number=number)
            )
    told = {"by": by.login, "since": since, "place": f"{repository}#{number}"}
    if own:
        return Answer(False, words_of_forges.NONE_NAMES_BUT(**told, own=f"{repository}#{own[-1].number}"))
    return Answer(False, words_of_forges.NONE_NAMES(**told))


def names_issue(text: str, repository: str, number: int) -> bool:
    """Whether a text names an issue of this repository, and not one of another."""
    name = re.escape(repository)
    short_form = rf"(?<![\w/.\-])(?:{name})?#{number}(?!\w)"
    address = rf"/{name}/issues/{number}(?!\w)"
    return re.search(f"{short_form}|{address}", text, re.IGNORECASE) is not None
