"""Letters in a transaction: taken, handed out to their addressees, noted as read or answered, settled, given up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, NotRequired, TypedDict, cast

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import format_instant, parse_instant
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.contracts.mail import Mail
from agenttalk.engine.core import records
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName, require_current_attempt
from agenttalk.engine.plans import board_run, reset, transitions
from agenttalk.engine.plans.definition import DefinitionCache
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.kinds import KindTask, MailKind, MailRules
from agenttalk.ports.statements.mail import (
    ADD_MAIL,
    ADD_MAIL_ITEM,
    ADD_MAIL_WORD,
    CLOSE_MAIL,
    JOIN_MAIL_THREAD,
    MAIL,
    MAIL_FOR,
    MAIL_ITEM,
    MAIL_ITEMS_OF,
    READ_MAIL,
    REMIND_MAIL,
    REPLY_MAIL,
    SET_MAIL_DUE,
    LetterItemRow,
    LetterPageRow,
    LetterRow,
)
from agenttalk.ports.statements.messages import TASK
from agenttalk.ports.statements.plans import ACKNOWLEDGE_BY_HAND
from agenttalk.ports.storage import Tx
from agenttalk.rules.core import task_states
from agenttalk.rules.mail import letters
from agenttalk.rules.mail.letters import BOARD, OPERATOR, AnsweredLetter, LetterObservation
from agenttalk.rules.messages.routes import RESERVED, Rejection
from agenttalk.rules.prompts.mail import render_command_text
from agenttalk.rules.text import task_words

NOT_SHOWN: Final = 0
"""The file of a letter has to be written."""
SHOWN: Final = 1
NO_FILE: Final = 2
DeliveryMode = Literal["run", "command", "hold"]
"""How an addressee gets a letter: its program is run, the router brings a command, or the letter waits to be read."""


@dataclass(frozen=True, slots=True)
class LetterDraft:
    """A letter that a caller wants to send."""

    sender: str
    to: tuple[str, ...]
    kind: letters.Kind
    subject: str
    body: str
    in_reply_to: str | None = None
    deadline: datetime | None = None
    message_id: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the request as JSON."""
        return {
            "from": self.sender,
            "to": list(self.to),
            "kind": self.kind,
            "subject": self.subject,
            "body": self.body,
            "in_reply_to": self.in_reply_to,
            "deadline": format_instant(self.deadline) if self.deadline else None,
            "message_id": self.message_id,
        }

    def to_letter(self, message_id: str) -> Mail:
        """Make the document. Raises ContractError."""
        said = {key: value for key, value in self.as_json().items() if value is not None}
        return Mail.from_json({"schema_version": "1.0", **said, "message_id": self.message_id or message_id})


def parse_draft(sender: str, said: Mapping[str, Any]) -> LetterDraft:
    """Read a letter from JSON values; the letter's own checks find missing values. Raises ContractError."""
    given: Any = {"to": ["unknown"], "subject": "?", **said, "message_id": "draft", "from": sender}
    letter = Mail.from_json({"schema_version": "1.0", **given})
    to = letter.to if "to" in said else ()
    subject = letter.subject if "subject" in said else ""
    return LetterDraft(
        sender, to, letter.kind, subject, letter.body, letter.in_reply_to, letter.deadline, said.get("message_id")
    )


def kind_of(deps: Deps) -> MailKind:
    """Return the kind of letters. Raises MachineError if the engine has none."""
    kind = deps.kinds.get(BOARD)
    if kind is None or not hasattr(kind, "rules"):
        raise MachineError(Code.ENGINE_UNREACHABLE, "this process takes no letters", hint="start 'agenttalk serve'")
    return cast("MailKind", kind)


async def row_of(deps: Deps, mail_id: str) -> LetterRow:
    """Read the row of a letter. Raises UsageError if there is none."""
    if not deps.stores.has_board(BOARD):
        raise unknown_letter_error(mail_id)
    rows = await (await deps.stores.board(BOARD)).read(MAIL, mail_id=mail_id)
    if not rows:
        raise unknown_letter_error(mail_id)
    return rows[0]


def unknown_letter_error(mail_id: str) -> UsageError:
    """Make the error for a letter that does not exist, or that the caller may not know of."""
    return UsageError(
        Code.NAME_UNKNOWN, f"there is no letter {mail_id[:140]!r}", hint="'agenttalk mail list' shows all"
    )


def open_run(tx: Tx, deps: Deps, sheets: DefinitionCache) -> PlanTransaction:
    """Open the board's run with its present configuration."""
    rules, at = kind_of(deps).rules, deps.stamp()
    board_run.open_run(tx, rules.policies, rules.profiles, at)
    sheets.forget(BOARD)
    return PlanTransaction(tx, deps, sheets, at)


def find_agents(deps: Deps, rules: MailRules, names: Iterable[str]) -> frozenset[str]:
    """Find the names that are agents: configured ones, or those with a folder."""
    found = set()
    for name in set(names) - RESERVED:
        entry = None if name in rules.profiles else deps.root.entry(root_layout.agent_folder(name))
        if name in rules.profiles or (entry is not None and entry.kind == "folder"):
            found.add(name)
    return frozenset(found)


def accept_letter_file(tx: Tx, deps: Deps, letter: Mail) -> Rejection | None:
    """Take a letter that an agent left in its outbox; why not, if it is not taken."""
    kind = kind_of(deps)
    if deps.secret_guard.secrets:
        redact = deps.secret_guard.secrets.redact
        letter = letter.model_copy(update={"subject": redact(letter.subject), "body": redact(letter.body)})
    moves = open_run(tx, deps, DefinitionCache(deps.submitted, traced=deps.traced))
    there = find_agents(deps, kind.rules, letter.to)
    taken = accept_letter(moves, kind, letter, there=there, via="outbox")
    moves.finish()
    return taken if isinstance(taken, Rejection) else None


LetterHeader = TypedDict(
    "LetterHeader",
    {
        "schema_version": str,
        "message_id": str,
        "thread": str,
        "from": str,
        "to": list[str],
        "kind": letters.Kind,
        "subject": str,
        "in_reply_to": NotRequired[str],
        "deadline": NotRequired[str],
        "via": NotRequired[str],
        "sent_at": str,
    },
)
"""A letter without its body."""


class SentLetter(LetterHeader):
    """A letter that was sent, without its body, and the task of each addressee."""

    tasks: dict[str, str]


def accept_letter(
    moves: PlanTransaction, kind: MailKind, letter: Mail, *, there: frozenset[str], via: str, before: Iterable[int] = ()
) -> SentLetter | Rejection:
    """Take a letter: what was sent, or why it is not taken. The same letter once more changes nothing."""
    tx, rules = moves.tx, kind.rules
    digest = wire.sha256(letter.to_bytes())
    if known := tx.run(MAIL, mail_id=letter.message_id):
        if (known[0].sender, known[0].sha256) == (letter.sender, digest):
            return _sent_to_json(tx, known[0])
        message = f"the id {letter.message_id!r} was used for another letter"
        return Rejection(Code.MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD, message, message_id=letter.message_id)
    now = parse_instant(moves.now)
    rows = tx.run(MAIL, mail_id=letter.in_reply_to) if letter.in_reply_to else []
    answers = AnsweredLetter(rows[0].sender, _addressees(tx, rows[0].id), rows[0].hop) if rows else None
    hop = letters.hop_of(letter.sender, [*before, *([answers.hop] if answers else [])])
    refused = letters.find_refusal(letter, agents=there, now=now, answers=answers, hop=hop, hops=rules.hops)
    if refused is not None:
        return replace(refused, message_id=letter.message_id)
    thread = rows[0].thread if rows else letter.message_id
    number, times = _write(moves, letter, rules, thread=thread, hop=hop, via=via, digest=digest)
    for addressee in dict.fromkeys(letter.to):
        _hand_out(moves, kind, letter, addressee, number, thread, times, hop)
    if rows and answers is not None and letter.sender in answers.addressees:
        _note_reply(moves, kind, rows[0], letter, answers)
    return _sent_to_json(tx, tx.run(MAIL, mail_id=letter.message_id)[0])


def _write(
    moves: PlanTransaction, letter: Mail, rules: MailRules, *, thread: str, hop: int, via: str, digest: str
) -> tuple[int, letters.RequestTimes | None]:
    """Write a letter down; its number, and its times if it is a request."""
    tx, now, body = moves.tx, parse_instant(moves.now), letter.body.encode()
    times = None
    if letter.kind == "request":
        times = letters.compute_times(
            now, letter.deadline, remind_after=rules.remind_after, answer_within=rules.answer_within
        )
    [(number,)] = tx.run(
        ADD_MAIL,
        mail_id=letter.message_id,
        thread=thread,
        sender=letter.sender,
        kind=letter.kind,
        subject=letter.subject,
        in_reply_to=letter.in_reply_to,
        deadline=format_instant(times.deadline) if times else None,
        hop=hop,
        via=via,
        sha256=digest,
        size=len(body),
        at=moves.now,
        body=body,
    )
    found = letters.index_words(f"{letter.subject}\n{letter.body}")
    tx.run_many(ADD_MAIL_WORD, [{"word": each, "mail": number} for each in sorted(found)])
    for party in dict.fromkeys(["*", letter.sender, *letter.to]):
        tx.run(JOIN_MAIL_THREAD, thread=thread, party=party, mail=number)
    fact = {"from": letter.sender, "to": list(letter.to), "kind": letter.kind, "thread": thread, "sha256": digest}
    tx.record("mail.sent", letter.message_id, {**fact, "via": via, "in_reply_to": letter.in_reply_to})
    return number, times


def _hand_out(
    moves: PlanTransaction,
    kind: MailKind,
    letter: Mail,
    addressee: str,
    number: int,
    thread: str,
    times: letters.RequestTimes | None,
    hop: int,
) -> None:
    """Make the task of one addressee."""
    tx, rules = moves.tx, kind.rules
    way = _way(rules, letter.kind, addressee)
    task_id = (
        letter.message_id if len(set(letter.to)) == 1 else records.derive_id("ml", f"{letter.message_id}/{addressee}")
    )
    if tx.run(TASK, plan_id=BOARD, task_id=task_id):
        task_id = records.derive_id("ml", f"{letter.message_id}/{addressee}/{number}")
    shown = NO_FILE if way == "run" or not _has_folder(moves.deps, rules, addressee) else NOT_SHOWN
    due_at = format_instant(times.remind_at) if times else None
    tx.run(ADD_MAIL_ITEM, mail=number, task_id=task_id, addressee=addressee, way=way, shown=shown, due_at=due_at)
    deadline = format_instant(times.deadline) if times else None
    facts: dict[str, Any] = {
        "mail_id": letter.message_id,
        "thread": thread,
        "at": moves.now,
        "deadline": deadline,
        "unread": [],
    }
    task = KindTask(
        board=BOARD,
        task_id=task_id,
        agent_id=addressee,
        title=letter.subject,
        description=letter.body,
        action_type=letter.kind,
        steps=(),
        context=facts,
        sender=letter.sender,
        source="mail",
        key=letter.message_id,
        object=thread,
        head_sha="",
        hop=hop,
        event_at=moves.now,
        made_at=moves.now,
    )
    known = rules.profiles.get(addressee)
    context = kind.context(
        task, fence=records.derive_id("letter", f"{task_id}/{moves.now}"), locale=known.locale if known else "en"
    )
    limits = {"timeout": rules.timeout, "retry_times": rules.retry_times}
    board_run.insert_task(moves, kind, task, render_command_text(context), limits, held=way == "hold")


def _way(rules: MailRules, kind: str, addressee: str) -> DeliveryMode:
    """Decide how a letter reaches its addressee. Only agents in the settings are run or get commands."""
    known = rules.profiles.get(addressee)
    if known is None or addressee not in rules.driven:
        return "hold"
    if known.driver == "folder":
        return "command"
    return "run" if kind == "request" else "hold"


def _has_folder(deps: Deps, rules: MailRules, addressee: str) -> bool:
    if addressee == OPERATOR:
        return False
    known = rules.profiles.get(addressee)
    if known is None or known.driver in {"folder", "script"}:
        return True
    return deps.root.exists(root_layout.agent_folder(addressee))


def _note_reply(moves: PlanTransaction, kind: MailKind, row: LetterRow, letter: Mail, answers: AnsweredLetter) -> None:
    """Note that an addressee answered a letter; or at least read it, if the answer goes to others only."""
    tx = moves.tx
    [(task_id,)] = tx.run(MAIL_FOR, mail=row.id, addressee=letter.sender)
    if not letters.is_answer(letter, answers):
        if tx.run(READ_MAIL, task_id=task_id, at=moves.now, how="replied", informs=int(row.kind == "inform")):
            tx.record("mail.read", task_id, {"how": "replied"})
            settle(moves, kind, task_id)
    elif tx.run(REPLY_MAIL, task_id=task_id, reply=letter.message_id, at=moves.now):
        tx.record("mail.replied", task_id, {"reply": letter.message_id})
        settle(moves, kind, task_id)


def settle(moves: PlanTransaction, kind: MailKind, task_id: str) -> None:
    """End a task that is not run, if what was seen of its letter is enough."""
    row = moves.tx.run(MAIL_ITEM, task_id=task_id)[0]
    state: task_states.State = row.state
    if row.closed_at is not None or state in task_states.FINAL or state == "RUNNING":
        return
    found = letters.make_evidence(LetterObservation(row.addressee, row.read_at, row.read_how, row.reply), moves.now)
    if board_run.complete_if_fulfilled(moves, kind, task_id, state, found) and row.delivery is not None:
        _take_back(moves, row.addressee, row.delivery)


def _take_back(moves: PlanTransaction, addressee: str, delivery: int) -> None:
    """Take back the command of a letter that is answered."""
    moves.tx.run(ACKNOWLEDGE_BY_HAND, id=delivery, ack="SUCCEEDED", details=None, at=moves.now)
    reset.withdraw_command(moves, BOARD, addressee, delivery, "the letter was answered")


def remind(moves: PlanTransaction, row: LetterItemRow) -> None:
    """Mark the letter as unread, put it into the inbox again, and raise an alert."""
    tx = moves.tx
    tx.run(REMIND_MAIL, task_id=row.task_id, at=moves.now, due_at=row.deadline)
    tx.record("mail.reminded", row.task_id, {"addressee": row.addressee, "deadline": row.deadline})
    message = f"{row.addressee} has not answered {row.mail_id} of {row.sender}; it has to until {row.deadline}"
    records.alert(
        tx,
        at=moves.now,
        plan_id=BOARD,
        code=Code.MAIL_UNANSWERED,
        message=message,
        key=f"{row.task_id}/reminded",
        severity="WARNING",
        source=records.RecordSource(row.addressee, row.task_id),
    )


def give_up(moves: PlanTransaction, row: LetterItemRow) -> None:
    """Fail the task, because no answer came in time."""
    why = task_words.NO_ANSWER(agent=row.addressee, deadline=row.deadline)
    if row.state in task_states.FINAL:
        moves.tx.run(CLOSE_MAIL, task_id=row.task_id, at=moves.now, why=why)
        return
    if row.delivery is not None:
        reset.withdraw_command(moves, BOARD, row.addressee, row.delivery, why)
    sheet = moves.definitions.load(moves.tx, BOARD)
    transitions.end_idle_task(moves, sheet, row.task_id, row.state, "ABORTED", reason=why)
    records.alert(
        moves.tx,
        at=moves.now,
        plan_id=BOARD,
        code=Code.MAIL_UNANSWERED,
        message=f"{row.mail_id} of {row.sender}: {why}",
        key=f"{row.task_id}/failed",
        source=records.RecordSource(row.addressee, row.task_id),
    )


def wait_for_deadline(tx: Tx, row: LetterItemRow) -> None:
    """Look again at the deadline; once that is over, only what ends by itself is waited for."""
    over = (row.due_at or "") >= (row.deadline or "")
    tx.run(SET_MAIL_DUE, task_id=row.task_id, due_at=None if over else row.deadline)


def _addressees(tx: Tx, number: int) -> tuple[str, ...]:
    return tuple(row.addressee for row in tx.run(MAIL_ITEMS_OF, mail=number))


def _sent_to_json(tx: Tx, row: LetterRow) -> SentLetter:
    items = tx.run(MAIL_ITEMS_OF, mail=row.id)
    shown: Any = letter_of(row, [each.addressee for each in items])
    return cast("SentLetter", {**shown, "tasks": {each.addressee: each.task_id for each in items}})


def letter_of(row: LetterRow | LetterPageRow, to: Iterable[str]) -> dict[str, Any]:
    """Make a letter without its body, from a row that begins like the query `mail`."""
    found = {
        "schema_version": "1.0",
        "message_id": row.mail_id,
        "thread": row.thread,
        "from": row.sender,
        "to": list(to),
        "kind": row.kind,
        "subject": row.subject,
        "in_reply_to": row.in_reply_to,
        "deadline": row.deadline,
        "via": row.via,
        "sent_at": row.at,
    }
    return {key: value for key, value in found.items() if value is not None}


def file_name(mail_id: str) -> str:
    """Return the name of a letter's file in an inbox."""
    return f"mail_{mail_id}.json"


def fence_attempt(tx: Tx, caller: Caller) -> None:
    """Require that an agent that answers in the turn of a letter still has that turn."""
    if caller.attempt is not None and caller.attempt.board == BOARD:
        require_current_attempt(tx, TaskName(*caller.attempt.task), caller)


def hop_of_attempt(tx: Tx, caller: Caller) -> int | None:
    """Count the answers between agents up to the letter in whose turn an agent writes."""
    if caller.attempt is None or caller.attempt.board != BOARD:
        return None
    rows = tx.run(MAIL_ITEM, task_id=caller.attempt.task_id)
    return rows[0].hop if rows else None


def hint_of(refused: Rejection) -> str:
    """Make a hint for a letter that was refused."""
    return refused.problems[0].hint if refused.problems else "take another id"
