"""Letters in a transaction: taken, handed out to their addressees, noted as read or answered, settled, given up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, cast

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import format_instant, parse_instant
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.contracts.mail import Mail
from agenttalk.engine.core import records
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import TaskName, require_current_attempt
from agenttalk.engine.plans import board_run, reset
from agenttalk.engine.plans.definition import DefinitionCache
from agenttalk.engine.plans.transitions import TaskTransitions
from agenttalk.ports import KindTask, MailKind, MailRules, Row, Tx
from agenttalk.rules.core import task_states
from agenttalk.rules.mail import letters
from agenttalk.rules.mail.letters import BOARD, OPERATOR, AnsweredLetter, LetterObservation
from agenttalk.rules.messages.routing import RESERVED, Rejection
from agenttalk.rules.prompts.mail import render_command_text

NOT_SHOWN: Final = 0
"""The file of a letter has to be written."""
SHOWN: Final = 1
NO_FILE: Final = 2
DeliveryMode = Literal["run", "command", "hold"]
"""How an addressee gets a letter: its program is run, the router brings a command, or the letter waits to be read."""


@dataclass(frozen=True, slots=True)
class LetterDraft:
    """A letter that somebody wants to send."""

    sender: str
    to: tuple[str, ...]
    kind: letters.Kind
    subject: str
    body: str
    in_reply_to: str | None = None
    deadline: datetime | None = None
    message_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        """What was asked for."""
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
        """The document; raises ContractError."""
        said = {key: value for key, value in self.as_json().items() if value is not None}
        return Mail.from_json({"schema_version": "1.0", **said, "message_id": self.message_id or message_id})


def parse_draft(sender: str, said: Mapping[str, Any]) -> LetterDraft:
    """What somebody wants to send, from JSON values; what is missing is left to the letter. Raises ContractError."""
    given: Any = {"to": ["nobody"], "subject": "?", **said, "message_id": "draft", "from": sender}
    letter = Mail.from_json({"schema_version": "1.0", **given})
    to = letter.to if "to" in said else ()
    subject = letter.subject if "subject" in said else ""
    return LetterDraft(
        sender, to, letter.kind, subject, letter.body, letter.in_reply_to, letter.deadline, said.get("message_id")
    )


def kind_of(deps: Deps) -> MailKind:
    """The kind of letters. Raises MachineError where there is none."""
    kind = deps.kinds.get(BOARD)
    if kind is None or not hasattr(kind, "rules"):
        raise MachineError(Code.ENGINE_UNREACHABLE, "nobody takes letters here", hint="start 'agenttalk serve'")
    return cast("MailKind", kind)


async def row_of(deps: Deps, mail_id: str) -> Row:
    """The row of a letter; raises UsageError when there is none."""
    if not deps.stores.has_board(BOARD):
        raise unknown_letter_error(mail_id)
    rows = await (await deps.stores.board(BOARD)).read("mail", mail_id=mail_id)
    if not rows:
        raise unknown_letter_error(mail_id)
    return rows[0]


def unknown_letter_error(mail_id: str) -> UsageError:
    """There is no such letter, as far as whoever asks may know."""
    return UsageError(
        Code.NAME_UNKNOWN, f"there is no letter {mail_id[:140]!r}", hint="'agenttalk mail list' shows all"
    )


def open_run(tx: Tx, deps: Deps, sheets: DefinitionCache) -> TaskTransitions:
    """The board's run, there and as it is configured."""
    rules, at = kind_of(deps).rules, deps.stamp()
    board_run.open_run(tx, rules.policies, rules.profiles, at)
    sheets.forget(BOARD)
    return TaskTransitions(tx, deps, sheets, at)


def find_agents(deps: Deps, rules: MailRules, names: Iterable[str]) -> frozenset[str]:
    """Those of some names that are agents: configured, or with a folder of their own."""
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
    moves = open_run(tx, deps, DefinitionCache(traced=deps.traced))
    there = find_agents(deps, kind.rules, letter.to)
    taken = accept_letter(moves, kind, letter, there=there, via="outbox")
    moves.finish()
    return taken if isinstance(taken, Rejection) else None


def accept_letter(
    moves: TaskTransitions, kind: MailKind, letter: Mail, *, there: frozenset[str], via: str, before: Iterable[int] = ()
) -> dict[str, Any] | Rejection:
    """Take a letter: what was sent, or why it is not taken. The same letter once more changes nothing."""
    tx, rules = moves.tx, kind.rules
    digest = wire.sha256(letter.to_bytes())
    if known := tx.run("mail", mail_id=letter.message_id):
        if (known[0][3], known[0][10]) == (letter.sender, digest):
            return _sent_to_json(tx, known[0])
        message = f"the id {letter.message_id!r} was used for another letter"
        return Rejection(Code.MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD, message, message_id=letter.message_id)
    now = parse_instant(moves.at)
    rows = tx.run("mail", mail_id=letter.in_reply_to) if letter.in_reply_to else []
    answers = AnsweredLetter(rows[0][3], _addressees(tx, rows[0][0]), rows[0][8]) if rows else None
    hop = letters.hop_of(letter.sender, [*before, *([answers.hop] if answers else [])])
    refused = letters.find_refusal(letter, agents=there, now=now, answers=answers, hop=hop, hops=rules.hops)
    if refused is not None:
        return replace(refused, message_id=letter.message_id)
    thread = rows[0][2] if rows else letter.message_id
    number, times = _write(moves, letter, rules, thread=thread, hop=hop, via=via, digest=digest)
    for addressee in dict.fromkeys(letter.to):
        _hand_out(moves, kind, letter, addressee, number, thread, times, hop)
    if rows and answers is not None and letter.sender in answers.addressees:
        _note_reply(moves, kind, rows[0], letter, answers)
    return _sent_to_json(tx, tx.run("mail", mail_id=letter.message_id)[0])


def _write(
    moves: TaskTransitions, letter: Mail, rules: MailRules, *, thread: str, hop: int, via: str, digest: str
) -> tuple[int, letters.RequestTimes | None]:
    """Write a letter down; its number, and its times if it is a request."""
    tx, now, body = moves.tx, parse_instant(moves.at), letter.body.encode()
    times = None
    if letter.kind == "request":
        times = letters.compute_times(
            now, letter.deadline, remind_after=rules.remind_after, answer_within=rules.answer_within
        )
    [(number,)] = tx.run(
        "add_mail",
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
        at=moves.at,
        body=body,
    )
    found = letters.index_words(f"{letter.subject}\n{letter.body}")
    tx.run_many("add_mail_word", [{"word": each, "mail": number} for each in sorted(found)])
    for party in dict.fromkeys(["*", letter.sender, *letter.to]):
        tx.run("join_mail_thread", thread=thread, party=party, mail=number)
    fact = {"from": letter.sender, "to": list(letter.to), "kind": letter.kind, "thread": thread, "sha256": digest}
    tx.record("mail.sent", letter.message_id, {**fact, "via": via, "in_reply_to": letter.in_reply_to})
    return number, times


def _hand_out(
    moves: TaskTransitions,
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
    if tx.run("task", plan_id=BOARD, task_id=task_id):
        task_id = records.derive_id("ml", f"{letter.message_id}/{addressee}/{number}")
    shown = NO_FILE if way == "run" or not _has_folder(moves.deps, rules, addressee) else NOT_SHOWN
    due_at = format_instant(times.remind_at) if times else None
    tx.run("add_mail_item", mail=number, task_id=task_id, addressee=addressee, way=way, shown=shown, due_at=due_at)
    deadline = format_instant(times.deadline) if times else None
    facts: dict[str, Any] = {
        "mail_id": letter.message_id,
        "thread": thread,
        "at": moves.at,
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
        event_at=moves.at,
        made_at=moves.at,
    )
    known = rules.profiles.get(addressee)
    context = kind.context(
        task, fence=records.derive_id("letter", f"{task_id}/{moves.at}"), locale=known.locale if known else "en"
    )
    limits = {"timeout": rules.timeout, "retry_times": rules.retry_times}
    board_run.insert_task(moves, kind, task, render_command_text(context), limits, held=way == "hold")


def _way(rules: MailRules, kind: str, addressee: str) -> DeliveryMode:
    """Only agents that the settings describe are run or given commands; what they say of themselves does not count."""
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


def _note_reply(moves: TaskTransitions, kind: MailKind, row: Row, letter: Mail, answers: AnsweredLetter) -> None:
    """A letter was answered by one of those who got it; or at least read, if the answer goes to others alone."""
    tx = moves.tx
    [(task_id,)] = tx.run("mail_for", mail=row[0], addressee=letter.sender)
    if not letters.is_answer(letter, answers):
        if tx.run("read_mail", task_id=task_id, at=moves.at, how="replied", informs=int(row[4] == "inform")):
            tx.record("mail.read", task_id, {"how": "replied"})
            settle(moves, kind, task_id)
    elif tx.run("reply_mail", task_id=task_id, reply=letter.message_id, at=moves.at):
        tx.record("mail.replied", task_id, {"reply": letter.message_id})
        settle(moves, kind, task_id)


def settle(moves: TaskTransitions, kind: MailKind, task_id: str) -> None:
    """End a task that nobody runs, if what was seen of its letter is enough."""
    row = moves.tx.run("mail_item", task_id=task_id)[0]
    state: task_states.State = row[21]
    if row[10] is not None or state in task_states.FINAL or state == "RUNNING":
        return
    found = letters.make_evidence(LetterObservation(row[2], row[6], row[7], row[8]), moves.at)
    if board_run.complete_if_fulfilled(moves, kind, task_id, state, found) and row[23] is not None:
        _take_back(moves, row, "SUCCEEDED", None)


def _take_back(moves: TaskTransitions, row: Row, ack: str, why: str | None) -> None:
    """The command of a letter needs nobody any more."""
    moves.tx.run("acknowledge_by_hand", id=row[23], ack=ack, details=why, at=moves.at)
    reset.withdraw_command(moves, BOARD, row[2], row[23], why or "the letter was answered")


def remind(moves: TaskTransitions, row: Row) -> None:
    """The letter is unread again, and lies in the inbox again; people are told."""
    tx = moves.tx
    tx.run("remind_mail", task_id=row[1], at=moves.at, due_at=row[18])
    tx.record("mail.reminded", row[1], {"addressee": row[2], "deadline": row[18]})
    message = f"{row[2]} has not answered {row[12]} of {row[14]}; it has to until {row[18]}"
    records.alert(
        tx,
        at=moves.at,
        plan_id=BOARD,
        code=Code.MAIL_UNANSWERED,
        message=message,
        key=f"{row[1]}/reminded",
        severity="WARNING",
        source=records.RecordSource(row[2], row[1]),
    )


def give_up(moves: TaskTransitions, row: Row) -> None:
    """Nobody answered in time: the task has failed."""
    why = f"{row[2]} did not answer before the deadline, {row[18]}"
    if row[21] in task_states.FINAL:
        moves.tx.run("close_mail", task_id=row[1], at=moves.at, why=why)
        return
    if row[23] is not None:
        reset.withdraw_command(moves, BOARD, row[2], row[23], why)
    sheet = moves.sheets.load(moves.tx, BOARD)
    moves.fail_idle_task(sheet, row[1], row[21], "ABORTED", reason=why)
    records.alert(
        moves.tx,
        at=moves.at,
        plan_id=BOARD,
        code=Code.MAIL_UNANSWERED,
        message=f"{row[12]} of {row[14]}: {why}",
        key=f"{row[1]}/failed",
        source=records.RecordSource(row[2], row[1]),
    )


def wait_for_deadline(tx: Tx, row: Row) -> None:
    """Look again at the deadline; once that is over, only what ends by itself is waited for."""
    over = row[5] >= row[18]
    tx.run("set_mail_due", task_id=row[1], due_at=None if over else row[18])


def _addressees(tx: Tx, number: int) -> tuple[str, ...]:
    return tuple(row[1] for row in tx.run("mail_items_of", mail=number))


def _sent_to_json(tx: Tx, row: Row) -> dict[str, Any]:
    items = tx.run("mail_items_of", mail=row[0])
    return {**letter_of(row, [each[1] for each in items]), "tasks": {each[1]: each[0] for each in items}}


def letter_of(row: Row, to: Iterable[str]) -> dict[str, Any]:
    """A letter without its body, from a row that begins like the query `mail`."""
    found = {
        "schema_version": "1.0",
        "message_id": row[1],
        "thread": row[2],
        "from": row[3],
        "to": list(to),
        "kind": row[4],
        "subject": row[5],
        "in_reply_to": row[6],
        "deadline": row[7],
        "via": row[9],
        "sent_at": row[12],
    }
    return {key: value for key, value in found.items() if value is not None}


def file_name(mail_id: str) -> str:
    """The file of a letter in an inbox."""
    return f"mail_{mail_id}.json"


def fence_attempt(tx: Tx, caller: Caller) -> None:
    """An agent that answers in the turn of a letter must still have it."""
    if caller.attempt is not None and caller.attempt.board == BOARD:
        require_current_attempt(tx, TaskName(*caller.attempt[:3]), caller)


def hop_of_attempt(tx: Tx, caller: Caller) -> int | None:
    """How far the letter is from a person in whose turn an agent writes."""
    if caller.attempt is None or caller.attempt.board != BOARD:
        return None
    rows = tx.run("mail_item", task_id=caller.attempt.task_id)
    return rows[0][19] if rows else None


def hint_of(refused: Rejection) -> str:
    """What to do about a letter that was not taken."""
    return refused.problems[0].hint if refused.problems else "take another id"
