"""The board `_mail`: letters are sent, answered, read and laid out; addressees get a reminder, then the request fails.

Each addressee of a letter has a task. A request to an agent that the engine drives is run like any task. Everything
else waits: it ends when the engine sees that the letter was read or answered, as the one rule decides. The next pass
finishes what a crash left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import format_instant, parse_instant
from agenttalk.contracts.errors import AgentTalkError, Code, ContractError, UsageError
from agenttalk.engine.core import records
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import IdempotentRequest
from agenttalk.engine.mail import letters
from agenttalk.engine.mail.letters import LetterDraft
from agenttalk.engine.plans.definition import DefinitionCache
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.kinds import KindTask, KindTurn
from agenttalk.ports.statements.mail import (
    MAIL_FOR,
    MAIL_ITEM,
    MAIL_ITEMS_OF,
    MAIL_SHOWN,
    MAILS_ACKNOWLEDGED,
    MAILS_DUE,
    MAILS_LYING,
    MAILS_READY,
    MAILS_UNSHOWN,
    NEXT_MAIL_DUE,
    READ_MAIL,
    SET_MAIL_DUE,
    AddresseeRow,
    LetterRow,
    LyingLetterRow,
)
from agenttalk.ports.statements.plans import RUN_STATE
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.core import task_states
from agenttalk.rules.mail import letters as letters_rules
from agenttalk.rules.mail.letters import BOARD, ReadHow
from agenttalk.rules.messages.routes import Rejection

LOG = logging.getLogger(__name__)
AT_ONCE: Final = 200
"""Letters that one transaction looks at."""
LONGEST: Final = 30.0
"""Seconds after which a pass looks again at the latest."""
_AGAIN: Final = timedelta(seconds=5)
"""After this long it is looked again at a turn that was to be stopped."""
Stop = Callable[[str, str], Awaitable[None]]
"""Ends the turn that a task has, for a reason."""


async def _cannot_stop(_: str, __: str) -> None:
    return None


class MailBoard:
    """Takes letters in, hands them out, and looks after those that wait. `nudge` has others look for new tasks."""

    def __init__(self, deps: Deps, *, nudge: Callable[[], None] = lambda: None, stop: Stop = _cannot_stop) -> None:
        self._deps = deps
        self._nudge = nudge
        self._stop = stop
        self._sheets = DefinitionCache(deps.submitted, traced=deps.traced)
        self._looked = 0
        """Up to which letter it was looked whether its file still lies where it was put."""

    async def send(
        self, draft: LetterDraft, caller: Caller, key: str | None = None, *, via: str = "api"
    ) -> letters.SentLetter:
        """Send a letter, and answer what was sent. The same key of the same sender sends one letter, once.

        Raises UsageError when a caller writes in another's name, ContractError when the letter is not taken.
        """
        if draft.sender != caller.name:
            hint = f"say {caller.name!r}, or leave it out"
            raise UsageError(Code.NOT_ALLOWED, f"this token is not that of {draft.sender!r}", hint=hint)
        secrets = self._deps.secret_guard.secrets
        if secrets:
            draft = replace(draft, subject=secrets.redact(draft.subject), body=secrets.redact(draft.body))
        letter = draft.to_letter(self._deps.ids.new("ml"))
        there = await asyncio.to_thread(letters.find_agents, self._deps, letters.kind_of(self._deps).rules, letter.to)
        store = await self._deps.stores.board(BOARD)

        def work(tx: Tx) -> letters.SentLetter:
            moves = self._open_run(tx)
            letters.fence_attempt(tx, caller)
            before = [hop] if (hop := letters.hop_of_attempt(tx, caller)) is not None else []

            def once() -> letters.SentLetter:
                taken = letters.accept_letter(
                    moves, letters.kind_of(self._deps), letter, there=there, via=via, before=before
                )
                if isinstance(taken, Rejection):
                    raise ContractError(taken.code, taken.message, taken.problems, hint=letters.hint_of(taken))
                return taken

            if key is None:
                sent = once()
            else:
                said = draft.as_json()
                sent = IdempotentRequest(BOARD, caller.name, f"mail/{caller.name}/{key}", said, moves.now).run_once(
                    tx, once
                )
            moves.finish()
            return sent

        sent = await store.transact(work)
        self._nudge()
        return sent

    async def reply(
        self, mail_id: str, draft: LetterDraft, caller: Caller, key: str | None = None, *, via: str = "api"
    ) -> letters.SentLetter:
        """Answer a letter: its sender gets the answer, or who got it if its sender goes on; the thread stays."""
        row = await self._row(mail_id)
        addressees = tuple(each.addressee for each in await self._items(row.id))
        if caller.name not in {row.sender, *addressees}:
            raise letters.unknown_letter_error(mail_id)
        to = draft.to or ((row.sender,) if caller.name != row.sender else addressees)
        subject = draft.subject or letters_rules.reply_subject(row.subject)
        return await self.send(replace(draft, to=to, subject=subject, in_reply_to=mail_id), caller, key, via=via)

    async def has_replied(self, task_id: str) -> bool:
        """Whether the agent of a task has answered its letter."""
        rows = await (await self._deps.stores.board(BOARD)).read(MAIL_ITEM, task_id=task_id)
        return bool(rows) and rows[0].reply is not None

    async def answer(self, task: KindTask, turn: KindTurn, text: str) -> bool:
        """Send the result of a turn as the answer to its letter; doing it again sends nothing more."""
        message_id = records.derive_id("ml", f"result/{task.task_id}/{turn.command_id}")
        draft = LetterDraft(task.agent_id, (), "inform", "", text, message_id=message_id)
        try:
            await self.reply(str(task.context["mail_id"]), draft, Caller("agent", task.agent_id), via="result")
        except ContractError as error:
            LOG.warning("%s: result is not a letter: %s", task.task_id, error.message, extra={"action": "mail.result"})
            return False
        return True

    async def mark_read(self, mail_id: str, reader: str) -> None:
        """Note that one of the addressees asked for a letter."""
        row = await self._row(mail_id)
        store = await self._deps.stores.board(BOARD)
        rows = await store.read(MAIL_FOR, mail=row.id, addressee=reader)
        if rows:
            await store.transact(lambda tx: self._note_read(tx, [(rows[0].task_id, row.kind)], "get"))

    async def pass_(self) -> float:
        """Do everything that is due; how many seconds may pass until the next look."""
        if not self._deps.stores.has_board(BOARD):
            return LONGEST
        store = await self._deps.stores.board(BOARD)
        if not await store.read(RUN_STATE, plan_id=BOARD):
            return LONGEST
        await self._lay_out(store)
        taken = await self._find_taken(store)
        if taken:
            await store.transact(lambda tx: self._note_read(tx, taken, "taken"))
        if receipts := [(row.task_id, row.kind) for row in await store.read(MAILS_ACKNOWLEDGED, limit=AT_ONCE)]:
            await store.transact(lambda tx: self._note_read(tx, receipts, "receipt"))
        if ready := [row.task_id for row in await store.read(MAILS_READY, after=0, limit=AT_ONCE)]:
            await store.transact(lambda tx: self._settle(tx, ready))
        return await self._look_at_times(store)

    async def _look_at_times(self, store: Store) -> float:
        """Remind those who have not answered, and give up where the deadline has passed."""
        now = self._deps.now()
        while rows := await store.read(MAILS_DUE, now=format_instant(now), limit=AT_ONCE):
            names = [row.task_id for row in rows]
            running = await store.transact(lambda tx, names=names: self._due(tx, names, now))  # type: ignore[misc]
            for task_id in running:
                try:
                    await self._stop(task_id, "no answer came before the deadline of the letter")
                except AgentTalkError as error:  # it may have ended by itself
                    LOG.warning("%s: %s", task_id, error.message, extra={"action": "mail.deadline"})
        [(due_at,)] = await store.read(NEXT_MAIL_DUE)
        if due_at is None:
            return LONGEST
        return max(0.05, min(LONGEST, (parse_instant(due_at) - now).total_seconds()))

    def _due(self, tx: Tx, names: Iterable[str], now: datetime) -> list[str]:
        """Handle requests that are due. Returns the tasks whose turns have to be stopped first."""
        moves, running = self._open_run(tx), []
        for task_id in names:
            row = tx.run(MAIL_ITEM, task_id=task_id)[0]
            what = letters_rules.decide_due_action(
                parse_instant(row.deadline or row.at), now, reminded=row.reminded_at is not None
            )
            if row.reply is not None and row.state not in task_states.FINAL:
                letters.settle(moves, letters.kind_of(self._deps), task_id)
                letters.wait_for_deadline(tx, row)
            elif what == "remind":
                letters.remind(moves, row)
            elif what == "fail" and row.state == "RUNNING":
                tx.run(SET_MAIL_DUE, task_id=task_id, due_at=format_instant(now + _AGAIN))
                running.append(task_id)
            elif what == "fail":
                letters.give_up(moves, row)
            else:
                letters.wait_for_deadline(tx, row)
        moves.finish()
        return running

    async def _lay_out(self, store: Store) -> None:
        """Put letters into the inboxes of those who have one."""
        while rows := await store.read(MAILS_UNSHOWN, limit=AT_ONCE):
            laid = []
            for task_id, addressee, mail_id in rows:
                path = f"{root_layout.box_folder(addressee, 'inbox', BOARD)}/{letters.file_name(mail_id)}"
                document = await self._document(mail_id)
                try:
                    await asyncio.to_thread(self._deps.root.write, path, document, parents=True)
                except AgentTalkError as error:  # another file is in its place; the letter can be requested
                    LOG.warning("%s: %s", path, error.message, extra={"action": "mail.file"})
                    laid.append((task_id, letters.NO_FILE))
                else:
                    laid.append((task_id, letters.SHOWN))
            await store.transact(
                lambda tx, laid=laid: [tx.run(MAIL_SHOWN, task_id=each, shown=shown) for each, shown in laid]  # type: ignore[misc]
            )

    async def _document(self, mail_id: str) -> bytes:
        row = await self._row(mail_id)
        to = [each.addressee for each in await self._items(row.id)]
        return wire.write({**letters.letter_of(row, to), "body": bytes(row.body).decode()}) + b"\n"

    async def _find_taken(self, store: Store) -> list[tuple[str, str]]:
        """Letters whose files were taken away: tasks and kinds of letters. Each pass checks some, in turn."""
        rows = await store.read(MAILS_LYING, after=self._looked, limit=AT_ONCE)
        self._looked = rows[-1].id if len(rows) == AT_ONCE else 0
        return await asyncio.to_thread(self._find_gone, rows) if rows else []

    def _find_gone(self, rows: list[LyingLetterRow]) -> list[tuple[str, str]]:
        found = []
        for row in rows:
            box = root_layout.box_folder(row.addressee, "inbox", BOARD)
            try:
                if self._deps.root.exists(box) and not self._deps.root.exists(
                    f"{box}/{letters.file_name(row.mail_id)}"
                ):
                    found.append((row.task_id, row.kind))
            except AgentTalkError as error:
                LOG.warning("%s: %s", box, error.message, extra={"action": "mail.file"})
        return found

    def _note_read(self, tx: Tx, items: list[tuple[str, str]], how: ReadHow) -> None:
        moves = self._open_run(tx)
        for task_id, kind in items:
            if tx.run(READ_MAIL, task_id=task_id, at=moves.now, how=how, informs=int(kind == "inform")):
                tx.record("mail.read", task_id, {"how": how})
            letters.settle(moves, letters.kind_of(self._deps), task_id)  # it may have been read in a prompt just now
        moves.finish()

    def _settle(self, tx: Tx, names: Iterable[str]) -> None:
        moves = self._open_run(tx)
        for task_id in names:
            letters.settle(moves, letters.kind_of(self._deps), task_id)
        moves.finish()

    def _open_run(self, tx: Tx) -> PlanTransaction:
        return letters.open_run(tx, self._deps, self._sheets)

    async def _row(self, mail_id: str) -> LetterRow:
        """Read a letter. Raises UsageError if there is none."""
        return await letters.row_of(self._deps, mail_id)

    async def _items(self, number: int) -> list[AddresseeRow]:
        return await (await self._deps.stores.board(BOARD)).read(MAIL_ITEMS_OF, mail=number)
