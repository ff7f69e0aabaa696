"""Letters, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agenttalk.ports.statements.keys import FoundRow, IdRow, TaskIdRow
from agenttalk.ports.statements.statement import NoRow, Statement

if TYPE_CHECKING:
    from agenttalk.rules.core.task_states import Phase, State


class LetterRow(NamedTuple):
    """A letter with its body."""

    id: int
    mail_id: str
    thread: str
    sender: str
    kind: str
    subject: str
    in_reply_to: str | None
    deadline: str | None
    hop: int
    via: str
    sha256: str
    size: int
    at: str
    body: bytes


class LetterItemRow(NamedTuple):
    """A letter for one addressee, with its task."""

    mail: int
    task_id: str
    addressee: str
    way: str
    shown: int
    due_at: str | None
    read_at: str | None
    read_how: str | None
    reply: str | None
    reminded_at: str | None
    closed_at: str | None
    closed_why: str | None
    mail_id: str
    thread: str
    sender: str
    kind: str
    subject: str
    in_reply_to: str | None
    deadline: str | None
    hop: int
    at: str
    state: State
    reexecutions: int
    delivery: int | None
    body: bytes


class AddresseeRow(NamedTuple):
    """What became of a letter at one addressee."""

    task_id: str
    addressee: str
    way: str
    read_at: str | None
    read_how: str | None
    reply: str | None
    reminded_at: str | None
    closed_at: str | None
    closed_why: str | None
    state: State
    phase: Phase | None
    reason: str | None


class LetterPageRow(NamedTuple):
    """A letter of a page, without its body."""

    id: int
    mail_id: str
    thread: str
    sender: str
    kind: str
    subject: str
    in_reply_to: str | None
    deadline: str | None
    hop: int
    via: str
    sha256: str
    size: int
    at: str


class UnreadNoteRow(NamedTuple):
    """A letter that is unread and needs no answer."""

    task_id: str
    mail_id: str
    sender: str
    subject: str
    at: str
    body: bytes


class LetterThreadRow(NamedTuple):
    """A thread, with its first and its latest letter."""

    latest: int
    thread: str
    letters: int
    subject: str
    sender: str
    at: str
    latest_mail_id: str
    latest_sender: str
    latest_at: str


class UnshownLetterRow(NamedTuple):
    """A letter whose file is not written yet."""

    task_id: str
    addressee: str
    mail_id: str


class LyingLetterRow(NamedTuple):
    """A letter that lies unread in a folder."""

    id: int
    task_id: str
    addressee: str
    mail_id: str
    kind: str


class AcknowledgedLetterRow(NamedTuple):
    """A letter whose command has a receipt."""

    task_id: str
    kind: str


class DueAtRow(NamedTuple):
    """When something is due."""

    due_at: str | None


ADD_MAIL: Final = Statement("add_mail", IdRow)
MAIL: Final = Statement("mail", LetterRow)
ADD_MAIL_ITEM: Final = Statement("add_mail_item", NoRow)
MAIL_ITEM: Final = Statement("mail_item", LetterItemRow)
MAIL_ITEMS_OF: Final = Statement("mail_items_of", AddresseeRow)
MAIL_FOR: Final = Statement("mail_for", TaskIdRow)
MAIL_PAGE: Final = Statement("mail_page", LetterPageRow)
MAIL_PAGE_FROM: Final = Statement("mail_page_from", LetterPageRow)
MAIL_PAGE_TO: Final = Statement("mail_page_to", LetterPageRow)
MAIL_PAGE_UNREAD: Final = Statement("mail_page_unread", LetterPageRow)
MAIL_PAGE_THREAD: Final = Statement("mail_page_thread", LetterPageRow)
MAIL_PAGE_WORD: Final = Statement("mail_page_word", LetterPageRow)
MAIL_HAS_WORD: Final = Statement("mail_has_word", FoundRow)
ADD_MAIL_WORD: Final = Statement("add_mail_word", NoRow)
MAIL_UNREAD: Final = Statement("mail_unread", FoundRow)
MAIL_UNREAD_NOTES: Final = Statement("mail_unread_notes", UnreadNoteRow)
JOIN_MAIL_THREAD: Final = Statement("join_mail_thread", NoRow)
MAIL_THREADS: Final = Statement("mail_threads", LetterThreadRow)
READ_MAIL: Final = Statement("read_mail", TaskIdRow)
REPLY_MAIL: Final = Statement("reply_mail", TaskIdRow)
REMIND_MAIL: Final = Statement("remind_mail", TaskIdRow)
SET_MAIL_DUE: Final = Statement("set_mail_due", NoRow)
CLOSE_MAIL: Final = Statement("close_mail", NoRow)
MAIL_SHOWN: Final = Statement("mail_shown", NoRow)
MAILS_UNSHOWN: Final = Statement("mails_unshown", UnshownLetterRow)
MAILS_LYING: Final = Statement("mails_lying", LyingLetterRow)
MAILS_ACKNOWLEDGED: Final = Statement("mails_acknowledged", AcknowledgedLetterRow)
MAILS_READY: Final = Statement("mails_ready", TaskIdRow)
MAILS_DUE: Final = Statement("mails_due", TaskIdRow)
NEXT_MAIL_DUE: Final = Statement("next_mail_due", DueAtRow)
