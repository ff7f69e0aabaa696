"""Whether a task is still due when a turn has not done it: it may be moot by now, or have to wait for others.

A task is moot when another account ended what it is about. An agent does not make its own task moot: what it
closed, unassigned, dismissed or called green itself is still asked for. What the forge does not show is due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from agenttalk.contracts.forge import ForgeUser, PullRequest
from agenttalk.rules.text import forge_words
from agenttalk.rules.toolchain import forge_facts
from agenttalk.rules.toolchain.accounts import same_user
from agenttalk.rules.toolchain.forge_facts import ForgeFacts
from agenttalk.rules.toolchain.read_back import ReadBackOrder

Kind = Literal["due", "moot", "waits", "conflict"]


class DueStatus(NamedTuple):
    """How a task that was not done stands."""

    kind: Kind
    why: str = ""


_DUE: Final = DueStatus("due")


def judge_due_status(order: ReadBackOrder, facts: ForgeFacts) -> DueStatus:
    """Judge the status of a task that its turn has not done. Raises UnreadError for facts to read first."""
    look = _LOOKS.get(order.action_type)
    return look(order, facts) if look is not None and order.number else _DUE


def _of_pull(order: ReadBackOrder, facts: ForgeFacts) -> DueStatus:
    """Return what ends every task of a pull request: another account merged, closed or deleted it."""
    pull, place = facts.pull(order.repository, order.number), _place(order)
    if pull is None:
        return DueStatus("moot", forge_words.WAS_DELETED(place=place))
    if pull.is_open:
        return _DUE
    if pull.merged:
        by, words = pull.merged_by, forge_words.WAS_MERGED
    else:
        by, words = _closer(order, facts), forge_words.WAS_CLOSED
    if by is None or same_user(by, order.account):
        return _DUE
    return DueStatus("moot", words(place=place, who=by.login))


def _of_head(order: ReadBackOrder, facts: ForgeFacts) -> DueStatus:
    """Judge a red or conflicting head: it is moot when it was replaced, or when others made it green."""
    found, pull = _of_pull(order, facts), facts.pull(order.repository, order.number)
    if found != _DUE or pull is None or not pull.is_open:
        return found
    if _has_moved(order, pull):
        if _moved_itself(order, facts, pull):
            return _DUE
        return DueStatus(
            "moot", forge_words.NEWER_HEAD(place=_place(order), head=forge_facts.shorten_sha(pull.head_sha))
        )
    if order.action_type != "ci_failure":
        return _DUE
    statuses = facts.statuses(order.repository, order.head_sha)
    own = any(each.creator is not None and same_user(each.creator, order.account) for each in statuses)
    green = bool(statuses) and all(each.outcome == "success" for each in statuses)
    return DueStatus("moot", forge_words.GREEN_AGAIN(place=_place(order))) if green and not own else _DUE


def _of_result(order: ReadBackOrder, facts: ForgeFacts) -> DueStatus:
    """Judge the work a review asked for: moot when it was dismissed, or a newer verdict or head exists."""
    found, pull = _of_pull(order, facts), facts.pull(order.repository, order.number)
    if found != _DUE or pull is None or not pull.is_open:
        return found
    verdict, reviewer = order.context.get("result"), str(order.context.get("reviewer") or "").lower()
    given = [
        each
        for each in facts.reviews(order.repository, order.number)
        if each.author.login.lower() == reviewer and each.verdict != "COMMENT"
    ]
    if given and (given[-1].verdict != verdict or (given[-1].dismissed and not _took_back_itself(order, facts))):
        return DueStatus("moot", forge_words.REVIEW_OVER(place=_place(order), who=reviewer))
    if verdict != "APPROVED":
        return _DUE
    if _has_moved(order, pull):
        return DueStatus(
            "moot", forge_words.NEWER_HEAD(place=_place(order), head=forge_facts.shorten_sha(pull.head_sha))
        )
    return _of_merge(order, facts, pull)


def _of_merge(order: ReadBackOrder, facts: ForgeFacts, pull: PullRequest) -> DueStatus:
    """Explain why an approved pull request is not merged yet, if others have to change that."""
    place = _place(order)
    if pull.draft:
        return _DUE
    if pull.mergeable is False:
        return DueStatus("conflict", forge_words.CONFLICTS(place=place, base=pull.base_ref))
    statuses = facts.statuses(order.repository, order.head_sha)
    pending = [each.context for each in statuses if each.outcome == "other"]
    if pending:
        return DueStatus("waits", forge_words.AWAITS_CI(place=place, name=pending[0]))
    if _is_scheduled(order, facts):
        return DueStatus("waits", forge_words.AWAITS_MERGE(place=place))
    branch = facts.branch(order.repository, pull.base_ref)
    if branch is None:
        return _DUE
    red = [each.context for each in statuses if each.outcome == "failure"]
    if branch.checked and red:
        return DueStatus("waits", forge_words.AWAITS_GREEN(place=place, name=red[0]))
    approvals = {
        each.author.login.lower()
        for each in facts.reviews(order.repository, order.number)
        if each.verdict == "APPROVED" and not each.dismissed
    }
    if len(approvals) < branch.approvals:
        return DueStatus("waits", forge_words.AWAITS_APPROVALS(place=place, have=len(approvals), need=branch.approvals))
    return _DUE


def _of_issue(order: ReadBackOrder, facts: ForgeFacts) -> DueStatus:
    """Judge an issue: moot when others closed, deleted or reassigned it."""
    issue, place = facts.issue(order.repository, order.number), _place(order)
    if issue is None:
        return DueStatus("moot", forge_words.WAS_DELETED(place=place))
    if not issue.is_open:
        by = _closer(order, facts)
        if by is None or same_user(by, order.account):
            return _DUE
        return DueStatus("moot", forge_words.WAS_CLOSED(place=place, who=by.login))
    if any(same_user(each, order.account) for each in issue.assignees):
        return _DUE
    changes = facts.changes(order.repository, order.number)
    taken = [each for each in changes if each.what == "unassigned" and each.who and same_user(each.who, order.account)]
    if taken and taken[-1].by is not None and not same_user(taken[-1].by, order.account):
        return DueStatus("moot", forge_words.WAS_UNASSIGNED(place=place, who=taken[-1].by.login))
    return _DUE


def _of_mention(order: ReadBackOrder, facts: ForgeFacts) -> DueStatus:
    """Judge a mention: the agent answers also where the thing is closed, but not where it is deleted."""
    if facts.issue(order.repository, order.number) is not None:
        return _DUE
    return DueStatus("moot", forge_words.WAS_DELETED(place=_place(order)))


def _took_back_itself(order: ReadBackOrder, facts: ForgeFacts) -> bool:
    """Whether the agent took back the review that it has to act on."""
    changes = facts.changes(order.repository, order.number)
    return any(each.what == "dismissed" and same_user(each.by, order.account) for each in changes)


def _closer(order: ReadBackOrder, facts: ForgeFacts) -> ForgeUser | None:
    closed = [each.by for each in facts.changes(order.repository, order.number) if each.what == "closed"]
    return closed[-1] if closed else None


def _is_scheduled(order: ReadBackOrder, facts: ForgeFacts) -> bool:
    planned = ("scheduled", "unscheduled")
    plans = [each.what for each in facts.changes(order.repository, order.number) if each.what in planned]
    return bool(plans) and plans[-1] == "scheduled"


def _has_moved(order: ReadBackOrder, pull: PullRequest) -> bool:
    return bool(order.head_sha and pull.head_sha) and not forge_facts.same_commit(order.head_sha, pull.head_sha)


def _moved_itself(order: ReadBackOrder, facts: ForgeFacts, pull: PullRequest) -> bool:
    """Whether the agent moved the head without the work that was asked for: an empty commit ends nothing."""
    pushes = facts.pushes(order.repository, order.number)
    by = [each.by for each in pushes if any(forge_facts.same_commit(sha, pull.head_sha) for sha in each.commits)]
    return any(same_user(each, order.account) for each in by)


def _place(order: ReadBackOrder) -> str:
    return f"{order.repository}#{order.number}"


_LOOKS: Final[Mapping[str, Callable[[ReadBackOrder, ForgeFacts], DueStatus]]] = {
    "review_request": _of_pull,
    "review_updated": _of_pull,
    "review_result": _of_result,
    "review_comment": _of_pull,
    "ci_failure": _of_head,
    "merge_conflict": _of_head,
    "issue_assigned": _of_issue,
    "mention": _of_mention,
}
