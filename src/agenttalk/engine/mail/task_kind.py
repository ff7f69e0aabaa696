"""Letters: notices that are done when they were read, and requests that are done when they were answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.engine.core import prompt_context
from agenttalk.ports.kinds import FollowUp, KindOutcome, KindTask, KindTurn, MailRules
from agenttalk.ports.statements.mail import (
    CLOSE_MAIL,
    MAIL_ITEM,
    MAIL_UNREAD_NOTES,
    READ_MAIL,
    LetterItemRow,
    UnreadNoteRow,
)
from agenttalk.ports.storage import Snapshot, Tx
from agenttalk.rules.mail import letters
from agenttalk.rules.prompts.context import PromptContext, PromptSection
from agenttalk.rules.prompts.mail import render_mail_sections
from agenttalk.rules.proof.done import Evidence

BOARD: Final = letters.BOARD
_NOTES: Final = 10
"""Unread notices that a prompt holds, besides the letter."""
_NOTE_SIZE: Final = 4 * 1024
"""Bytes of a notice that is included in a prompt."""


class Replies(Protocol):
    """Tells which letters were answered."""

    async def has_replied(self, task_id: str) -> bool:
        """Whether the addressee of a task has written a letter that answers its own."""

    async def answer(self, task: KindTask, turn: KindTurn, text: str) -> bool:
        """Send what an agent gave as its result as its answer to a letter; whether it was sent."""


@dataclass(slots=True)
class MailTaskKind:
    """The kind of tasks on `_mail`. Implements `MailKind`."""

    rules: MailRules = field(default_factory=MailRules)
    replies: Replies | None = None
    """Set once the engine is there. Without it nothing counts as answered."""
    name: str = "mail"
    board: str = BOARD
    settles: bool = True
    """Whether tasks of agents that work by hand end by what the board sees, and not by their receipts."""

    def task(self, tx: Snapshot, task_id: str) -> KindTask | None:
        """Read the task of a letter for one addressee, with that addressee's other unread letters."""
        rows = tx.run(MAIL_ITEM, task_id=task_id)
        if not rows:
            return None
        notes = tx.run(MAIL_UNREAD_NOTES, party=rows[0].addressee, size=_NOTE_SIZE, limit=_NOTES)
        return read_task(rows[0], notes)

    def wants_run(self, _: KindTask) -> bool:
        """Being stored is never enough: the addressee of a letter has to read it at least."""
        return True

    def promise(self, task: KindTask) -> CompletionPromise:
        """Read, or answered."""
        return letters.make_promise("inform" if task.action_type == "inform" else "request", task.title)

    def context(self, task: KindTask, *, fence: str, locale: Locale) -> PromptContext:
        """Make the prompt's data from the letter."""
        return prompt_context.make_prompt_context(self.board, task, fence=fence, locale=locale)

    def prompt(self, context: PromptContext) -> list[PromptSection]:
        """Letter, unread notices, how to answer, promise."""
        return render_mail_sections(context)

    def variables(self, task: KindTask, agent_id: str) -> tuple[str, ...]:  # noqa: ARG002 - a letter needs none
        """Return no variables."""
        return ()

    def begun(self, tx: Tx, task: KindTask, at: str) -> None:
        """Record that a prompt had the letter, and the notices with it: they were read."""
        for task_id, informs in [(task.task_id, 0), *((each["task_id"], 1) for each in task.context["unread"])]:
            tx.run(READ_MAIL, task_id=task_id, at=at, how="injected", informs=informs)

    async def evidence(self, task: KindTask, turn: KindTurn) -> list[Evidence]:
        """Gather the evidence that the addressee answered: a letter, or its result, which becomes a letter."""
        if self.replies is None:
            return []
        result = turn.performance.result
        known = self.rules.profiles.get(task.agent_id)
        text = str(result) if known is not None and known.driver == "human" else _reply_in(result)
        answered = await self.replies.has_replied(task.task_id)
        if not answered and text:
            answered = await self.replies.answer(task, turn, text)
        if not answered:
            return []
        return [Evidence("reply", True, True, "observed", "engine", turn.at, f"{task.agent_id} answered")]

    def failed(self, _: KindTask, __: KindOutcome) -> Sequence[FollowUp]:
        """Return no follow-ups: a failed letter has no effect in the world."""
        return ()

    def closed(self, tx: Tx, task_id: str, why: str, at: str) -> None:
        """Note in the letter's row that it is over, or goes on."""
        tx.run(CLOSE_MAIL, task_id=task_id, at=at if why else None, why=why or None)


def _reply_in(result: Any) -> str:
    """Read the answer in a result; empty if it has none."""
    text = result.get("reply") if isinstance(result, dict) else None
    return text if isinstance(text, str) and text.strip() else ""


def read_task(row: LetterItemRow, notes: Sequence[UnreadNoteRow] = ()) -> KindTask:
    """Make a task from a row of the query `mail_item`."""
    body = bytes(row.body).decode()
    unread = [
        {"task_id": each.task_id, "mail_id": each.mail_id, "from": each.sender, "subject": each.subject, "at": each.at}
        | {"body": bytes(each.body).decode()}
        for each in notes
        if each.task_id != row.task_id
    ]
    facts = {
        "mail_id": row.mail_id,
        "thread": row.thread,
        "at": row.at,
        "deadline": row.deadline,
        "unread": unread,
    }
    return KindTask(
        board=BOARD,
        task_id=row.task_id,
        agent_id=row.addressee,
        title=row.subject,
        description=body,
        action_type=row.kind,
        steps=(),
        context=facts,
        sender=row.sender,
        source="mail",
        key=row.mail_id,
        object=row.thread,
        head_sha="",
        hop=row.hop,
        event_at=row.at,
        made_at=row.at,
        reexecutions=row.reexecutions,
    )
