"""Artifacts that arrived: their contents are kept, and the files in the workspace follow from the rows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import parse_instant, write_time
from agenttalk.contracts.envelope import ArtifactEnvelope
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MissingError
from agenttalk.contracts.record import InputIndex
from agenttalk.engine.core import outbox_writer, records
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.inbox import (
    CLAIMED_MESSAGES,
    FINISH_DELIVERY,
    INPUTS_OF,
    INPUTS_OF_OUTPUT,
    PUT_INPUT,
    RETIRE_INPUT,
    ClaimedMessageRow,
)
from agenttalk.ports.storage import Tx
from agenttalk.rules.core import artifacts
from agenttalk.rules.core.artifacts import ArtifactFile
from agenttalk.rules.messages import archive
from agenttalk.rules.messages.archive import CurrentFile, PathConflict
from agenttalk.rules.messages.routes import Rejection

_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class ClaimedArtifact:
    """A claimed artifact."""

    delivery: int
    message_id: str
    sha256: str
    task_id: str
    command_id: str | None
    seq: int
    output_name: str
    name: str
    envelope: bytes = field(repr=False)
    consumed_at: str

    @classmethod
    def from_row(cls, row: ClaimedMessageRow) -> ClaimedArtifact:
        """Build an artifact from a row of `claimed_messages`."""
        return cls(
            row.id,
            row.message_id,
            row.sha256,
            row.task_id,
            row.command_id,
            row.seq,
            row.output_name,
            row.name,
            row.envelope,
            row.consumed_at,
        )

    def payload(self) -> list[ArtifactFile]:
        """Return the files that the envelope names."""
        return _read_files(bytes(self.envelope))

    @property
    def subject(self) -> outbox_writer.ReceiptSubject:
        """The artifact as its receipt names it."""
        seq = self.seq if self.command_id else None
        return outbox_writer.ReceiptSubject(self.message_id, self.task_id, self.command_id, seq)


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """The results for claimed artifacts."""

    archived: int = 0
    dead: int = 0


async def archive_claimed(seat: AgentInPlan) -> ArchiveResult:
    """Keep every claimed artifact, or refuse it."""
    archived = dead = after = 0
    while rows := await seat.store.read(
        CLAIMED_MESSAGES,
        plan_id=seat.plan_id,
        receiver=seat.agent_id,
        type="artifact",
        after=after,
        limit=_AT_ONCE,
    ):
        parcels = [ClaimedArtifact.from_row(row) for row in rows]
        loaded = [(each, await _load(seat, each)) for each in parcels]
        kept = await seat.store.transact(lambda tx, loaded=loaded: [_keep(tx, seat, *each) for each in loaded])  # type: ignore[misc]
        archived += sum(kept)
        dead += len(kept) - sum(kept)
        after = parcels[-1].delivery
    return ArchiveResult(archived, dead)


async def _load(seat: AgentInPlan, parcel: ClaimedArtifact) -> list[bytes] | Rejection:
    """Load the small contents that the store lacks; large ones are stored at once."""
    small: list[bytes] = []
    for file in parcel.payload():
        try:
            small += await _content(seat, file)
        except InputError as error:
            return Rejection(error.code, error.message)
    return small


async def _content(seat: AgentInPlan, file: ArtifactFile) -> list[bytes]:
    if await seat.blobs.exists(file.sha256):
        return []
    if not root_layout.is_safe_payload(file.path):
        raise InputError(Code.PATH_OUTSIDE_FOLDER, f"{file.path!r} cannot be a payload")
    path, limit = f"{seat.inbox}/{file.path}", seat.deps.limits.payload_bytes
    try:
        entry = await asyncio.to_thread(seat.root.entry, path)
        if entry is not None and entry.kind == "regular" and entry.size > records.SMALL:
            with seat.root.stream(path, limit) as stream:
                _require(file, await seat.blobs.put(stream))
            return []
        data = await asyncio.to_thread(seat.root.read, path, limit)
    except MissingError as error:
        raise InputError(Code.MISSING_PAYLOAD, f"its file {file.path!r} is not there") from error
    _require(file, wire.sha256(data))
    return [data]


def _require(file: ArtifactFile, sha256: str) -> None:
    if sha256 != file.sha256:
        raise InputError(Code.PAYLOAD_HASH_MISMATCH, f"its file {file.path!r} has another hash than the envelope says")


def _keep(tx: Tx, seat: AgentInPlan, parcel: ClaimedArtifact, loaded: list[bytes] | Rejection) -> bool:
    """Decide about one artifact and record the decision with its effects; False when it is refused."""
    at = seat.deps.stamp()
    where = {"plan_id": seat.plan_id, "agent_id": seat.agent_id, "task_id": parcel.task_id}
    files = artifacts.normalize_files(parcel.message_id, parcel.payload())
    if isinstance(loaded, Rejection):
        return _refuse(tx, seat, parcel, loaded, at)
    rows = tx.run(INPUTS_OF_OUTPUT, **where, output_name=parcel.output_name)
    held = {row.path: CurrentFile(row.sha256, row.seq, row.message_id) for row in rows}
    fates = archive.decide(files, held, seq=parcel.seq)
    if isinstance(fates, PathConflict):
        why = Rejection(Code.INPUT_CONFLICT, f"{fates.path!r}: {fates.message}")
        return _refuse(tx, seat, parcel, why, at)
    done = tx.run(FINISH_DELIVERY, id=parcel.delivery, state="processed", ack="SUCCEEDED", at=at, details=None, acted=0)
    if not done:
        return True  # it was ended otherwise meanwhile
    for data in loaded:
        records.store_content(tx, data)
    for file in dict.fromkeys(files):
        fate = fates[file.path]
        if fate in {"new", "replaces"} or (fate == "same" and held[file.path].seq < parcel.seq):
            tx.run(
                PUT_INPUT,
                **where,
                output_name=parcel.output_name,
                path=file.path,
                sha256=file.sha256,
                seq=parcel.seq,
                message_id=parcel.message_id,
                at=at,
            )
    retired = archive.find_retired(files, held, seq=parcel.seq)
    for path in retired:
        tx.run(
            RETIRE_INPUT,
            **where,
            output_name=parcel.output_name,
            path=path,
            seq=parcel.seq,
            message_id=parcel.message_id,
            at=at,
        )
    tx.record("artifact.archived", parcel.message_id, {**where, "files": dict(fates), "retired": retired})
    outbox_writer.acknowledge(
        tx,
        seat,
        parcel.subject,
        "SUCCEEDED",
        consumed_at=parcel.consumed_at,
        finished_at=at,
        result={"ok": True},
    )
    return True


def _refuse(tx: Tx, seat: AgentInPlan, parcel: ClaimedArtifact, why: Rejection, at: str) -> bool:
    details = f"{why.code}: {why.message}"
    if not tx.run(FINISH_DELIVERY, id=parcel.delivery, state="dead", ack="FAILED", at=at, details=details, acted=0):
        return False
    refused = records.RefusedMessage(
        plan_id=seat.plan_id,
        agent_id=seat.agent_id,
        box="inbox",
        name=parcel.name,
        key=f"inbox/{seat.agent_id}/{parcel.message_id}",
        code=why.code,
        reason=why.message,
        original=bytes(parcel.envelope),
        message_id=parcel.message_id,
        sha256=parcel.sha256,
    )
    records.write_dead_letter(tx, refused, at=at)
    result = {"ok": False, "details": details}
    outbox_writer.acknowledge(
        tx, seat, parcel.subject, "FAILED", consumed_at=parcel.consumed_at, finished_at=at, result=result
    )
    return False


def build_archive_path(task_id: str, output_name: str, path: str) -> str:
    """Build the path of an output's file below an agent's inputs."""
    return f"{task_id}/{root_layout.path_segment(output_name)}/{path}"


async def show_artifact(seat: AgentInPlan, message_id: str, task_id: str, output_name: str, envelope: bytes) -> None:
    """Make the workspace show an archived artifact. What has to be there follows from the rows alone."""
    files = artifacts.normalize_files(message_id, _read_files(envelope))
    where = {"plan_id": seat.plan_id, "agent_id": seat.agent_id, "task_id": task_id}
    rows = {row.path: row for row in await seat.store.read(INPUTS_OF_OUTPUT, **where, output_name=output_name)}
    for file in dict.fromkeys(files):
        held = rows[file.path]
        if held.sha256 == file.sha256:
            await show_file(seat, build_archive_path(task_id, output_name, file.path), held.sha256)
            if held.message_id == message_id and held.before_sha256:
                await show_file(seat, f"{root_layout.HISTORY}/{held.before_message_id}/{file.path}", held.before_sha256)
        else:  # a newer version came before or after it
            await show_file(seat, f"{root_layout.HISTORY}/{message_id}/{file.path}", file.sha256)
    for held in rows.values():
        if held.message_id == message_id and not held.sha256 and held.before_sha256:
            await show_file(seat, f"{root_layout.HISTORY}/{held.before_message_id}/{held.path}", held.before_sha256)
            await asyncio.to_thread(_remove, seat, build_archive_path(task_id, output_name, held.path))
    await put_payloads_away(seat, root_layout.PROCESSED, message_id, envelope)


def _remove(seat: AgentInPlan, path: str) -> None:
    with seat.root.open_folder(seat.inputs, create=True) as folder:
        if folder.remove(path):
            _remove_empty(folder, path)


async def show_file(seat: AgentInPlan, path: str, sha256: str) -> None:
    """Have a file of the workspace hold a content."""
    if await asyncio.to_thread(_holds, seat, f"{seat.inputs}/{path}", sha256):
        return
    data = await seat.blobs.get(sha256)
    await asyncio.to_thread(seat.root.write, f"{seat.inputs}/{path}", data, parents=True)


def _holds(seat: AgentInPlan, path: str, sha256: str) -> bool:
    try:
        return seat.root.digest(path, seat.deps.limits.payload_bytes).sha256 == sha256
    except (MissingError, InputError):
        return False


def _read_files(envelope: bytes) -> list[ArtifactFile]:
    files = ArtifactEnvelope.from_bytes(envelope).payload.files
    return [ArtifactFile(file.path, file.sha256) for file in files]


async def put_payloads_away(seat: AgentInPlan, folder: str, message_id: str, envelope: bytes) -> None:
    """Payloads leave the inbox with their message. A file that is not the message's own stays."""
    await asyncio.to_thread(
        _put_payloads_away, seat, f"{folder}/{root_layout.PAYLOAD}/{message_id}", _read_files(envelope)
    )


def _put_payloads_away(seat: AgentInPlan, folder: str, files: list[ArtifactFile]) -> None:
    for path, sha256 in files:
        if not root_layout.is_safe_payload(path) or not _holds(seat, f"{seat.inbox}/{path}", sha256):
            continue
        above, _, name = f"{seat.inbox}/{folder}/{path}".rpartition("/")
        with seat.root.open_folder(seat.inbox) as inbox, seat.root.open_folder(above, create=True) as target:
            try:
                inbox.move(path, target, name, replace=True)
            except MissingError:
                continue
            _remove_empty(inbox, path)


def _remove_empty(inbox: Folder, path: str) -> None:
    """Folders that held only payloads go with them."""
    above = path.rpartition("/")[0]
    while above:
        try:
            inbox.remove(above)
        except AgentTalkError:
            return
        above = above.rpartition("/")[0]


async def show_index(seat: AgentInPlan) -> None:
    """Write `input_index.json` anew from the rows."""
    rows = await seat.store.read(INPUTS_OF, plan_id=seat.plan_id, agent_id=seat.agent_id)
    entries: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        entry = entries.setdefault(
            (row.message_id, row.task_id, row.output_name),
            {
                "message_id": row.message_id,
                "task_id": row.task_id,
                "output_name": row.output_name,
                "received_at": write_time(parse_instant(row.received_at)),
                "files": [],
            },
        )
        entry["files"].append(
            {
                "path": row.path,
                "sha256": row.sha256,
                "stored_at": build_archive_path(row.task_id, row.output_name, row.path),
            }
        )
    document = {"plan_id": seat.plan_id, "agent_id": seat.agent_id, "entries": list(entries.values())}
    data = InputIndex.from_json(document).to_bytes() + b"\n"
    await asyncio.to_thread(seat.root.write, f"{seat.inputs}/{root_layout.INPUT_INDEX}", data, parents=True)
