"""An incoming message: its file as it was found and read, with its payloads.

Decides only what needs no rows of the plan: what cannot be read, holds a secret, or differs from its envelope.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.dag import Output, Versioning
from agenttalk.contracts.envelope import ArtifactEnvelope, CommandEnvelope
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MissingError
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.records import SMALL
from agenttalk.engine.messages import outbox_reader
from agenttalk.engine.messages.outbox_reader import OutboxFile
from agenttalk.engine.messages.plan_registry import RoutedPlan
from agenttalk.ports.storage import Blobs
from agenttalk.rules.core import media_types
from agenttalk.rules.messages import routes
from agenttalk.rules.messages.control_files import kind_of
from agenttalk.rules.messages.routes import CommandOrder, OutboxMessage, Rejection

LOG = logging.getLogger(__name__)
INTERNAL_FAULT: Final = Rejection(
    Code.UNHANDLED_EXCEPTION, "an error in AgentTalk itself; the file is kept, and the log has the traceback"
)
_BOTH: Final = {None, "artifact_validation_result"}
"""Control files that may also be payloads: a validator's result can be an output."""


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """A message file, read but not judged by the plan."""

    found: OutboxFile
    data: bytes
    parcel: OutboxMessage | Rejection
    original: bytes | str | None = None
    """The original for a dead letter: its bytes, or the hash of a stored content."""
    contents: tuple[bytes, ...] = field(default=(), repr=False)
    """Small payloads, which the same commit stores."""
    refusal: Rejection | None = None
    """Why its files are refused. A message that came before is still a duplicate."""

    @property
    def order(self) -> CommandOrder | None:
        """The message as a command; None if it is an artifact."""
        if isinstance(self.parcel, Rejection) or not isinstance(self.parcel.envelope, CommandEnvelope):
            return None
        envelope = self.parcel.envelope
        return CommandOrder(
            envelope.message_id, envelope.task_id, envelope.command_id, envelope.payload.command.command_seq
        )


def read_incoming(deps: Deps, found: OutboxFile) -> IncomingFile | None:
    """Read a message file; None when it vanished. Raises MachineError."""
    data = outbox_reader.read_outbox_file(deps.root, found)
    if data is None:
        return None
    if isinstance(data, InputError):
        return IncomingFile(found, b"", Rejection(data.code, data.message))
    if withheld := check_secrets(deps, data):
        clean = deps.secret_guard.secrets.redact_bytes(data)
        _withhold_payloads(deps, found, data)
        return IncomingFile(found, clean, withheld, original=clean)
    try:
        parcel = routes.unpack(data, owner=found.agent_id, plan_id=found.plan_id)
    except Exception:
        LOG.exception("a message could not be read", extra={"action": "router.read"})
        parcel = INTERNAL_FAULT
    return IncomingFile(found, data, parcel, original=data)


def check_secrets(deps: Deps, data: bytes) -> Rejection | None:
    """Refuse a file of an outbox that contains a secret. The stored original is redacted."""
    name = deps.secret_guard.secrets.find_name(data)
    if name is None:
        return None
    return Rejection(Code.SECRET_EXPOSED, f"it holds the value of {name}, so nothing of it is taken")


def _withhold_payloads(deps: Deps, found: OutboxFile, data: bytes) -> None:
    """Refuse the payloads beside a message with a secret if they contain one, too."""
    parcel = routes.unpack(data, owner=found.agent_id, plan_id=found.plan_id)
    envelope = parcel.envelope if isinstance(parcel, OutboxMessage) else None
    for file in envelope.payload.files if isinstance(envelope, ArtifactEnvelope) else ():
        with suppress(AgentTalkError):
            where = outbox_reader.find_payload(deps.root, found.agent_id, found.plan_id, file.path)
            deps.secret_guard.refuse_if_secret(deps.root, where, deps.limits.payload_bytes)


def sort_for_judging(arrivals: Sequence[IncomingFile]) -> list[IncomingFile]:
    """Sort messages: commands first, the newest of each task before its older ones; then the others as found."""
    return routes.sort_newest_first(arrivals, lambda arrival: arrival.order)


async def load_payloads(deps: Deps, blobs: Blobs, arrival: IncomingFile, plan: RoutedPlan) -> IncomingFile:
    """Load the files that an artifact consists of. Large ones are kept at once, small ones with the message."""
    if isinstance(arrival.parcel, Rejection):
        return await _with_original(deps, blobs, arrival)
    if not isinstance(arrival.parcel.envelope, ArtifactEnvelope):
        return arrival
    contents: list[bytes] = []
    for file in arrival.parcel.envelope.payload.files:
        try:
            content = await load_payload(deps, blobs, arrival.found, file.path, file.sha256)
        except InputError as error:
            return replace(arrival, refusal=Rejection(error.code, error.message))
        contents += [content] if content is not None else []
    return await check_media_types(blobs, replace(arrival, contents=tuple(contents)), plan)


async def check_media_types(blobs: Blobs, arrival: IncomingFile, plan: RoutedPlan) -> IncomingFile:
    """Hold the files of an artifact against the media type that they must have; those at hand need no look-up."""
    parcel = arrival.parcel
    if plan.origin != "engine" or isinstance(parcel, Rejection) or not isinstance(parcel.envelope, ArtifactEnvelope):
        return arrival
    wanted = output_of(plan, parcel.envelope).content_type
    if wanted is None:
        return arrival
    at_hand = {wire.sha256(content): content for content in arrival.contents}
    for file in parcel.envelope.payload.files:
        data = at_hand[file.sha256] if file.sha256 in at_hand else await blobs.get(file.sha256)
        why = await asyncio.to_thread(media_types.explain_mismatch, wanted, data)
        if why is not None:
            return replace(arrival, refusal=Rejection(Code.OUTPUT_MISFIT, f"its file {file.path!r} {why}"))
    return arrival


async def load_payload(deps: Deps, blobs: Blobs, found: OutboxFile, path: str, sha256: str) -> bytes | None:
    """Load a payload: the bytes of a small one; None for a large one, which is stored. Raises InputError if wrong."""
    if not root_layout.is_safe_payload(path) or ("/" not in path and kind_of(path) not in _BOTH):
        raise InputError(
            Code.PATH_OUTSIDE_FOLDER,
            f"{path!r} cannot be a payload: it is hidden, or would be read as a message or control file",
        )
    limit = deps.limits.payload_bytes
    try:
        where = await asyncio.to_thread(outbox_reader.find_payload, deps.root, found.agent_id, found.plan_id, path)
        await asyncio.to_thread(deps.secret_guard.refuse_if_secret, deps.root, where, limit)
        entry = await asyncio.to_thread(deps.root.entry, where)
        if entry is not None and entry.kind == "regular" and entry.size <= SMALL:
            data = await asyncio.to_thread(deps.root.read, where, limit)
            digest, content = wire.sha256(data), data
        else:
            with deps.root.stream(where, limit) as stream:
                digest, content = await blobs.put(stream), None
    except MissingError as error:
        raise InputError(Code.MISSING_PAYLOAD, f"its file {path!r} is not there") from error
    if digest != sha256:
        raise InputError(Code.PAYLOAD_HASH_MISMATCH, f"its file {path!r} has another hash than the envelope says")
    return content


async def _with_original(deps: Deps, blobs: Blobs, arrival: IncomingFile) -> IncomingFile:
    """Store the whole original for a dead letter, also of a file that is too large or whose name is not UTF-8."""
    if arrival.original is not None:
        return arrival
    return replace(arrival, original=await keep_original(deps, blobs, arrival.found))


async def keep_original(deps: Deps, blobs: Blobs, found: OutboxFile) -> str | None:
    """Keep a file whole and return its hash; None when it is not a file, too large to store, or a secret."""
    try:
        await asyncio.to_thread(deps.secret_guard.refuse_if_secret, deps.root, found.path, deps.limits.payload_bytes)
        with deps.root.stream(found.path, deps.limits.payload_bytes) as stream:
            return await blobs.put(stream)
    except (InputError, MissingError):
        return None


def output_of(plan: RoutedPlan, envelope: ArtifactEnvelope) -> Output:
    """Return the plan's declaration of an artifact's output."""
    node = plan.facts.nodes.get(envelope.task_id) if plan.facts else None
    declared = [output for output in node.outputs if output.name == envelope.output_name] if node else []
    free = Versioning(mode="immutable_by_message_id")
    return declared[0] if declared else Output(name=envelope.output_name, versioning=free)
