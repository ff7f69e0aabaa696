"""What people and agents see of letters: lists, threads, single letters. Agents see their own alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, get_args

from agenttalk.engine.core.deps import Deps
from agenttalk.engine.mail.letters import letter_of, row_of, unknown_letter_error
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
"""Before this number are all letters."""
_LOOKED_AT: Final = 2_000
"""Letters that one request looks at for those that it wants; then the next page goes on."""
_MOST_UNREAD: Final = 1_000
"""Up to so many unread letters are counted."""
OPEN: Final = "open"
CLOSED: Final = "closed"


@dataclass(frozen=True, slots=True)
class MailQuery:
    """Which letters somebody wants to see. What is empty does not matter."""

    sender: str = ""
    to: str = ""
    kind: str = ""
    status: str = ""
    """`open`, `closed`, or a status such as `pending`, `working`, `done`, `failed` at one of its addressees."""
    thread: str = ""
    search: str = ""
    """Words that a letter must have, all of them."""
    unread: bool = False
    """Only those that `to` has not read."""
    before: int = 0
    limit: int = PAGE


async def list_letters(deps: Deps, asked: MailQuery, viewer: str | None = None) -> dict[str, Any]:
    """Letters, the newest first, and from where the next page goes on. A `viewer` sees those it wrote or got.

    Raises UsageError for a kind or a status that there is not.
    """
    require_one_of("kind", asked.kind, get_args(letters.Kind))
    require_one_of("status", asked.status, STATUSES)
    counted = asked.to or viewer
    if not deps.stores.has_board(BOARD):
        return {"mails": [], "next": None, **({"unread": 0} if counted else {})}
    store = await deps.stores.board(BOARD)
    found, after = await _search(store, asked, viewer)
    answer: dict[str, Any] = {"mails": found, "next": after}
    if counted:
        answer["unread"] = len(await store.read(MAIL_UNREAD, party=counted, limit=_MOST_UNREAD))
    return answer


async def _search(store: Store, asked: MailQuery, viewer: str | None) -> tuple[list[dict[str, Any]], int | None]:
    limit = max(1, min(asked.limit, LONGEST_PAGE))
    words = letters.split_query(asked.search)
    if asked.search and not words:
        return [], None
    before, seen = asked.before or _TOP, 0
    found: list[dict[str, Any]] = []
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
    """The next rows through the index that leaves the fewest to look at."""
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
) -> dict[str, Any] | None:
    """A letter as a list shows it, if it is one that was asked for and may be seen."""
    if asked.sender not in {"", row.sender} or asked.kind not in {"", row.kind}:
        return None
    for word in words:
        if not await store.read(MAIL_HAS_WORD, word=word, mail=row.id):
            return None
    items = await store.read(MAIL_ITEMS_OF, mail=row.id)
    if viewer is not None and viewer not in {row.sender, *(each.addressee for each in items)}:
        return None
    mine = [each for each in items if asked.to in {"", each.addressee}]
    if not mine or (asked.unread and all(each.read_at is not None for each in mine)):
        return None
    letter = _shown(row, items)
    told = [each for each in letter["addressees"] if asked.to in {"", each["addressee"]}]
    return letter if _fits(told, asked.status) else None


def _fits(told: list[dict[str, Any]], wanted: str) -> bool:
    if wanted in {OPEN, CLOSED}:
        return any((each["closed_at"] is None) == (wanted == OPEN) for each in told)
    return not wanted or any(each["status"] == wanted for each in told)


async def read_letter(deps: Deps, mail_id: str, viewer: str | None = None) -> dict[str, Any]:
    """A letter with its body. Raises UsageError when there is none that the viewer wrote or got."""
    row = await row_of(deps, mail_id)
    items = await (await deps.stores.board(BOARD)).read(MAIL_ITEMS_OF, mail=row.id)
    if viewer is not None and viewer not in {row.sender, *(each.addressee for each in items)}:
        raise unknown_letter_error(mail_id)
    return {**_shown(row, items), "body": bytes(row.body).decode()}


async def list_threads(deps: Deps, viewer: str | None = None, *, before: int = 0, limit: int = PAGE) -> dict[str, Any]:
    """Threads, those with the newest letters first. A `viewer` sees those in which it takes part."""
    if not deps.stores.has_board(BOARD):
        return {"threads": [], "next": None}
    store = await deps.stores.board(BOARD)
    limit = max(1, min(limit, LONGEST_PAGE))
    rows = await store.read(MAIL_THREADS, party=viewer or "*", before=before or _TOP, limit=limit)
    found = [
        {
            "thread": each.thread,
            "letters": each.letters,
            "subject": each.subject,
            "from": each.sender,
            "began_at": each.at,
            "latest": each.latest_mail_id,
            "latest_from": each.latest_sender,
            "latest_at": each.latest_at,
        }
        for each in rows
    ]
    return {"threads": found, "next": rows[-1].latest if len(rows) == limit else None}


def _shown(row: LetterRow | LetterPageRow, items: list[AddresseeRow]) -> dict[str, Any]:
    return {
        **letter_of(row, [each.addressee for each in items]),
        "number": row.id,
        "size": row.size,
        "addressees": [_addressee(each) for each in items],
    }


def _addressee(row: AddresseeRow) -> dict[str, Any]:
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
