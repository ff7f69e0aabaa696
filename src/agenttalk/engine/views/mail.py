"""Shows letters and threads to people and agents. An agent sees only letters that it wrote or received."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from agenttalk.engine.core.deps import Deps
from agenttalk.engine.mail.letters import letter_of, row_of, unknown_letter_error
from agenttalk.engine.views.models.mail import AddresseeView, LetterPage, LetterView, ThreadPage, ThreadView
from agenttalk.engine.views.toolchain import STATUSES, require_one_of, status_of
from agenttalk.ports.statements.mail import (
    MAIL_HAS_WORD,
    MAIL_ITEMS_OF,
    MAIL_PAGE,
    MAIL_PAGE_FROM,
    MAIL_PAGE_THREAD,
    MAIL_PAGE_TO,
    MAIL_PAGE_UNREAD,
    MAIL_PAGE_WORD,
    MAIL_THREADS,
    MAIL_UNREAD,
    AddresseeRow,
    LetterPageRow,
    LetterRow,
)
from agenttalk.ports.storage import Store
from agenttalk.rules.mail import letters
from agenttalk.rules.mail.letters import BOARD

PAGE: Final = 50
LONGEST_PAGE: Final = 200
_TOP: Final = 2**62
"""More than the number of any letter."""
_LOOKED_AT: Final = 2_000
"""How many letters one request examines; the next page goes on from there."""
_MOST_UNREAD: Final = 1_000
"""How many unread letters are counted at most."""
OPEN: Final = "open"
CLOSED: Final = "closed"


@dataclass(frozen=True, slots=True)
class MailQuery:
    """A search for letters. Empty fields match every letter."""

    sender: str = ""
    to: str = ""
    kind: str = ""
    status: str = ""
    """`open`, `closed`, or a status such as `pending`, `working`, `done`, `failed` at one of its addressees."""
    thread: str = ""
    search: str = ""
    """Words that a letter must contain, all of them."""
    unread: bool = False
    """Whether only letters that `to` has not read are wanted."""
    before: int = 0
    limit: int = PAGE


async def list_letters(deps: Deps, asked: MailQuery, viewer: str | None = None) -> LetterPage:
    """List letters, newest first, and where the next page begins. A `viewer` sees those it wrote or received.

    Raises UsageError for an unknown kind or status.
    """
    require_one_of("kind", asked.kind, get_args(letters.Kind))
    require_one_of("status", asked.status, STATUSES)
    counted = asked.to or viewer
    if not deps.stores.has_board(BOARD):
        empty: LetterPage = {"mails": [], "next": None}
        return empty | {"unread": 0} if counted else empty
    store = await deps.stores.board(BOARD)
    letters_found, after = await _search(store, asked, viewer)
    answer: LetterPage = {"mails": letters_found, "next": after}
    if counted:
        answer["unread"] = len(await store.read(MAIL_UNREAD, party=counted, limit=_MOST_UNREAD))
    return answer


async def _search(store: Store, asked: MailQuery, viewer: str | None) -> tuple[list[LetterView], int | None]:
    limit = max(1, min(asked.limit, LONGEST_PAGE))
    words = letters.split_query(asked.search)
    if asked.search and not words:
        return [], None
    before, seen = asked.before or _TOP, 0
    found: list[LetterView] = []
    while seen < _LOOKED_AT:
        rows = await _rows(store, asked, words, before, limit)
        for row in rows:
            before, seen = row.id, seen + 1
            letter = await _wanted(store, row, asked, words, viewer)
            if letter is not None:
                found.append(letter)
                if len(found) == limit:
                    return found, before
        if len(rows) < limit:
            return found, None
    return found, before


async def _rows(store: Store, asked: MailQuery, words: list[str], before: int, limit: int) -> list[LetterPageRow]:
    """Read the next rows by the most selective index."""
    about = {"before": before, "limit": limit}
    if asked.thread:
        return await store.read(MAIL_PAGE_THREAD, thread=asked.thread, **about)
    if asked.unread and asked.to:
        return await store.read(MAIL_PAGE_UNREAD, party=asked.to, **about)
    if words:
        return await store.read(MAIL_PAGE_WORD, word=words[0], **about)
    if asked.to:
        return await store.read(MAIL_PAGE_TO, party=asked.to, **about)
    if asked.sender:
        return await store.read(MAIL_PAGE_FROM, party=asked.sender, **about)
    return await store.read(MAIL_PAGE, **about)


async def _wanted(
    store: Store, row: LetterPageRow, asked: MailQuery, words: list[str], viewer: str | None
) -> LetterView | None:
    """Return a letter as a list shows it, if it fits the search and the viewer may see it."""
    if asked.sender not in {"", row.sender} or asked.kind not in {"", row.kind}:
        return None
    for word in words:
        if not await store.read(MAIL_HAS_WORD, word=word, mail=row.id):
            return None
    items = await store.read(MAIL_ITEMS_OF, mail=row.id)
    if viewer is not None and viewer not in {row.sender, *(item.addressee for item in items)}:
        return None
    wanted = [item for item in items if asked.to in {"", item.addressee}]
    if not wanted or (asked.unread and all(item.read_at is not None for item in wanted)):
        return None
    letter = _describe_letter(row, items)
    addressees = [addressee for addressee in letter["addressees"] if asked.to in {"", addressee["addressee"]}]
    return letter if _fits(addressees, asked.status) else None


def _fits(addressees: list[AddresseeView], wanted: str) -> bool:
    if wanted in {OPEN, CLOSED}:
        return any((addressee["closed_at"] is None) == (wanted == OPEN) for addressee in addressees)
    return not wanted or any(addressee["status"] == wanted for addressee in addressees)


async def read_letter(deps: Deps, mail_id: str, viewer: str | None = None) -> LetterView:
    """Return a letter with its body. Raises UsageError unless the viewer wrote or received it."""
    row = await row_of(deps, mail_id)
    items = await (await deps.stores.board(BOARD)).read(MAIL_ITEMS_OF, mail=row.id)
    if viewer is not None and viewer not in {row.sender, *(item.addressee for item in items)}:
        raise unknown_letter_error(mail_id)
    return _describe_letter(row, items) | {"body": bytes(row.body).decode()}


async def list_threads(deps: Deps, viewer: str | None = None, *, before: int = 0, limit: int = PAGE) -> ThreadPage:
    """List threads, those with the newest letters first. A `viewer` sees those in which it takes part."""
    if not deps.stores.has_board(BOARD):
        return {"threads": [], "next": None}
    store = await deps.stores.board(BOARD)
    limit = max(1, min(limit, LONGEST_PAGE))
    rows = await store.read(MAIL_THREADS, party=viewer or "*", before=before or _TOP, limit=limit)
    threads: list[ThreadView] = [
        {
            "thread": row.thread,
            "letters": row.letters,
            "subject": row.subject,
            "from": row.sender,
            "began_at": row.at,
            "latest": row.latest_mail_id,
            "latest_from": row.latest_sender,
            "latest_at": row.latest_at,
        }
        for row in rows
    ]
    return {"threads": threads, "next": rows[-1].latest if len(rows) == limit else None}


def _describe_letter(row: LetterRow | LetterPageRow, items: list[AddresseeRow]) -> LetterView:
    letter: Any = letter_of(row, [item.addressee for item in items])
    addressees = [_describe_addressee(item) for item in items]
    return cast("LetterView", letter | {"number": row.id, "size": row.size, "addressees": addressees})


def _describe_addressee(row: AddresseeRow) -> AddresseeView:
    return {
        "addressee": row.addressee,
        "task_id": row.task_id,
        "way": row.way,
        "status": status_of(row.state, row.phase),
        "state": row.state,
        "read_at": row.read_at,
        "read_how": row.read_how,
        "reply": row.reply,
        "reminded_at": row.reminded_at,
        "closed_at": row.closed_at,
        "closed_why": row.closed_why,
        "trust": row.closed_why if row.state == "COMPLETED" else None,
        "reason": row.reason,
    }
