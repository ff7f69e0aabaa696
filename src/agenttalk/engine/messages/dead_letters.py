"""Dead letters: what was refused, why, and trying once more when the reason is gone.

A replay judges the kept original again under today's plan and agents. The message keeps its id, so one that
was delivered before is never delivered twice. Doing a task again is not a replay: that takes a new command.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.envelope import ArtifactEnvelope
from agenttalk.contracts.errors import Code, InputError, MissingError, UsageError
from agenttalk.engine.core import cursors, records
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages import admission, delivery, incoming_file, outbox_reader, published_files
from agenttalk.engine.messages.admission import AdmissionOutcome
from agenttalk.engine.messages.incoming_file import IncomingFile
from agenttalk.engine.messages.outbox_reader import OutboxFile
from agenttalk.engine.messages.plan_registry import PlanRegistry, RoutedPlan
from agenttalk.ports.folders import FolderEntry
from agenttalk.ports.statements.messages import DEADLETTER, DEADLETTERS, MESSAGE_BY_ID, TRY_DEADLETTER, DeadLetterRow
from agenttalk.ports.storage import Blobs, Store, Tx
from agenttalk.rules.messages import routes
from agenttalk.rules.messages.routes import OutboxMessage, Rejection

PAGE: Final = 100
LONGEST_PAGE: Final = 500
_TOP: Final = 2**62


class DeadLetter(TypedDict):
    """A refused message."""

    board: str
    deadletter_id: str
    plan_id: str
    code: str
    reason: str
    agent_id: str
    box: str
    name: str
    message_id: str | None
    sha256: str | None
    original: str | None
    retriable: bool
    tries: int
    state: str
    at: str


class DeadLetterContent(DeadLetter):
    """A refused message with its original."""

    content: str | None
    """In base64."""


class ReplayedDeadLetter(TypedDict):
    """The outcome of a dead letter that was judged again."""

    deadletter_id: str
    message_id: str | None
    ok: bool
    fate: NotRequired[AdmissionOutcome]
    code: NotRequired[str]
    reason: NotRequired[str]


class DeadLetterPage(NamedTuple):
    """Some dead letters, and the cursor of the next page."""

    letters: list[DeadLetter]
    next: str | None


async def read_page(deps: Deps, *, after: str = "", limit: int = PAGE) -> DeadLetterPage:
    """List dead letters, the newest first, from a cursor on. Raises UsageError when the cursor is invalid."""
    said = cursors.decode(after) if after else {}
    if not isinstance(said, dict) or not all(isinstance(each, int) and 0 <= each < _TOP for each in said.values()):
        raise cursors.make_cursor_error()
    size = max(1, min(limit, LONGEST_PAGE))
    each_board = [
        [(store.name, row) for row in await store.read(DEADLETTERS, before=said.get(store.name, _TOP), limit=size + 1)]
        for store in await list_boards(deps)
    ]
    rows = list(heapq.merge(*each_board, key=lambda each: str(each[1].at), reverse=True))
    left_off = {**said, **{board: row.id for board, row in rows[:size]}}
    letters = [_letter(board, row) for board, row in rows[:size]]
    return DeadLetterPage(letters, cursors.encode(left_off) if len(rows) > size else None)


async def list_dead_letters(deps: Deps, *, plan_id: str | None = None) -> list[DeadLetter]:
    """List all dead letters, the oldest first; of one plan if it is named."""
    letters: list[DeadLetter] = []
    place: str | None = ""
    while place is not None:
        some, place = await read_page(deps, after=place, limit=LONGEST_PAGE)
        letters += some
    return [letter for letter in reversed(letters) if plan_id in {None, letter["plan_id"]}]


async def read_dead_letter(deps: Deps, deadletter_id: str) -> tuple[DeadLetter, bytes | None]:
    """Read a dead letter and its original. Raises UsageError if there is none."""
    board, letter = await _find(deps, deadletter_id)
    blobs = await deps.stores.blobs(board.name)
    return letter, await blobs.get(letter["original"]) if letter["original"] else None


async def replay(deps: Deps, deadletter_id: str, *, by: str) -> ReplayedDeadLetter:
    """Judge a dead letter again on request, and deliver it if it is accepted.

    Raises UsageError when it cannot be replayed.
    """
    board, letter = await _find(deps, deadletter_id)
    if letter["box"] != "outbox" or letter["original"] is None or not letter["name"].endswith(root_layout.MESSAGE):
        raise _refusal_error(letter, "its original is not a message that was sent", "have its sender send it again")
    blobs = await deps.stores.blobs(board.name)
    plan = await _plan(deps, letter)
    arrival = await _rebuild_file(deps, blobs, letter, await blobs.get(letter["original"]), plan)
    outcome = await board.transact(partial(_judge, letter=letter, arrival=arrival, plan=plan, deps=deps, by=by))
    if outcome["ok"]:
        await delivery.deliver(deps, board, letter["plan_id"])
    await published_files.publish(deps, board)
    return outcome


async def _find(deps: Deps, deadletter_id: str) -> tuple[Store, DeadLetter]:
    for board in await list_boards(deps):
        rows = await board.read(DEADLETTER, deadletter_id=deadletter_id)
        if rows:
            return board, _letter(board.name, rows[0])
    raise UsageError(
        Code.NAME_UNKNOWN, f"there is no dead letter {deadletter_id!r}", hint="'agenttalk deadletter list' shows all"
    )


def _letter(board: str, row: DeadLetterRow) -> DeadLetter:
    fields: Any = row._asdict() | {"board": board, "retriable": bool(row.retriable)}
    del fields["id"]
    letter: DeadLetter = fields
    return letter


async def _plan(deps: Deps, letter: DeadLetter) -> RoutedPlan:
    plan = await PlanRegistry(deps).read_plan(letter["plan_id"])
    if plan is None or plan.halted is not None:
        why = plan.halted if plan else f"there is no plan {letter['plan_id']!r}"
        raise _refusal_error(letter, str(why), "repair the plan first")
    return plan


async def _rebuild_file(deps: Deps, blobs: Blobs, letter: DeadLetter, data: bytes, plan: RoutedPlan) -> IncomingFile:
    """Rebuild the original as a new file. Its payloads are in the outbox, among the rejected files, or stored."""
    nowhere = FolderEntry(outbox_reader.decode_name(letter["name"]), "regular", len(data), 0, 0, 1)
    found = OutboxFile(letter["agent_id"], letter["plan_id"], nowhere, None)
    parcel = routes.unpack(data, owner=letter["agent_id"], plan_id=letter["plan_id"])
    arrival = IncomingFile(found, data, parcel, original=data)
    if isinstance(parcel, Rejection) or not isinstance(parcel.envelope, ArtifactEnvelope):
        return arrival
    kept = [await blobs.exists(file.sha256) for file in parcel.envelope.payload.files]
    if all(kept):
        return await incoming_file.check_media_types(blobs, arrival, plan)
    try:
        return await incoming_file.load_payloads(deps, blobs, arrival, plan)
    except (InputError, MissingError) as error:
        return replace(arrival, parcel=Rejection(Code(error.code), error.message))


def _judge(
    tx: Tx, letter: DeadLetter, arrival: IncomingFile, plan: RoutedPlan, deps: Deps, by: str
) -> ReplayedDeadLetter:
    at = deps.stamp()
    if isinstance(arrival.parcel, OutboxMessage):
        message_id = arrival.parcel.envelope.message_id
        if tx.run(MESSAGE_BY_ID, plan_id=letter["plan_id"], message_id=message_id):
            raise _refusal_error(letter, "a message of its id was accepted before", "it needs no replay")
    verdict = admission.judge_message(tx, arrival, plan)
    refusal = verdict if isinstance(verdict, Rejection) else None
    state = "open" if refusal else "replayed"
    limit = deps.limits.replays
    if not tx.run(TRY_DEADLETTER, deadletter_id=letter["deadletter_id"], state=state, limit=limit):
        raise _refusal_error(letter, f"it was replayed {letter['tries']} times already", "correct it and send it again")
    body = {"by": by, "state": state, "code": str(refusal.code) if refusal else None}
    tx.record("deadletter.replayed", letter["deadletter_id"], body)
    named: ReplayedDeadLetter = {
        "deadletter_id": letter["deadletter_id"],
        "message_id": letter["message_id"],
        "ok": False,
    }
    if refusal:
        return {**named, "code": str(refusal.code), "reason": refusal.message}
    records.count_messages(tx, letter["plan_id"], sent=-1, dead=-1)
    fate = admission.admit_message(tx, arrival, plan, deps, at)
    return {**named, "ok": True, "fate": fate}


def _refusal_error(letter: DeadLetter, why: str, hint: str) -> UsageError:
    return UsageError(Code.REPLAY_REFUSED, f"{letter['deadletter_id']} cannot be replayed: {why}", hint=hint)
