"""Which comments answer which question, where several are asked at one place.

A comment answers one question and no second one. Agents end their comments with a marker that names the task, so most
say themselves what they answer. One without a marker answers the last question before it that is still open: so an old
question that was never answered takes no answer away from a new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from agenttalk.contracts.forge import Comment, ForgeUser, Review
from agenttalk.rules.toolchain import mentions
from agenttalk.rules.toolchain.accounts import same_user
from agenttalk.rules.toolchain.mentions import read_marker

_COMMENT: Final = re.compile(r"#issuecomment-(\d{1,18})$")


class ThreadQuestion(NamedTuple):
    """What an agent was asked."""

    account: ForgeUser
    """Who has to answer."""
    task_id: str
    since: str
    """When it was asked, by the forge's clock."""
    asked_in: int = 0
    """The comment in which it was asked; 0 when it was not a comment."""
    points: int = 1
    """How many answers it takes."""


def find_comment_number(url: object) -> int:
    """Return the comment that an address of a forge leads to; 0 when it leads to no comment."""
    found = _COMMENT.search(url) if isinstance(url, str) else None
    return int(found[1]) if found else 0


def is_written_by(comment: Comment, user: ForgeUser) -> bool:
    """Return whether an account wrote a comment. What the engine wrote does not count, also where it shares an account.

    A comment that shows nothing to people says nothing.
    """
    marker = read_marker(comment.body)
    ours = marker is not None and marker.by_engine
    return same_user(comment.author, user) and not ours and mentions.has_visible_text(comment.body)


def find_answers(
    question: ThreadQuestion, comments: Iterable[Comment], reviews: Iterable[Review] = ()
) -> list[Comment]:
    """Find the comments that answer a question, at most as many as are needed."""
    found: list[Comment] = []
    others = 0
    """Later questions that are open."""
    for comment in _later(question, comments, reviews):
        if len(found) == question.points:
            break
        if comment is None:
            others += 1
            continue
        marker = read_marker(comment.body)
        mine = marker is not None and marker.task == question.task_id
        if mine or (marker is None and not others):
            found.append(comment)
        else:
            others = max(0, others - 1)
    return found


def _later(question: ThreadQuestion, comments: Iterable[Comment], reviews: Iterable[Review]) -> list[Comment | None]:
    """Return the comments after a question, in order: own comments, and None for each further question."""
    said: list[tuple[str, int, Comment | None]] = []
    for each in comments:
        if is_written_by(each, question.account) and each.created_at >= question.since:
            said.append((each.created_at, each.id, each))
        elif (each.created_at, each.id) > (question.since, question.asked_in or each.id) and _asks(each, question):
            said.append((each.created_at, each.id, None))
    for review in reviews:
        another = not same_user(review.author, question.account)
        if another and review.verdict == "COMMENT" and review.submitted_at > question.since:
            said.append((review.submitted_at, 0, None))
    return [comment for _, _, comment in sorted(said, key=_order)]


def _order(said: tuple[str, int, Any]) -> tuple[str, int]:
    return said[:2]


def _asks(comment: Comment, question: ThreadQuestion) -> bool:
    """Return whether a comment of another account asks the same agent something."""
    marker = read_marker(comment.body)
    if same_user(comment.author, question.account) or (marker is not None and marker.by_engine):
        return False
    called = question.account.login.lower() in mentions.find_names(comment.body)
    return called and mentions.detect_intent(comment.body) != "fyi"
