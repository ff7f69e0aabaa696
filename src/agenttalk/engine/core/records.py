"""Records that use cases write in their transactions: alerts, files to be shown, lines of the journal, dead letters.

Everything here takes an open transaction and touches no folder. The files follow from the rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import MEANINGS, Code
from agenttalk.ports.statements.core import PUT_BLOB
from agenttalk.ports.statements.messages import ADD_DEADLETTER, JOURNAL_GROWN, SHOW_VIEW, TALLY, VIEW_EXISTS

if TYPE_CHECKING:
    from agenttalk.contracts.core import root_layout
    from agenttalk.contracts.envelope import PayloadFile
    from agenttalk.contracts.errors import Problem
    from agenttalk.contracts.record import DeliveryStatus
    from agenttalk.ports.storage import Tx

SMALL: Final = 64 * 1024
"""A content of up to this size is kept in the database."""
_NOTHING: Final = ".000000Z"
Severity = Literal["INFO", "WARNING", "ERROR", "CRITICAL"]


@dataclass(frozen=True, slots=True)
class RecordSource:
    """The agent, the task and the file that a record is about."""

    agent_id: str | None = None
    task_id: str | None = None
    command_id: str | None = None

    def as_json(self) -> dict[str, str]:
        """Return only the fields that are known."""
        fields = {"agent_id": self.agent_id, "task_id": self.task_id, "command_id": self.command_id}
        return {key: value for key, value in fields.items() if value is not None}


def build_turn_subject(plan_id: str, message_id: str) -> str:
    """Name the subject under which the ledger keeps the turns of a command."""
    return f"turns/{plan_id}/{message_id}"


def derive_id(prefix: str, key: str) -> str:
    """Derive an id from a key, so that the same thing found twice has one name."""
    return f"{prefix}_{hashlib.sha256(key.encode()).hexdigest()[:24]}"


def format_time(at: str) -> str:
    """Write a time of the store as documents have it: without a fraction of zero."""
    return f"{at[: -len(_NOTHING)]}Z" if at.endswith(_NOTHING) else at


def store_content(tx: Tx, data: bytes) -> str:
    """Store a small content in the same commit as its reference."""
    digest = wire.sha256(data)
    tx.run_later(PUT_BLOB, {"hash": digest, "content": data})
    return digest


def publish_file(
    tx: Tx, path: str, body: wire.JsonValue | Mapping[str, object] | bytes, *, content: str | None = None
) -> None:
    """Have a file written once this is committed. Repeating it changes nothing.

    The path is one under system_runtime/, or under the root where it begins with agents/. Without a body
    and content the file is removed.
    """
    data = body if isinstance(body, bytes) else None if body is None else wire.write(body) + b"\n"
    tx.run_later(SHOW_VIEW, {"path": path, "body": data, "content": content})


def alert(
    tx: Tx,
    *,
    at: str,
    plan_id: str,
    code: Code,
    message: str,
    key: str,
    severity: Severity = "ERROR",
    source: RecordSource | None = None,
    details: Mapping[str, object] | None = None,
) -> bool:
    """Raise an alert, once for each key; False when it was raised before."""
    alert_id = derive_id("alert", f"{plan_id}/{code}/{key}")
    path = f"alerts/{plan_id}/{alert_id}.json"
    if tx.run(VIEW_EXISTS, path=path):
        return False
    body = {
        "schema_version": "1.0",
        "alert_id": alert_id,
        "plan_id": plan_id,
        "severity": severity,
        "type": str(code),
        "created_at": at,
        "source": (source or RecordSource()).as_json(),
        "message": message,
        "details": details or {},
    }
    publish_file(tx, path, body)
    tx.record("alert", plan_id, body)
    return True


class JournalFile(TypedDict):
    """A file of a message, as the journal names it."""

    path: str
    sha256: str
    size_bytes: int | None


def list_files(files: Iterable[PayloadFile]) -> tuple[JournalFile, ...]:
    """List the files of an artifact, as the journal names them."""
    found: list[Any] = [file.as_json() for file in files]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class JournalMessage:
    """A message as the journal names it."""

    plan_id: str
    message_id: str
    sha256: str
    sender: str
    task_id: str | None = None
    command_id: str | None = None
    output_name: str | None = None
    files: tuple[JournalFile, ...] = ()


def make_journal_line(
    letter: JournalMessage, status: DeliveryStatus, *, at: str, delivery_id: str, to: str | None = None, **more: Any
) -> dict[str, object]:
    """Make one line of the plan's deliveries.jsonl."""
    entry = {  # a DeliveryEntry; the letter was read strictly when it came, so it is not checked once more
        "schema_version": "1.0",
        "delivery_id": delivery_id,
        "plan_id": letter.plan_id,
        "message_id": letter.message_id,
        "envelope_sha256": letter.sha256,
        "task_id": letter.task_id,
        "command_id": letter.command_id,
        "output_name": letter.output_name,
        "from_agent_id": letter.sender,
        "to_agent_id": to,
        "delivered_at": at,
        "status": status,
        "payload": {"files": list(letter.files)} if letter.files else None,
        **more,
    }
    return {key: value for key, value in entry.items() if value is not None}


def make_delivered_line(
    letter: JournalMessage, *, at: str, delivery_id: str, to: str | None = None, files: Sequence[str] = ()
) -> str:
    """Make the line of a delivered message in its canonical form: the same as `make_journal_line`, only quicker.

    `files` are those of the letter, in their canonical form. Ids, times and hashes hold nothing that needs an escape.
    """
    command = f'"command_id":"{letter.command_id}",' if letter.command_id is not None else ""
    output = f'"output_name":{wire.quoted(letter.output_name)},' if letter.output_name is not None else ""
    payload = f'"payload":{{"files":[{",".join(files)}]}},' if files else ""
    task = f',"task_id":"{letter.task_id}"' if letter.task_id is not None else ""
    receiver = f',"to_agent_id":"{to}"' if to is not None else ""
    return (
        f'{{{command}"delivered_at":"{at}","delivery_id":"{delivery_id}","envelope_sha256":"{letter.sha256}",'
        f'"from_agent_id":"{letter.sender}","message_id":"{letter.message_id}",{output}{payload}'
        f'"plan_id":"{letter.plan_id}","schema_version":"1.0","status":"DELIVERED"{task}{receiver}}}'
    )


def write_journal_line(
    tx: Tx,
    letter: JournalMessage,
    status: DeliveryStatus,
    *,
    at: str,
    delivery_id: str,
    to: str | None = None,
    **more: Any,
) -> None:
    """Write a line of the journal: a fact, from which the file follows."""
    told = make_journal_line(letter, status, at=at, delivery_id=delivery_id, to=to, **more)
    seq = tx.record("delivery", journal_subject(letter.plan_id), told)
    tx.run(JOURNAL_GROWN, plan_id=letter.plan_id, seq=seq)


def read_journal_lines(body: bytes) -> list[bytes]:
    """Return the lines of the journal that a fact under a plan's `journal_subject` holds: it is one, or has several."""
    told: Any = json.loads(body)  # the engine wrote it
    return [wire.write(each) for each in told["lines"]] if "lines" in told else [body]


def journal_subject(plan_id: str) -> str:
    """Return the subject of a plan's deliveries in the ledger."""
    return f"deliveries/{plan_id}"


def count_messages(tx: Tx, plan_id: str, **changes: int) -> None:
    """Count messages: sent, delivered, superseded, duplicate, dead."""
    zero = {"sent": 0, "delivered": 0, "superseded": 0, "duplicate": 0, "dead": 0}
    tx.run_later(TALLY, {"plan_id": plan_id, **zero, **changes})


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message or file that cannot be delivered."""

    plan_id: str
    agent_id: str
    box: root_layout.Box
    name: str
    """Name of the file, spelled so that it can be written into a document."""
    key: str
    """The key that makes finding the same file again harmless."""
    code: Code
    reason: str
    original: bytes | str | None = None
    """Its bytes when they are small, else the hash of the stored content; None when it is not a file."""
    message_id: str | None = None
    sha256: str | None = None
    problems: tuple[Problem, ...] = ()


def write_dead_letter(tx: Tx, refused: RefusedMessage, *, at: str) -> bool:
    """Dead-letter something, with an alert; False when that was done before.

    It does not count the message: the caller that took it in counts `sent` and `dead`.
    """
    deadletter_id = derive_id("dl", f"{refused.plan_id}/{refused.key}")
    original = store_content(tx, refused.original) if isinstance(refused.original, bytes) else refused.original
    retriable = MEANINGS[refused.code].retriable or refused.code in REPLAYABLE
    new = tx.run(
        ADD_DEADLETTER,
        plan_id=refused.plan_id,
        deadletter_id=deadletter_id,
        key=refused.key,
        code=refused.code,
        reason=refused.reason,
        agent_id=refused.agent_id,
        box=refused.box,
        name=refused.name,
        message_id=refused.message_id,
        sha256=refused.sha256,
        original=original,
        retriable=int(retriable),
        at=at,
    )
    if not new:
        return False
    entry = _entry(refused, deadletter_id, retriable=retriable, at=at)
    folder = f"deadletter/{refused.plan_id}"
    publish_file(tx, f"{folder}/{deadletter_id}.json", entry)
    if original is not None:
        publish_file(tx, f"{folder}/{deadletter_id}.original", None, content=original)
    tx.record("deadletter", refused.plan_id, entry)
    alert(
        tx,
        at=at,
        plan_id=refused.plan_id,
        code=refused.code,
        message=f"{refused.box} of {refused.agent_id}: {refused.name}: {refused.reason}",
        key=refused.key,
        source=RecordSource(agent_id=refused.agent_id),
        details={"deadletter_id": deadletter_id, "file_name": refused.name},
    )
    return True


def _entry(refused: RefusedMessage, deadletter_id: str, *, retriable: bool, at: str) -> dict[str, object]:
    """Make the document of a dead letter."""
    original = {
        "file_name": refused.name,
        "message_id": refused.message_id,
        "producer_agent_id": refused.agent_id,
        "sha256": refused.sha256,
    }
    again = f"agenttalk deadletter replay {deadletter_id}" if retriable else "correct it and send it as a new message"
    return {
        "schema_version": "1.0",
        "deadletter_id": deadletter_id,
        "reason": {"code": str(refused.code), "message": refused.reason},
        "original": {key: value for key, value in original.items() if value is not None},
        "actions": {"retriable": retriable, "suggested_next": again},
        "problems": [_shown(problem) for problem in refused.problems],
        "created_at": at,
    }


REPLAYABLE: Final = frozenset(
    {
        Code.TARGET_AGENT_NOT_FOUND,
        Code.ROUTING_NO_TARGET,
        Code.TASK_NOT_IN_DAG,
        Code.TASK_NOT_FOUND,
        Code.COMMAND_DAG_MISMATCH,
        Code.COMMAND_NOT_AUTHORISED,
        Code.MISSING_PAYLOAD,
        Code.PAYLOAD_HASH_MISMATCH,
        Code.UNHANDLED_EXCEPTION,
    }
)
"""Refusals that a change of the plan, the agents or the files can undo."""


def _shown(problem: Problem) -> dict[str, str | None]:
    return {"code": str(problem.code), "field": problem.field, "message": problem.message, "hint": problem.hint}
