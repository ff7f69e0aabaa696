"""Types of views of letters."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class AddresseeView(TypedDict):
    """The state of a letter for one of its addressees."""

    addressee: str
    task_id: str
    way: str
    status: str
    state: str
    read_at: str | None
    read_how: str | None
    reply: str | None
    reminded_at: str | None
    closed_at: str | None
    closed_why: str | None
    trust: str | None
    reason: str | None


LetterView = TypedDict(
    "LetterView",
    {
        "schema_version": str,
        "message_id": str,
        "thread": str,
        "from": str,
        "to": list[str],
        "kind": Literal["inform", "request"],
        "subject": str,
        "in_reply_to": NotRequired[str],
        "deadline": NotRequired[str],
        "via": NotRequired[str],
        "sent_at": str,
        "number": int,
        "size": int,
        "addressees": list[AddresseeView],
        "body": NotRequired[str],
    },
)
"""A letter. A list shows it without its body."""


class LetterPage(TypedDict):
    """Letters."""

    mails: list[LetterView]
    next: int | None
    unread: NotRequired[int]


ThreadView = TypedDict(
    "ThreadView",
    {
        "thread": str,
        "letters": int,
        "subject": str,
        "from": str,
        "began_at": str,
        "latest": str,
        "latest_from": str,
        "latest_at": str,
    },
)
"""A thread of letters."""


class ThreadPage(TypedDict):
    """Threads."""

    threads: list[ThreadView]
    next: int | None
