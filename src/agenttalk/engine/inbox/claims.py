"""Claims messages in an inbox: an atomic move to `.pending`, then one commit for all claimed messages."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from agenttalk.contracts.command import PRIORITIES, parse_command_id
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import format_instant, write_time
from agenttalk.contracts.envelope import ArtifactEnvelope, CommandEnvelope
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MissingError
from agenttalk.contracts.record import Ack
from agenttalk.engine.core import outbox_writer, records
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.inbox.origins import OriginJudge
from agenttalk.engine.messages import control_files
from agenttalk.engine.messages.recall import recall
from agenttalk.ports.folders import Folder, FolderEntry
from agenttalk.ports.statements.inbox import (
    ADD_TASK,
    CLAIM_DELIVERY,
    CLAIMED_NAMES,
    KNOWN_DELIVERY,
    TAKEN_WITHDRAWN,
    UNCLAIMED_MESSAGES,
    KnownDeliveryRow,
)
from agenttalk.ports.statements.messages import ADD_DELIVERY, ADD_MESSAGE, ADD_PLAN, NEWEST_ORDER, PLAN, WITHDRAW
from agenttalk.ports.storage import Tx
from agenttalk.rules.messages import routes
from agenttalk.rules.messages.archive import make_claimed_name, original_name
from agenttalk.rules.messages.routes import CommandOrder, OutboxMessage, Rejection

_COPIES: Final = 10_000
"""How many copies of one message are kept."""

ClaimDecision = Literal["claim", "wait", "copy", "done"]
"""Claimed, left for now, put aside as a copy of a claimed one, or put aside because it was worked before."""


@dataclass(frozen=True, slots=True)
class InboxFile:
    """A message file in an inbox, read."""

    entry: FolderEntry
    where: str
    """Its folder inside the inbox: empty, or `.pending`."""
    parcel: OutboxMessage | Rejection
    data: bytes = field(default=b"", repr=False)
    original: bytes | str | None = field(default=None, repr=False)
    """The content that a dead letter keeps."""
    name: str = ""
    """Its name from now on."""
    copy: int = 0
    """The lowest number for it among the copies of its message."""

    @property
    def path(self) -> str:
        """Its path inside the inbox."""
        return f"{self.where}/{self.entry.name}" if self.where else self.entry.name

    @property
    def encoded_name(self) -> str:
        """Its name, as a document can hold it."""
        return self.entry.name.encode("utf-8", "backslashreplace").decode()

    @property
    def message_id(self) -> str:
        """The message; empty when it could not be read."""
        return self.parcel.envelope.message_id if isinstance(self.parcel, OutboxMessage) else ""


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of claiming messages in an inbox."""

    found: int = 0
    """Files that were there and could be read."""
    claimed: int = 0
    dead: int = 0
    errors: tuple[str, ...] = ()
    all_wait: bool = False
    """Whether all of them wait because their origin is unknown. There may be others behind them."""


async def claim_messages(seat: AgentInPlan, inbound: OriginJudge) -> ClaimResult:
    """Claim the next new messages, except for those that wait because their origin is unknown."""
    while True:
        waiting = await inbound.waiting_names(seat.plan_id)
        claimed = await _claim_files(seat, inbound, await asyncio.to_thread(_new, seat, waiting))
        if not claimed.all_wait or await inbound.waiting_names(seat.plan_id) == waiting:
            return claimed


async def resume_claims(seat: AgentInPlan, inbound: OriginJudge) -> ClaimResult:
    """Finish what a crash left: files moved and not noted, and messages whose files are gone from the inbox."""
    rows = await seat.store.read(CLAIMED_NAMES, plan_id=seat.plan_id, receiver=seat.agent_id)
    known = {make_claimed_name(message_id, name) for message_id, name in rows}
    total = await _claim_files(seat, inbound, await asyncio.to_thread(_pending, seat, known))
    await _restore(seat)
    return total


async def _restore(seat: AgentInPlan) -> None:
    """Put messages back that the store says are in the inbox and that are not: files are never synced."""
    rows = await seat.store.read(UNCLAIMED_MESSAGES, plan_id=seat.plan_id, receiver=seat.agent_id)

    def work() -> None:
        with seat.root.open_folder(seat.inbox, create=True) as inbox:
            for message_id, name, envelope in rows:
                if not inbox.exists(name) and not inbox.exists(make_claimed_name(message_id, name)):
                    inbox.write(name, bytes(envelope))

    if rows:
        await asyncio.to_thread(work)


def _new(seat: AgentInPlan, waiting: set[str]) -> tuple[list[InboxFile], list[str]]:
    try:
        with seat.root.open_folder(seat.inbox) as inbox:
            messages = (
                name for name in inbox.names() if name.endswith(root_layout.MESSAGE) and not name.startswith(".")
            )
            names = (name for name in messages if name not in waiting)
            return _read_all(seat, inbox, "", heapq.nsmallest(seat.deps.limits.new_messages_per_tick, names))
    except MissingError:
        return [], []
    except AgentTalkError as error:
        return [], [error.message]


def _pending(seat: AgentInPlan, known: set[str]) -> tuple[list[InboxFile], list[str]]:
    try:
        with seat.root.open_folder(seat.inbox) as inbox, inbox.open_folder(root_layout.PENDING) as pending:
            names = [name for name in pending.names() if name not in known and not name.startswith(".")]
            return _read_all(seat, inbox, root_layout.PENDING, sorted(names))
    except MissingError:
        return [], []
    except AgentTalkError as error:
        return [], [error.message]


def _read_all(seat: AgentInPlan, inbox: Folder, where: str, names: Iterable[str]) -> tuple[list[InboxFile], list[str]]:
    files: list[InboxFile] = []
    errors: list[str] = []
    for name in names:
        try:
            files += _read(seat, inbox, where, name)
        except AgentTalkError as error:
            errors.append(error.message)
    return files, errors


def _read(seat: AgentInPlan, inbox: Folder, where: str, name: str) -> list[InboxFile]:
    path = f"{where}/{name}" if where else name
    entry = inbox.entry(path)
    if entry is None:
        return []
    if not entry.is_text:
        return [InboxFile(entry, where, Rejection(Code.FILE_UNSAFE, "its name is not UTF-8"))]
    try:
        data = inbox.read(path, wire.ENVELOPE_LIMIT)
    except MissingError:
        return []
    except InputError as error:
        return [InboxFile(entry, where, Rejection(error.code, error.message))]
    parcel = routes.unpack(data, owner=None, plan_id=seat.plan_id)
    return [InboxFile(entry, where, parcel, data, original=data)]


async def _claim_files(
    seat: AgentInPlan, inbound: OriginJudge, looked: tuple[list[InboxFile], list[str]]
) -> ClaimResult:
    files, errors = looked
    if not files:
        return ClaimResult(errors=tuple(errors))
    dead: list[tuple[InboxFile, Rejection]] = []
    taken: list[InboxFile] = []
    waits = 0
    copies: list[InboxFile] = []
    worked: list[tuple[InboxFile, Ack]] = []
    seen: dict[str, tuple[str, str]] = {}
    for file in files:
        fate = await _decide_claim(seat, inbound, file, seen)
        if isinstance(fate, Rejection):
            dead.append((await _with_original(seat, file), fate))
            continue
        if fate[0] == "wait":
            waits += 1
            continue
        receipt = await asyncio.to_thread(_final_receipt, seat, file.message_id) if fate[0] == "claim" else None
        if receipt is not None:
            worked.append((replace(file, name=fate[1]), receipt))
        elif fate[0] == "claim":
            taken.append(replace(file, name=fate[1]))
        else:
            copies.append(replace(file, name=fate[1], copy=int(fate[0] == "copy")))
    taken = await asyncio.to_thread(_move_to_pending, seat, taken, errors)
    if taken or dead or worked:
        await seat.store.transact(lambda tx: _note(tx, seat, taken, dead, worked))
    copies += [file for file, _ in worked]
    await asyncio.to_thread(_put_away, seat, [file for file, _ in dead], copies, errors)
    return ClaimResult(len(files), len(taken), len(dead), tuple(errors), waits == len(files))


async def _decide_claim(
    seat: AgentInPlan, inbound: OriginJudge, file: InboxFile, seen: dict[str, tuple[str, str]]
) -> tuple[ClaimDecision, str] | Rejection:
    """Decide about a file, and under which name. `seen` has hash and name of messages found before."""
    if isinstance(file.parcel, Rejection):
        return file.parcel
    message_id, sha256 = file.message_id, file.parcel.sha256
    name = original_name(message_id, file.entry.name)
    rows = await seat.store.read(KNOWN_DELIVERY, plan_id=seat.plan_id, message_id=message_id, receiver=seat.agent_id)
    before = seen.get(message_id)
    earlier = rows[0].sha256 if rows else before and before[0]
    judged = routes.check_duplicate(file.parcel, earlier)
    if isinstance(judged, Rejection):
        return judged
    if before:
        return "copy", before[1]
    if not rows or rows[0].state is None:
        known = await inbound.judge(seat, file.parcel, file.entry.name)
        if known != "take":
            return known if isinstance(known, Rejection) else ("wait", name)
    if not rows:
        seen[message_id] = (sha256, name)
        return "claim", name
    name = rows[0].name
    state, shown = rows[0].state, rows[0].shown
    if state in {None, "stored", "delivered"} or (state == "superseded" and shown not in {"claimed", "superseded"}):
        seen[message_id] = (sha256, name)
        return "claim", name
    return ("done" if state == shown == "processed" else "copy"), name


def _final_receipt(seat: AgentInPlan, message_id: str) -> Ack | None:
    """Find a final receipt of the agent for a message that the store did not know then."""
    for folder in (seat.outbox, f"{seat.outbox}/{root_layout.SENT}"):
        try:
            ack = Ack.from_bytes(seat.root.read(f"{folder}/{root_layout.ack_name(message_id)}", wire.ENVELOPE_LIMIT))
        except (MissingError, InputError):
            continue
        named = (ack.plan_id, ack.message_id, ack.consumer_agent_id)
        if named == (seat.plan_id, message_id, seat.agent_id) and ack.status != "CONSUMED":
            return ack
    return None


async def _with_original(seat: AgentInPlan, file: InboxFile) -> InboxFile:
    """Keep the whole original for a dead letter, also of a file that is too large for a message."""
    parcel = file.parcel
    if not isinstance(parcel, Rejection):
        return file
    if parcel.code is not Code.FILE_TOO_LARGE:
        return file
    try:
        with seat.root.stream(f"{seat.inbox}/{file.path}", seat.deps.limits.payload_bytes) as stream:
            return replace(file, original=await seat.blobs.put(stream))
    except (InputError, MissingError):
        return file  # larger than anything we keep; it stays whole in .deadletter


def _move_to_pending(seat: AgentInPlan, files: list[InboxFile], errors: list[str]) -> list[InboxFile]:
    """Move files to `.pending`. The move is the claim: a file that another process moved first is not ours."""
    if not files:
        return []
    taken = []
    with seat.root.open_folder(seat.inbox) as inbox, inbox.open_folder(root_layout.PENDING, create=True) as pending:
        for file in files:
            kept = make_claimed_name(file.message_id, file.name)
            try:
                if file.path != f"{root_layout.PENDING}/{kept}":
                    inbox.move(file.path, pending, kept, replace=True)
                taken.append(file)
            except MissingError:
                continue
            except AgentTalkError as error:
                errors.append(error.message)
    return taken


def _put_away(seat: AgentInPlan, dead: list[InboxFile], copies: list[InboxFile], errors: list[str]) -> None:
    for folder, batch in ((root_layout.DEADLETTER, dead), (root_layout.PROCESSED, copies)):
        if not batch:
            continue
        with seat.root.open_folder(seat.inbox) as inbox, inbox.open_folder(folder, create=True) as target:
            for file in batch:
                try:
                    _move_aside(inbox, file, target)
                except MissingError:
                    continue
                except AgentTalkError as error:
                    errors.append(error.message)


def _move_aside(inbox: Folder, file: InboxFile, target: Folder) -> None:
    for copy in range(file.copy, _COPIES):
        if file.name:
            new = make_claimed_name(file.message_id, file.name, copy)
        else:
            new = f"{file.entry.name[:200]}__dup_{copy}" if copy else file.entry.name
        if inbox.move(file.path, target, new):
            return


def _note(
    tx: Tx,
    seat: AgentInPlan,
    taken: list[InboxFile],
    dead: list[tuple[InboxFile, Rejection]],
    worked: list[tuple[InboxFile, Ack]],
) -> None:
    at = seat.deps.stamp()
    for file in taken:
        _note_claim(tx, seat, file, at)
    for file, receipt in worked:
        _note_worked(tx, seat, file, receipt, at)
    for file, why in dead:
        _bury(tx, seat, file, why, at)


def _bury(tx: Tx, seat: AgentInPlan, file: InboxFile, why: Rejection, at: str) -> None:
    kept = wire.sha256(file.original) if isinstance(file.original, bytes) else file.original
    identity = kept or f"{file.entry.inode}/{file.entry.mtime_ns}"
    tx.run(ADD_PLAN, plan_id=seat.plan_id, origin=_origin(seat.plan_id))
    refused = records.RefusedMessage(
        plan_id=seat.plan_id,
        agent_id=seat.agent_id,
        box="inbox",
        name=file.encoded_name,
        key=f"inbox/{seat.agent_id}/{file.encoded_name}/{identity}",
        code=why.code,
        reason=why.message,
        original=file.original,
        message_id=file.message_id or None,
        sha256=kept,
        problems=why.problems,
    )
    if records.write_dead_letter(tx, refused, at=at):
        unread = records.derive_id("unread", refused.key)
        message_id, digest = file.message_id or unread, kept or wire.sha256(b"")
        letter = records.JournalMessage(seat.plan_id, message_id, digest, _sender(file) or seat.agent_id)
        about = {"skip_reason": str(why.code), "file_name": file.encoded_name}
        delivery_id = records.derive_id("dlv", refused.key)
        records.write_journal_line(
            tx, letter, "DEADLETTERED", at=at, delivery_id=delivery_id, to=seat.agent_id, **about
        )


def _sender(file: InboxFile) -> str | None:
    return file.parcel.envelope.producer_agent_id if isinstance(file.parcel, OutboxMessage) else None


def _origin(plan_id: str) -> str:
    return "virtual" if plan_id.startswith("_") else "foreign"


def _note_claim(tx: Tx, seat: AgentInPlan, file: InboxFile, at: str) -> None:
    rows = tx.run(KNOWN_DELIVERY, plan_id=seat.plan_id, message_id=file.message_id, receiver=seat.agent_id)
    if rows and rows[0].state == "superseded":
        tx.run(TAKEN_WITHDRAWN, id=rows[0].delivery)
        return
    imported = not rows or rows[0].delivery is None
    delivery = _import(tx, seat, file, rows, at) if imported else rows[0].delivery
    is_command = isinstance(file.parcel, OutboxMessage) and isinstance(file.parcel.envelope, CommandEnvelope)
    ack = "CONSUMED" if is_command else ""
    if not tx.run(CLAIM_DELIVERY, id=delivery, at=at, ack=ack, stored_at=at if imported else None):
        return  # another process noted the claim
    tx.record("message.claimed", file.message_id, {"agent_id": seat.agent_id, "plan_id": seat.plan_id})
    if is_command:
        outbox_writer.acknowledge(tx, seat, find_subject(file), "CONSUMED", consumed_at=at)


def _note_worked(tx: Tx, seat: AgentInPlan, file: InboxFile, receipt: Ack, at: str) -> None:
    """Note a message that the agent worked before, as its receipt says. It does not run again."""
    rows = tx.run(KNOWN_DELIVERY, plan_id=seat.plan_id, message_id=file.message_id, receiver=seat.agent_id)
    if not rows or rows[0].delivery is None:
        delivery = _import(tx, seat, file, rows, at)
        tx.run(CLAIM_DELIVERY, id=delivery, at=format_instant(receipt.consumed_at), ack="", stored_at=at)
    origin = tx.run(PLAN, plan_id=seat.plan_id)[0].origin
    control_files.acknowledge(tx, receipt, plan_id=seat.plan_id, foreign=origin == "foreign", at=at)


def find_subject(file: InboxFile) -> outbox_writer.ReceiptSubject:
    """Return the message as its receipt names it."""
    assert isinstance(file.parcel, OutboxMessage)  # noqa: S101 - a claim is always of something that could be read
    envelope = file.parcel.envelope
    parts = parse_command_id(envelope.command_id) if envelope.command_id else None
    seq = parts.seq if parts else None
    return outbox_writer.ReceiptSubject(envelope.message_id, envelope.task_id, envelope.command_id, seq)


def _import(tx: Tx, seat: AgentInPlan, file: InboxFile, rows: list[KnownDeliveryRow], at: str) -> int:
    """Take a message into the store that another router delivered."""
    assert isinstance(file.parcel, OutboxMessage)  # noqa: S101
    envelope = file.parcel.envelope
    command = envelope.payload.command if isinstance(envelope, CommandEnvelope) else None
    tx.run(ADD_PLAN, plan_id=seat.plan_id, origin=_origin(seat.plan_id))
    if command:
        tx.run(ADD_TASK, plan_id=seat.plan_id, task_id=envelope.task_id, agent_id=seat.agent_id, at=at)
    stale = False
    if rows:
        message = rows[0].id
    else:
        parts = parse_command_id(envelope.command_id) if envelope.command_id else None
        seq = parts.seq if parts else 0
        dag = command.dag_ref.sha256 if command and command.dag_ref else ""
        stale = command is not None and _is_stale(tx, seat, envelope.task_id, dag, seq)
        if command and not stale:
            newer = CommandOrder(envelope.message_id, envelope.task_id, command.command_id, seq)
            recall(tx, newer, seat.plan_id, dag, seat.deps, at)
        [(message,)] = tx.run(
            ADD_MESSAGE,
            plan_id=seat.plan_id,
            message_id=envelope.message_id,
            sha256=file.parcel.sha256,
            type=envelope.type,
            task_id=envelope.task_id,
            command_id=envelope.command_id,
            seq=seq,
            output_name=envelope.output_name if isinstance(envelope, ArtifactEnvelope) else None,
            producer=envelope.producer_agent_id,
            name=file.name,
            envelope=file.data,
            dag_sha256=dag,
            at=at,
            state="superseded" if stale else "delivered",
        )
        records.count_messages(tx, seat.plan_id, sent=1, superseded=int(stale), delivered=int(not stale))
        created = write_time(envelope.created_at)
        tx.record("message.imported", envelope.message_id, {"sha256": file.parcel.sha256, "created_at": created})
    [(delivery,)] = tx.run(
        ADD_DELIVERY,
        plan_id=seat.plan_id,
        message=message,
        receiver=seat.agent_id,
        delivery_id=seat.deps.ids.new("dlv"),
        priority=PRIORITIES[command.priority if command else "MEDIUM"],
    )
    if stale:
        tx.run(WITHDRAW, id=delivery, ack=None, at=at, details=f"{Code.SUPERSEDED}: a newer command of the task came")
        tx.run(TAKEN_WITHDRAWN, id=delivery)
    number: int = delivery
    return number


def _is_stale(tx: Tx, seat: AgentInPlan, task_id: str, dag_sha256: str, seq: int) -> bool:
    rows = tx.run(NEWEST_ORDER, plan_id=seat.plan_id, task_id=task_id, dag_sha256=dag_sha256)
    return bool(rows) and rows[0].seq > seq
