"""What is so at a forge, from what was read there. What was not read yet is asked for; what is not there is not so.

Every question is asked of `ForgeFacts`. Where one of them was not read, `UnreadError` names it: the caller reads it and
asks again, so that exactly what is needed is read, and what is answered depends on nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from agenttalk.contracts.forge import (
    Change,
    Comment,
    Commit,
    Comparison,
    ForgeBranch,
    ForgeIssue,
    ForgeUser,
    PullRequest,
    Push,
    Review,
    ReviewVerdict,
    Status,
)
from agenttalk.rules.text import forge_words
from agenttalk.rules.toolchain.accounts import same_user
from agenttalk.rules.toolchain.comment_threads import is_written_by

QueryKind = Literal[
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
    "open_pulls",
    "head",
    "commit",
    "content",
    "pushes",
    "files",
]
_SHORT: Final = 10
"""Characters of a commit that are shown."""
_LEAST_SHA: Final = 7
"""Characters of a commit by which it may be named."""


class ForgeQuery(NamedTuple):
    """Something to read at a forge."""

    what: QueryKind
    repository: str
    key: str
    """A number, a commit, `base...head`, `number/review`, or a moment."""


class UnreadError(Exception):
    """Something has to be read first."""

    def __init__(self, look: ForgeQuery) -> None:
        super().__init__(f"{look.what} {look.repository} {look.key}")
        self.look = look


class ForgeFinding(NamedTuple):
    """Whether something is so, and what was seen of it."""

    good: bool
    detail: str


@dataclass(frozen=True, slots=True)
class ForgeFacts:
    """What was read. None stands for what the forge does not have."""

    read: Mapping[ForgeQuery, Any] = field(default_factory=dict)

    def pull(self, repository: str, number: int) -> PullRequest | None:
        """Read a pull request."""
        found: PullRequest | None = self._get("pull", repository, str(number))
        return found

    def issue(self, repository: str, number: int) -> ForgeIssue | None:
        """Read an issue."""
        found: ForgeIssue | None = self._get("issue", repository, str(number))
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
        """Read the newest status of each context."""
        return tuple(self._get("statuses", repository, ref) or ())

    def changes(self, repository: str, number: int) -> tuple[Change, ...]:
        """Read the changes of an issue or pull request, the oldest first."""
        return tuple(self._get("changes", repository, str(number)) or ())

    def branch(self, repository: str, name: str) -> ForgeBranch | None:
        """Read a branch and its rules for merging."""
        found: ForgeBranch | None = self._get("branch", repository, name)
        return found

    def compare(self, repository: str, base: str, head: str) -> Comparison | None:
        """Compare two commits."""
        found: Comparison | None = self._get("compare", repository, f"{base}...{head}")
        return found

    def pulls_since(self, repository: str, at: str) -> tuple[PullRequest, ...]:
        """Pull requests, open or not, that changed since then."""
        return tuple(self._get("pulls_since", repository, at) or ())

    def open_pulls(self, repository: str) -> tuple[PullRequest, ...]:
        """List all open pull requests."""
        return tuple(self._get("open_pulls", repository, "") or ())

    def head(self, repository: str, number: int) -> str:
        """Read the newest commit of a pull request while it was open; empty when the forge has none."""
        return str(self._get("head", repository, str(number)) or "")

    def commit(self, repository: str, sha: str) -> Commit | None:
        """Read a commit."""
        found: Commit | None = self._get("commit", repository, sha)
        return found

    def content(self, repository: str, sha: str) -> str:
        """Read a value that is equal for commits with equal files; empty when the forge has no such commit."""
        return str(self._get("content", repository, sha) or "")

    def pushes(self, repository: str, number: int) -> tuple[Push, ...]:
        """List the pushes that moved the head of a pull request, the oldest first."""
        return tuple(self._get("pushes", repository, str(number)) or ())

    def files(self, repository: str, number: int) -> tuple[str, ...]:
        """Paths that a pull request changes."""
        return tuple(self._get("files", repository, str(number)) or ())

    def _get(self, what: QueryKind, repository: str, key: str) -> Any:
        look = ForgeQuery(what, repository, key)
        if look not in self.read:
            raise UnreadError(look)
        return self.read[look]


def shorten_sha(sha: str) -> str:
    """Shorten a commit's hash for people."""
    return sha[:_SHORT] or forge_words.NO_COMMIT()


def display_user(user: ForgeUser | None) -> str:
    """Name an account for people."""
    return user.login if user else forge_words.UNKNOWN_WHO()


def same_commit(left: str, right: str) -> bool:
    """Whether two names mean one commit; one of them may be cut."""
    one, other = sorted((left.lower(), right.lower()), key=len)
    return len(one) >= _LEAST_SHA and other.startswith(one)


def head_of(facts: ForgeFacts, repository: str, pull: PullRequest) -> str:
    """Return the newest commit of a pull request. Once it is closed, its branch is ignored: it may move."""
    return pull.head_sha if pull.is_open else facts.head(repository, pull.number)


def find_merged_head(facts: ForgeFacts, repository: str, pull: PullRequest) -> str:
    """Find the head that was merged; empty when the forge leaves a doubt.

    A merge names it among its parents, a fast-forward is it. After a squash or a rebase the base has other commits, and
    only the pull request's own ref still tells; where that and a merge contradict each other, nothing does.
    """
    head = facts.head(repository, pull.number)
    merge = facts.commit(repository, pull.merge_sha) if pull.merge_sha else None
    if merge is None:
        return ""
    second = merge.parents[1] if len(merge.parents) > 1 else ""
    if not head:
        return second
    agree = same_commit(head, merge.sha) or any(same_commit(head, each) for each in merge.parents)
    if agree or not second:
        return head
    rebased, own = facts.commit(repository, second), facts.commit(repository, head)
    return head if rebased is not None and own is not None and _same_work(rebased, own) else ""


def _same_work(left: Commit, right: Commit) -> bool:
    """Whether one commit is the other, rebased: that keeps the author, the author's time and the words."""
    told = [(each.address, each.authored_at, each.message.strip()) for each in (left, right)]
    return told[0] == told[1]


def check_merged(facts: ForgeFacts, repository: str, number: int, *, by: ForgeUser | None = None) -> ForgeFinding:
    """Check whether a pull request is merged, `by` an account if given. `explain_unapproved` checks the approval."""
    pull = facts.pull(repository, number)
    place = f"{repository}#{number}"
    if pull is None:
        return ForgeFinding(False, forge_words.NO_PULL(place=place))
    if not pull.merged:
        unmerged = forge_words.NOT_MERGED_OPEN if pull.is_open else forge_words.NOT_MERGED_CLOSED
        return ForgeFinding(False, unmerged(place=place))
    if by is not None and not same_user(pull.merged_by, by):
        return ForgeFinding(
            False, forge_words.MERGED_BY_OTHER(place=place, who=display_user(pull.merged_by), by=by.login)
        )
    at = shorten_sha(find_merged_head(facts, repository, pull) or pull.merge_sha)
    return ForgeFinding(True, forge_words.MERGED(place=place, who=display_user(pull.merged_by), at=at))


class Approval(NamedTuple):
    """An approval of which an event told."""

    head: str = ""
    """The commit that was approved."""
    base: str = ""
    """The branch that it was to go to."""
    rests_on: str = ""
    """The commit that it was compared with: commits below it were not examined."""


def explain_unapproved(
    facts: ForgeFacts,
    repository: str,
    number: int,
    by: ForgeUser,
    told_of: Approval = Approval(),  # noqa: B008 - frozen
) -> str:
    """Explain why a merge was not approved: a reviewer wants that head changed, or no reviewer approved it for there.

    An approval of which an event told counts while the forge does not show that it was taken back.
    """
    pull, place = facts.pull(repository, number), f"{repository}#{number}"
    if pull is None or not pull.merged or not same_user(pull.merged_by, by):
        return ""
    head = find_merged_head(facts, repository, pull)
    verdicts = [
        each
        for each in facts.reviews(repository, number)
        if each.verdict != "COMMENT" and not same_user(each.author, pull.author)
    ]
    given = {each.author: each for each in verdicts if not each.dismissed}
    told = {"place": place, "by": by.login, "at": shorten_sha(head or pull.merge_sha)}
    if not head:
        return forge_words.MERGED_UNKNOWN(**told)
    here = [each for each in given.values() if same_commit(each.commit, head)]
    against = [each for each in here if each.verdict == "REQUEST_CHANGES"]
    if against:
        return forge_words.MERGED_REJECTED(**told, who=against[-1].author.login)
    taken_back = any(each.dismissed and same_commit(each.commit, head) for each in verdicts)
    if not here and (taken_back or not same_commit(head, told_of.head)):
        return forge_words.MERGED_UNAPPROVED(**told)
    if told_of.base not in {"", pull.base_ref} and not _went_on(facts, repository, pull, told_of, head):
        return forge_words.MERGED_ELSEWHERE(**told, into=pull.base_ref, base=told_of.base)
    return ""


def _went_on(facts: ForgeFacts, repository: str, pull: PullRequest, told_of: Approval, head: str) -> bool:
    """Whether the branch that an approval was for is gone, and what it rests on was in the other one before the merge.

    That is how forges go on with a pull request whose base was merged. A fast-forward does not show what was before.
    """
    merge = facts.commit(repository, pull.merge_sha)
    if merge is None or not merge.parents or same_commit(merge.sha, head) or not told_of.rests_on:
        return False
    if facts.branch(repository, told_of.base) is not None:
        return False
    missing = facts.compare(repository, merge.parents[0], told_of.rests_on)
    return missing is not None and not missing.commits


class ReviewFilter(NamedTuple):
    """Which review counts."""

    by: ForgeUser
    since: str = ""
    head: str = ""
    """The commit that it has to be about; the newest one will do, too."""
    verdicts: Collection[ReviewVerdict] = ("APPROVED", "REQUEST_CHANGES")
    id: int | None = None
    newest: bool = False
    """Whether only the last word counts."""


def check_reviewed(facts: ForgeFacts, repository: str, number: int, wanted: ReviewFilter) -> ForgeFinding:
    """Check whether an account has reviewed a pull request as asked for."""
    place, every = f"{repository}#{number}", facts.reviews(repository, number)
    own = [each for each in every if same_user(each.author, wanted.by) and wanted.id in {None, each.id}]
    if wanted.newest:
        own = [each for each in own if each.verdict != "COMMENT" or "COMMENT" in wanted.verdicts][-1:]
    if not own:
        which = f" {wanted.id}" if wanted.id is not None else ""
        return ForgeFinding(False, forge_words.NO_REVIEW(which=which, place=place, by=wanted.by.login))
    faults = [_review_fault(facts, repository, number, each, wanted) for each in own]
    for review, fault in zip(own, faults, strict=True):
        if not fault:
            return ForgeFinding(
                True,
                forge_words.REVIEWED(
                    place=place, by=wanted.by.login, verdict=review.verdict, commit=shorten_sha(review.commit)
                ),
            )
    return ForgeFinding(False, forge_words.BAD_REVIEW(place=place, by=wanted.by.login, why=faults[-1]))


def _review_fault(facts: ForgeFacts, repository: str, number: int, review: Review, wanted: ReviewFilter) -> str:
    if wanted.since and review.submitted_at < wanted.since:
        return forge_words.TOO_EARLY(at=review.submitted_at or forge_words.NO_TIME(), since=wanted.since)
    if review.verdict not in wanted.verdicts:
        return forge_words.OTHER_VERDICT(found=review.verdict, asked=" or ".join(wanted.verdicts))
    if wanted.head and not same_commit(review.commit, wanted.head):
        pull = facts.pull(repository, number)
        if pull is None or not same_commit(review.commit, head_of(facts, repository, pull)):
            return forge_words.OLD_HEAD(found=shorten_sha(review.commit), asked=shorten_sha(wanted.head))
    return ""


def check_new_head(
    facts: ForgeFacts, repository: str, number: int, before: str, *, by: ForgeUser | None = None
) -> ForgeFinding:
    """Check that work was pushed to an open pull request since a head, and `by` an account if that is given."""
    pull, place = facts.pull(repository, number), f"{repository}#{number}"
    if pull is None:
        return ForgeFinding(False, forge_words.NO_PULL(place=place))
    head = head_of(facts, repository, pull)
    if not before or not head:
        return ForgeFinding(False, forge_words.UNKNOWN_HEAD(place=place))
    if same_commit(head, before):
        said = forge_words.SAME_HEAD if pull.is_open else forge_words.SAME_HEAD_CLOSED
        return ForgeFinding(False, said(place=place, head=shorten_sha(before)))
    between = facts.compare(repository, before, head)
    told = {"place": place, "head": shorten_sha(head), "before": shorten_sha(before)}
    if between is None or not between.commits:
        return ForgeFinding(False, forge_words.NOTHING_NEW(**told))
    old, new = facts.content(repository, before), facts.content(repository, head)
    if not old or not new:
        return ForgeFinding(False, forge_words.NOT_COMPARED(**told))
    if old == new:
        return ForgeFinding(False, forge_words.SAME_FILES(**told))
    other = _other_pusher(facts, repository, number, between, by) if by is not None else None
    if by is not None and other is not None:
        return ForgeFinding(False, forge_words.COMMITS_OF_OTHERS(place=place, who=other.login, by=by.login))
    count = len(between.commits)
    commits = forge_words.ONE_COMMIT() if count == 1 else forge_words.COMMITS(count=count)
    return ForgeFinding(True, forge_words.NEW_HEAD(commits=commits, **told))


def _other_pusher(
    facts: ForgeFacts, repository: str, number: int, between: Comparison, by: ForgeUser
) -> ForgeUser | None:
    """Find who pushed commits, if it was not the expected account.

    Anyone can write any git address; the account that pushed is certain. If the forge hides it, the authors count.
    """
    new = set(between.commits)
    pushers = [each.by for each in facts.pushes(repository, number) if new & set(each.commits)]
    known = pushers or list(between.authors)
    return None if any(same_user(each, by) for each in known) or not known else known[-1]


def list_comments(facts: ForgeFacts, repository: str, number: int) -> tuple[Comment, ...]:
    """List everything written about a pull request: comments, and threads on lines.

    A reply in a thread belongs to the review that began it, also if another account wrote it.
    """
    lines = [
        each
        for review in facts.reviews(repository, number)
        if review.id is not None
        for each in facts.review_comments(repository, number, review.id)
    ]
    return (*facts.comments(repository, number), *lines)


def check_commented(
    facts: ForgeFacts,
    repository: str,
    number: int,
    by: ForgeUser,
    *,
    since: str = "",
    id_: int | None = None,
    on_pull: bool = False,
) -> ForgeFinding:
    """Check whether an account has written a comment; of a pull request also on a line."""
    place = f"{repository}#{number}"
    every = facts.comments(repository, number)
    found = _comments_by(every, by, since, id_)
    if on_pull and not found:
        every = list_comments(facts, repository, number)
        found = _comments_by(every, by, since, id_)
    if found:
        return ForgeFinding(True, forge_words.COMMENTED(by=by.login, id=found[-1].id, place=place))
    which = f" {id_}" if id_ is not None else ""
    others = [each for each in every if each.id == id_ or (id_ is None and each.created_at >= since)]
    ever = since or forge_words.EVER()
    if others:
        last = others[-1].author.login
        return ForgeFinding(
            False, forge_words.NO_COMMENT_BUT(which=which, place=place, by=by.login, ever=ever, last=last)
        )
    return ForgeFinding(False, forge_words.NO_COMMENT(which=which, place=place, by=by.login, ever=ever))


def _comments_by(every: Iterable[Comment], by: ForgeUser, since: str, id_: int | None) -> list[Comment]:
    own = (each for each in every if is_written_by(each, by) and each.created_at >= since)
    return [each for each in own if id_ in {None, each.id}]


def check_statuses(facts: ForgeFacts, repository: str, ref: str, context: str = "") -> ForgeFinding:
    """Check that the newest statuses of a commit are good: those of a context, or all."""
    place = f"{repository} at {shorten_sha(ref)}"
    every = facts.statuses(repository, ref)
    found = [each for each in every if not context or each.context == context]
    if not found:
        return ForgeFinding(
            False,
            forge_words.NO_SUCH_STATUS(name=context, place=place) if context else forge_words.NO_STATUS(place=place),
        )
    bad = [each for each in found if each.outcome != "success"]
    if bad:
        return ForgeFinding(
            False, forge_words.BAD_STATUS(name=bad[0].context, place=place, by=display_user(bad[0].creator))
        )
    return ForgeFinding(
        True,
        forge_words.GOOD_STATUSES(count=len(found), place=place, names=", ".join(each.context for each in found[:3])),
    )


def filter_statuses(statuses: Iterable[Status], context: str) -> list[Status]:
    """Filter the statuses of a context: of that name, or of a job of a workflow of that name."""
    return [each for each in statuses if each.context == context or each.context.startswith(f"{context} /")]


def check_closed(facts: ForgeFacts, repository: str, number: int) -> ForgeFinding:
    """Check that an issue is closed."""
    issue = facts.issue(repository, number)
    if issue is None:
        return ForgeFinding(False, forge_words.NO_ISSUE(place=f"{repository}#{number}"))
    state = forge_words.IS_OPEN if issue.is_open else forge_words.IS_CLOSED
    return ForgeFinding(not issue.is_open, state(place=f"{repository}#{number}"))


def check_pull_opened(facts: ForgeFacts, repository: str, number: int, by: ForgeUser, *, since: str) -> ForgeFinding:
    """Check whether an account has a pull request that names an issue and changes something: open, or merged since."""
    faults: list[str] = []
    for listed in (facts.pulls_since(repository, since), None):
        own = [
            each
            for each in (facts.open_pulls(repository) if listed is None else listed)
            if same_user(each.author, by)
            and names_issue(f"{each.title}\n{each.body}", repository, number)
            and (each.created_at >= since or each.is_open or each.merged_at >= since)
        ]
        found = [(each, _pull_fault(facts, repository, each)) for each in own]
        for pull, fault in found:
            if not fault:
                told = {"repo": repository, "own": pull.number, "by": by.login, "number": number}
                return ForgeFinding(True, forge_words.PULL_NAMES_ISSUE(**told))
        faults += [fault for _, fault in found]
    if faults:
        return ForgeFinding(False, faults[-1])
    told = {"by": by.login, "since": since, "place": f"{repository}#{number}"}
    others = [
        each for each in facts.pulls_since(repository, since) if same_user(each.author, by) and each.created_at >= since
    ]
    if others:
        return ForgeFinding(False, forge_words.NONE_NAMES_BUT(**told, own=f"{repository}#{others[-1].number}"))
    return ForgeFinding(False, forge_words.NONE_NAMES(**told))


def find_merged_pulls(facts: ForgeFacts, repository: str, number: int, by: ForgeUser, *, since: str) -> list[int]:
    """List the pull requests of an account that name an issue and that it merged itself since."""
    return [
        each.number
        for each in facts.pulls_since(repository, since)
        if each.merged
        and each.merged_at >= since
        and same_user(each.author, by)
        and same_user(each.merged_by, by)
        and names_issue(f"{each.title}\n{each.body}", repository, number)
    ]


def _pull_fault(facts: ForgeFacts, repository: str, pull: PullRequest) -> str:
    """Explain why a pull request does not count as work: it was closed unmerged, or changes nothing."""
    place = f"{repository}#{pull.number}"
    if not pull.is_open and not pull.merged:
        return forge_words.GIVEN_UP(place=place)
    shown = facts.pull(repository, pull.number) or pull
    count = shown.files if shown.files is not None else len(facts.files(repository, pull.number))
    return "" if count else forge_words.CHANGES_NOTHING(place=place)


def names_issue(text: str, repository: str, number: int) -> bool:
    """Whether a text names an issue of this repository, and not one of another."""
    name = re.escape(repository)
    short_form = rf"(?<![\w/.\-])(?:{name})?#{number}(?!\w)"
    address = rf"/{name}/issues/{number}(?!\w)"
    return re.search(f"{short_form}|{address}", text, re.IGNORECASE) is not None
