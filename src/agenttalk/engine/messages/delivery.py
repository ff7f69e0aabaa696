"""Delivers accepted messages to inboxes, and takes superseded ones back.

A delivery is a row in state `stored` until its files lie in the inbox. Writing them again after a crash is
harmless, because a receiver that took the message already is recognised by the files it left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.envelope import ArtifactEnvelope
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MachineError, MissingError
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.records import JournalMessage, RecordSource
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.messages import (
    DELIVERIES_UNDER_WAY,
    FREE_PAYLOADS,
    HOLDER_OF,
    MARK_DELIVERED,
    RESERVE_PAYLOAD,
    SET_MESSAGE_STATE,
    SET_SHOWN,
    UNDELIVERED_OF,
    WITHDRAWN_DELIVERIES,
)
from agenttalk.ports.storage import Blobs, Store, Tx

AT_ONCE: Final = 500
Payload: TypeAlias = "tuple[str, bytes]"
"""Path and content of a file."""


@dataclass(frozen=True, slots=True)
class InboxDelivery:
    """A message on its way to one receiver."""

    id: int
    state: str
    message: int
    receiver: str
    delivery_id: str
    message_id: str
    sha256: str
    type: str
    task_id: str
    command_id: str | None
    output_name: str | None
    producer: str
    name: str
    envelope: bytes

    def letter(self, plan_id: str) -> JournalMessage:
        """Describe the message for the journal."""
        files = records.list_files(self.artifact().payload.files) if self.type == "artifact" else ()
        return JournalMessage(
            plan_id,
            self.message_id,
            self.sha256,
            self.producer,
            self.task_id,
            self.command_id,
            self.output_name,
            files,
        )

    def artifact(self) -> ArtifactEnvelope:
        """Read the envelope of an artifact."""
        return ArtifactEnvelope.from_bytes(self.envelope)


async def deliver(deps: Deps, board: Store, plan_id: str) -> int:
    """Deliver the stored messages of a plan. Returns how many arrived. A failure does not delay the others."""
    blobs = await deps.stores.blobs(board.name)
    done, after = 0, 0
    while rows := await board.read(DELIVERIES_UNDER_WAY, plan_id=plan_id, after=after, limit=AT_ONCE):
        batch = [InboxDelivery(*row) for row in rows]
        stored = [delivery for delivery in batch if delivery.state == "stored"]
        held = await _hold(deps, board, plan_id, [delivery for delivery in stored if delivery.type == "artifact"])
        trip = await _bring(deps, blobs, plan_id, [delivery for delivery in stored if delivery.id not in held])
        trip.arrived.extend(delivery for delivery in batch if delivery.state != "stored")  # claimed before it was noted
        if trip.arrived or trip.failed:
            await board.transact(partial(_note, plan_id=plan_id, trip=trip, at=deps.stamp()))
        done += len(trip.arrived)
        after = batch[-1].id
    return done


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of delivering a batch."""

    arrived: list[InboxDelivery] = field(default_factory=list)
    failed: list[tuple[InboxDelivery, AgentTalkError]] = field(default_factory=list)


async def _hold(deps: Deps, board: Store, plan_id: str, artifacts: list[InboxDelivery]) -> set[int]:
    """Reserve the paths of payloads. Returns the messages that wait until another payload of that path is claimed."""
    if not artifacts:
        return set()
    held = await board.transact(partial(_reserve, plan_id=plan_id, artifacts=artifacts))
    if held and await _free_what_is_gone(
        deps, board, plan_id, [artifact for artifact in artifacts if artifact.id in held]
    ):
        held = await board.transact(partial(_reserve, plan_id=plan_id, artifacts=artifacts))
    return held


def _reserve(tx: Tx, plan_id: str, artifacts: list[InboxDelivery]) -> set[int]:
    """Claim the paths of payloads in inboxes. Returns the deliveries that wait until another's payload is claimed."""
    held = set()
    for each in artifacts:
        holders = {
            tx.run(RESERVE_PAYLOAD, plan_id=plan_id, receiver=each.receiver, path=path, delivery=each.id)[0].delivery
            for path in _own_paths(each)
        }
        if holders != {each.id}:
            held.add(each.id)
            tx.run(FREE_PAYLOADS, delivery=each.id)
    return held


def _own_paths(delivery: InboxDelivery) -> list[str]:
    return [file.path for file in delivery.artifact().payload.files]


async def _free_what_is_gone(deps: Deps, board: Store, plan_id: str, waiting: Iterable[InboxDelivery]) -> bool:
    """Free the paths whose files another party's receiver took away, or whose message it has ended.

    Returns whether it freed a path for which others wait.
    """
    gone = set()
    for receiver, path in {(each.receiver, path) for each in waiting for path in _own_paths(each)}:
        for delivery, *message in await board.read(HOLDER_OF, plan_id=plan_id, receiver=receiver, path=path):
            box = root_layout.box_folder(receiver, "inbox", plan_id)
            if await asyncio.to_thread(_is_gone, deps.root, box, path, *message):
                gone.add(delivery)
    if gone:
        await board.transact(lambda tx: [tx.run(FREE_PAYLOADS, delivery=each) for each in gone])
    return bool(gone)


def _is_gone(root: Folder, box: str, path: str, message_id: str, name: str, sha256: str) -> bool:
    claimed = root_layout.claimed_name(message_id, name)
    try:
        with root.open_folder(box) as inbox:
            if inbox.exists(name) or inbox.exists(claimed):
                return False
            ended = [
                f"{folder}/{each}"
                for folder in (root_layout.PROCESSED, root_layout.DEADLETTER)
                for each in (claimed, name)
            ]
            return not inbox.exists(path) or any(_holds(inbox, each, sha256) for each in ended)
    except AgentTalkError:
        return False


async def _bring(deps: Deps, blobs: Blobs, plan_id: str, batch: list[InboxDelivery]) -> DeliveryResult:
    trip = DeliveryResult()
    commands: list[tuple[InboxDelivery, list[Payload]]] = [
        (delivery, []) for delivery in batch if delivery.type == "command"
    ]
    if commands:
        await asyncio.to_thread(_write_batch, deps.root, plan_id, commands, trip)
    for delivery in batch:
        if delivery.type == "artifact":  # one by one, because its files may be large
            try:
                files = [(file.path, await blobs.get(file.sha256)) for file in delivery.artifact().payload.files]
            except AgentTalkError as error:
                trip.failed.append((delivery, error))
            else:
                await asyncio.to_thread(_write_batch, deps.root, plan_id, [(delivery, files)], trip)
    return trip


def _write_batch(
    root: Folder, plan_id: str, batch: list[tuple[InboxDelivery, list[Payload]]], trip: DeliveryResult
) -> None:
    with ExitStack() as stack:
        desks: dict[str, InboxWriter] = {}
        for delivery, payloads in batch:
            try:
                desk = desks.get(delivery.receiver)
                if desk is None:
                    desk = desks[delivery.receiver] = InboxWriter(root, delivery.receiver, plan_id, stack)
                desk.write_message(delivery, payloads)
            except AgentTalkError as error:
                trip.failed.append((delivery, error))
            else:
                trip.arrived.append(delivery)


class InboxWriter:
    """The open folders of a receiver, while a batch is delivered."""

    def __init__(self, root: Folder, receiver: str, plan_id: str, stack: ExitStack) -> None:
        self._inbox = stack.enter_context(
            root.open_folder(root_layout.box_folder(receiver, "inbox", plan_id), create=True)
        )
        taken = (root_layout.PENDING, root_layout.PROCESSED, root_layout.DEADLETTER)
        self._taken = [each for name in taken for each in _open_folder(self._inbox, name, stack)]
        outbox = root_layout.box_folder(receiver, "outbox", plan_id)
        receipts = (outbox, f"{outbox}/{root_layout.SENT}")
        self._receipts = [each for path in receipts for each in _open_folder(root, path, stack)]

    def write_message(self, delivery: InboxDelivery, payloads: list[Payload]) -> None:
        """Write the payloads first and the envelope last: a receiver that sees the envelope finds everything."""
        if self._is_consumed(delivery):
            return
        for path, data in payloads:
            self._inbox.write(path, data, parents="/" in path)
        self._inbox.write(_free_name(self._inbox, delivery), delivery.envelope)

    def _is_consumed(self, delivery: InboxDelivery) -> bool:
        """Whether the receiver took the message already: a moved file or a receipt shows it."""
        claimed = root_layout.claimed_name(delivery.message_id, delivery.name)
        for folder in self._taken:
            if folder.exists(claimed) or _holds(folder, delivery.name, delivery.sha256):
                return True
        ack = root_layout.ack_name(delivery.message_id)
        return any(folder.exists(ack) for folder in self._receipts)


def _open_folder(folder: Folder, path: str, stack: ExitStack) -> list[Folder]:
    """Open a folder; None if it is missing."""
    try:
        return [stack.enter_context(folder.open_folder(path))]
    except MissingError:
        return []


def _free_name(inbox: Folder, delivery: InboxDelivery) -> str:
    """Choose the file's own name, unless another message has it."""
    taken = inbox.exists(delivery.name) and not _holds(inbox, delivery.name, delivery.sha256)
    return root_layout.claimed_name(delivery.message_id, delivery.name) if taken else delivery.name


def _holds(folder: Folder, name: str, sha256: str) -> bool:
    """Whether a file is this very message."""
    try:
        return folder.digest(name, wire.ENVELOPE_LIMIT).sha256 == sha256
    except (InputError, MissingError):
        return False


def _note(tx: Tx, plan_id: str, trip: DeliveryResult, at: str) -> None:
    for delivery in trip.arrived:
        if not tx.run(MARK_DELIVERED, id=delivery.id, at=at):
            continue  # recalled meanwhile
        records.write_journal_line(
            tx, delivery.letter(plan_id), "DELIVERED", at=at, delivery_id=delivery.delivery_id, to=delivery.receiver
        )
        if tx.run(UNDELIVERED_OF, message=delivery.message)[0].deliveries == 0:
            tx.run(SET_MESSAGE_STATE, id=delivery.message, state="delivered")
            records.count_messages(tx, plan_id, delivered=1)
    for delivery, error in trip.failed:
        records.alert(
            tx,
            at=at,
            plan_id=plan_id,
            code=Code(error.code),
            message=f"cannot deliver {delivery.message_id} to {delivery.receiver}: {error.message}",
            key=f"deliver/{delivery.id}",
            source=RecordSource(delivery.receiver, delivery.task_id, delivery.command_id),
            details={"hint": error.hint, "message_id": delivery.message_id},
        )


async def withdraw(deps: Deps, board: Store) -> int:
    """Take superseded messages out of the inboxes in which they are not claimed yet."""
    rows = await board.read(WITHDRAWN_DELIVERIES, limit=AT_ONCE)
    gone = []
    for row in rows:
        # Also one that was never noted as delivered: a crash may have come between its file and the note.
        box = root_layout.box_folder(row.receiver, "inbox", row.plan_id)
        if await asyncio.to_thread(_take_back, deps.root, box, (row.message_id, row.name, row.sha256)):
            gone.append(row.id)
    if gone:
        await board.transact(lambda tx: [tx.run(SET_SHOWN, id=delivery, state="superseded") for delivery in gone])
    return len(gone)


def _take_back(root: Folder, box: str, delivery: tuple[str, str, str]) -> bool:
    """Remove an unclaimed message; False when the file system refused, and it has to be tried again."""
    message_id, name, sha256 = delivery
    try:
        with root.open_folder(box) as inbox:
            for each in (name, root_layout.claimed_name(message_id, name)):
                if _holds(inbox, each, sha256):
                    inbox.remove(each)
    except (InputError, MissingError):
        return True  # it is not there any more, or is something else
    except MachineError:
        return False
    return True
