"""How a turn ended: what the program left is taken in, and everything that follows is written in one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from agenttalk.contracts import places, wire
from agenttalk.contracts.base import moment, write_time
from agenttalk.contracts.command import Command
from agenttalk.contracts.envelope import ArtifactEnvelope
from agenttalk.engine import handover, human, journals, leases, records
from agenttalk.engine.leases import Lease
from agenttalk.engine.orders import Order, hand_request_over, question
from agenttalk.engine.seat import Seat
from agenttalk.errors import Code, ConflictError, ContractError, InputError, MissingError
from agenttalk.ports import Ended, Folder, Performance, Tx
from agenttalk.rules import results
from agenttalk.rules.control import kind_of
from agenttalk.rules.leases import after
from agenttalk.rules.results import Fault, Result

_FILES: Final = 2_000
"""Files that one turn may hand over."""
_DEPTH: Final = 24
_RESULT: Final = 1024 * 1024
_SHOWN: Final = 16 * 1024
"""Up to this size a result stands in the ledger itself."""

How = Literal["done", "again", "failed", "dropped"]
_ENDED: Final[dict[str, Literal["exited", "killed", "timeout", "not_started", "cancelled"]]] = {
    "timeout": "timeout",
    "not_started": "not_started",
    "stopped": "cancelled",
}


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file that a turn made."""

    output_name: str
    path: str
    """Inside its output."""
    source: str
    """Below the root."""
    sha256: str
    size: int
    data: bytes | None = field(default=None, repr=False)
    """Its bytes when they are small; larger ones are kept already."""
    content_type: str | None = None


async def judge(
    seat: Seat,
    command: Command,
    outputs: str,
    result: str,
    cwd: str,
    ended: Ended,
    *,
    may_refuse: bool = False,
    in_tree: bool = False,
    since: int = 0,
    spared: str = "",
) -> tuple[Result | Fault, list[OutputFile]]:
    """What a program that ended left, or why its turn does not count: also that it `may_refuse`, and did.

    Outputs may also be files `in_tree`, where it worked. What it changed `since` its turn began, and holds a secret, is
    removed afterwards, wherever it left that but in what is `spared`.
    """
    said, files = await _judge(seat, command, outputs, result, cwd, ended, may_refuse, in_tree, since)
    try:
        await asyncio.to_thread(tidy, seat, outputs, cwd, since, spared)
    except InputError as error:
        return (said, []) if isinstance(said, Fault) else (Fault(error.code, error.message), [])
    return said, files


def tidy(seat: Seat, outputs: str, cwd: str, since: int, spared: str = "") -> None:
    """Remove what a program left that holds a secret. Raises InputError for a tree that is too deep to look through."""
    base = outputs.rpartition("/")[0]
    for top in (cwd,) if base.startswith(f"{cwd}/") else (cwd, base):
        seat.deps.discretion.tidy(seat.root, top, seat.deps.limits.payload_bytes, since, spared)


async def _judge(
    seat: Seat,
    command: Command,
    outputs: str,
    result: str,
    cwd: str,
    ended: Ended,
    may_refuse: bool,  # noqa: FBT001 - as `judge` has it
    in_tree: bool,  # noqa: FBT001 - as `judge` has it
    since: int,
) -> tuple[Result | Fault, list[OutputFile]]:
    secrets = seat.deps.discretion.secrets
    ended = seat.deps.discretion.ended(ended)
    if ended.how != "exited" or ended.exit_code != 0:
        error = ended.error or ("" if ended.exit_code is None else results.exit_words(ended.exit_code))
        return Fault(Code.COMMAND_FAILED, results.error_of(error, ended.stderr)), []
    try:
        file = await asyncio.to_thread(_result_file, seat, result)
        required = command.score_required
        said = results.read_result(file, ended.stdout, score_required=required, may_refuse=may_refuse)
        if isinstance(said, Fault):
            return replace(said, message=secrets.redact(said.message)), []
        if secrets:
            explanation = secrets.redact_json(said.explanation)
            said = replace(said, value=secrets.redact_json(said.value), explanation=explanation)
            await asyncio.to_thread(_withhold, seat, cwd, since, in_tree=in_tree)
        found = await asyncio.to_thread(_find, seat, command, outputs, cwd, 0 if in_tree else since)
        files = [await _take(seat, each) for each in found]
    except InputError as error:
        return Fault(error.code, secrets.redact(error.message)), []
    missing = results.missing_outputs(command, {each.output_name for each in files})
    return missing or said, files


def performed(done: Performance) -> tuple[Ended, Result | Fault, list[OutputFile]]:
    """How a turn ended that somebody else carried out, and what it left."""
    code = done.usage.get("exit_code")
    how = _ENDED.get(done.how, "killed" if code is None else "exited")
    ended = Ended(how, code, b"", b"", done.seconds, done.error, done.sandbox)
    if done.how == "finished" and done.code is None:
        files = [
            OutputFile(each.output_name, each.path, "", each.sha256, each.size, each.data) for each in done.outputs
        ]
        return ended, Result(done.result, done.score, done.explanation, done.claims), files
    known = Code.AGENT_UNFIT if done.how == "unfit" else Code.COMMAND_FAILED
    remark = f"; {done.remark}" if done.remark else ""
    return ended, Fault(Code(done.code) if done.code else known, f"{done.error}{remark}"), []


def _result_file(seat: Seat, path: str) -> bytes | None:
    """What the program wrote as its result. Secrets are taken out of the file, too."""
    try:
        said = seat.root.read(path, _RESULT)
    except MissingError:
        return None
    clean = seat.deps.discretion.secrets.redact_bytes(said)
    if clean != said:
        seat.root.write(path, clean)
    return clean


def _withhold(seat: Seat, cwd: str, since: int, *, in_tree: bool) -> None:
    """Refuse a tree in which a secret stands: it would be merged."""
    if in_tree:
        seat.deps.discretion.withhold_tree(seat.root, cwd, seat.deps.limits.payload_bytes, since)


def _find(seat: Seat, command: Command, outputs: str, cwd: str, since: int) -> list[OutputFile]:
    """Everything in the folder of outputs, and declared files of the working directory for what is not there.

    A file of the working directory counts if it was changed `since` then: one that lay there before is of another turn.
    """
    names = results.declared(command)
    found: list[OutputFile] = []
    seat.root.make(outputs)  # a program may have removed it: then there are none
    with seat.root.sub(outputs) as folder:
        for entry in sorted(folder.scan()):
            if not entry.is_text:
                raise InputError(Code.FILE_UNSAFE, "the name of an output is not UTF-8")
            name = names.get(entry.name, entry.name)
            if entry.kind == "folder":
                with folder.sub(entry.name) as inner:
                    paths = [(path, f"{entry.name}/{path}") for path in _walk(inner, "", _DEPTH)]
            else:
                paths = [(entry.name, entry.name)]
            found += [OutputFile(name, path, f"{outputs}/{where}", "", 0) for path, where in paths]
            if len(found) > _FILES:
                raise InputError(Code.FILE_TOO_LARGE, f"the outputs have more than {_FILES:,} files")
    there = {each.output_name for each in found}
    for declared in command.produces or ():
        paths = [(file.path, f"{cwd}/{file.path}") for file in declared.files]
        if declared.output_name not in there and paths and all(_is_new(seat, where, since) for _, where in paths):
            found += [OutputFile(declared.output_name, path, where, "", 0) for path, where in paths]
    unsafe = results.unsafe_path(each.path for each in found)
    if unsafe is not None:
        raise InputError(Code.FILE_UNSAFE, f"{unsafe!r} cannot be handed over: it is hidden or named like a message")
    return found


def _is_new(seat: Seat, path: str, since: int) -> bool:
    entry = seat.root.entry(path)
    return entry is not None and entry.ctime_ns >= since


def _walk(folder: Folder, above: str, depth: int) -> Iterator[str]:
    for entry in sorted(folder.scan()):
        if not entry.is_text:
            raise InputError(Code.FILE_UNSAFE, "the name of a file in an output is not UTF-8")
        if entry.kind != "folder":
            yield f"{above}{entry.name}"
            continue
        if not depth:
            raise InputError(Code.FILE_UNSAFE, f"the folders of an output are nested deeper than {_DEPTH}")
        with folder.sub(entry.name) as inner:
            yield from _walk(inner, f"{above}{entry.name}/", depth - 1)


async def _take(seat: Seat, file: OutputFile) -> OutputFile:
    """Read a file that a program left. Large ones are kept at once."""
    limit = seat.deps.limits.payload_bytes
    await asyncio.to_thread(seat.deps.discretion.withhold, seat.root, file.source, limit)
    entry = await asyncio.to_thread(seat.root.entry, file.source)
    if entry is None:
        raise InputError(Code.OUTPUT_MISSING, f"{file.path!r} vanished while it was taken in")
    try:
        if entry.kind == "regular" and entry.size > records.SMALL:
            with seat.root.stream(file.source, limit) as stream:
                sha256 = await seat.blobs.put(stream)
            return OutputFile(file.output_name, file.path, file.source, sha256, entry.size)
        data = await asyncio.to_thread(seat.root.read, file.source, limit)
    except MissingError as error:
        raise InputError(Code.OUTPUT_MISSING, f"{file.path!r} vanished while it was taken in") from error
    return OutputFile(file.output_name, file.path, file.source, wire.sha256(data), len(data), data)


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact ready to be handed over: its files first, then its envelope."""

    message_id: str
    name: str
    envelope: bytes
    files: tuple[tuple[str, OutputFile], ...]
    """Path in the outbox, and the file."""


def artifacts(
    seat: Seat, order: Order, said: Result, files: list[OutputFile], at: str, apart: frozenset[str] = frozenset()
) -> list[Artifact]:
    """The artifacts of a turn. Their ids follow from the command, so the same end never makes two.

    A file travels under the name that it has. Those of outputs that have to lie `apart` travel in a folder named like
    their message. Raises ContractError for a name that no document can hold.
    """
    made = []
    for output_name in dict.fromkeys(each.output_name for each in files):
        message_id = records.named("msg", f"{seat.plan_id}/{order.message_id}/{output_name}")
        folder = f"{message_id}/" if output_name in apart else ""
        own = [(f"{folder}{each.path}", each) for each in files if each.output_name == output_name]
        document: dict[str, Any] = {
            "schema_version": "1.0",
            "message_id": message_id,
            "plan_id": seat.plan_id,
            "producer_agent_id": seat.agent_id,
            "type": "artifact",
            "created_at": write_time(moment(at)),
            "task_id": order.task_id,
            "command_id": order.command.command_id,
            "output_name": output_name,
            "idempotency_key": f"{order.command.command_id}/{output_name}",
            "payload": {
                "files": [{"path": path, "sha256": each.sha256, "size_bytes": each.size} for path, each in own]
            },
        }
        if said.score is not None:
            document["score"] = {"value": said.score, "explanation": said.explanation}
        if order.command.reexecute is not None:
            document["reexecution"] = {
                "count": order.command.reexecute.attempt,
                "command_id": order.command.command_id,
            }
        envelope = ArtifactEnvelope.from_json(document).to_bytes() + b"\n"
        name = places.artifact(order.task_id, output_name, message_id)
        made.append(Artifact(message_id, name, envelope, tuple(own)))
    return made


def _apart(seat: Seat, files: list[OutputFile]) -> frozenset[str]:
    """Outputs whose files cannot lie in the outbox under their own names.

    A name can be that of a control file, or of a file of another output. Or another file of that name lies there which
    no router has brought anywhere yet.
    """
    found: set[str] = set()
    holders: dict[str, str] = {}
    for each in files:
        shared = holders.setdefault(each.path, each.output_name) != each.output_name
        reserved = "/" not in each.path and kind_of(each.path, seat.plan_id) is not None
        if shared or reserved or _is_held(seat, each):
            found.add(each.output_name)
    return frozenset(found)


def _is_held(seat: Seat, file: OutputFile) -> bool:
    path = f"{seat.outbox}/{file.path}"
    try:
        lying = seat.root.digest(path, seat.deps.limits.payload_bytes).sha256
    except MissingError:
        return False
    except InputError:
        return True
    return lying != file.sha256 and not journals.mentions(seat.root, seat.plan_id, lying)


async def conclude(
    seat: Seat,
    order: Order,
    lease: Lease,
    ended: Ended,
    outcome: Result | Fault,
    files: list[OutputFile],
    *,
    usage: Mapping[str, Any] | None = None,
) -> How:
    """Write the end of a turn down, with everything that follows, in one commit. Raises LEASE_LOST.

    `usage` is what it used besides time, as it says.
    """
    at = seat.deps.stamp()
    made: list[Artifact] = []
    if isinstance(outcome, Result):
        try:
            apart = await asyncio.to_thread(_apart, seat, files)
            made = artifacts(seat, order, outcome, files, at, apart)
        except ContractError as error:
            outcome = Fault(error.code, error.message)
    large = await _keep_large(seat, outcome)
    said = _told(order, lease, ended, outcome, large)
    if usage:
        said["usage"] |= {name: value for name, value in usage.items() if name != "exit_code"}
    return await seat.store.transact(lambda tx: _conclude(tx, seat, order, lease, outcome, made, said, at))


async def _keep_large(seat: Seat, outcome: Result | Fault) -> str | None:
    """Hash of a result that is too large for the ledger."""
    if isinstance(outcome, Fault):
        return None
    data = wire.write(outcome.value)
    return await seat.blobs.put(data) if len(data) > _SHOWN else None


def _conclude(
    tx: Tx,
    seat: Seat,
    order: Order,
    lease: Lease,
    outcome: Result | Fault,
    made: list[Artifact],
    said: dict[str, Any],
    at: str,
) -> How:
    fault = outcome if isinstance(outcome, Fault) else None
    [(state, _)] = tx.run("delivery_state", id=order.delivery)
    step: How = after(order.command, lease.history, fault.code if fault else None)
    if state != "claimed":
        step = "dropped"
    states = {"done": "COMPLETED", "failed": "FAILED", "again": "READY", "dropped": "READY"}
    leases.end(tx, seat.plan_id, lease, states[step], at)
    body = {**said, "step": step}
    tx.record("turn.dropped" if step == "dropped" else "turn.ended", _subject(seat, order), body)
    if step == "dropped":
        return step
    handover.report_state(
        tx, seat, order.task_id, states[step], at=at, message_id=order.message_id, command_id=order.command.command_id
    )
    if step == "again":
        return step
    tx.run("stop_waiting", plan_id=seat.plan_id, task_id=order.task_id)
    _finish(tx, seat, order, fault, at)
    for artifact in made if fault is None else ():
        for path, file in artifact.files:
            if file.data is not None:
                records.keep(tx, file.data)
            handover.add(tx, seat, path, file.sha256, artifact.message_id)
        handover.add(tx, seat, artifact.name, records.keep(tx, artifact.envelope), artifact.message_id)
    return step


def _subject(seat: Seat, order: Order) -> str:
    return leases.subject(seat.plan_id, order.message_id)


def _told(order: Order, lease: Lease, ended: Ended, outcome: Result | Fault, large: str | None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "lease": lease.id,
        "epoch": lease.epoch,
        "attempt": lease.attempt,
        "command_id": order.command.command_id,
        "how": ended.how,
        "exit_code": ended.exit_code,
        "usage": {"duration_s": round(ended.seconds, 3)},
        "notice": results.notice(order.command, outcome),
    }
    if ended.sandbox:
        body["sandbox"] = ended.sandbox
    if isinstance(outcome, Fault):
        return {**body, "code": str(outcome.code), "error": outcome.message}
    said = {"result_sha256": large} if large else {"result": outcome.value}
    return {**body, **said, "score": outcome.score, "score_explanation": outcome.explanation}


def _finish(tx: Tx, seat: Seat, order: Order, fault: Fault | None, at: str) -> None:
    """The final receipt. A delivery ends once."""
    details = f"{fault.code}: {fault.message}".replace("\0", "\ufffd") if fault else None
    ack = "FAILED" if fault else "SUCCEEDED"
    done = tx.run(
        "finish_delivery", id=order.delivery, state="processed", ack=ack, at=at, details=details, acted=int(not fault)
    )
    if not done:
        raise ConflictError(Code.LEASE_LOST, f"the command {order.command.command_id!r} ended meanwhile")
    result = {"ok": fault is None, "details": details}
    handover.acknowledge(tx, seat, order.about(), ack, consumed_at=order.consumed_at, finished_at=at, result=result)
    if fault:
        records.alert(
            tx,
            at=at,
            plan_id=seat.plan_id,
            code=fault.code,
            message=f"task {order.task_id!r} failed: {fault.message}",
            key=order.message_id,
            source=records.Source(seat.agent_id, order.task_id, order.command.command_id),
        )
    if fault and fault.code is Code.AGENT_UNFIT:
        _ask_who(tx, seat, order, fault.message, at)


def _ask_who(tx: Tx, seat: Seat, order: Order, why: str, at: str) -> None:
    """Ask a person who shall carry out a command that its agent returned."""
    request_id = records.named("req", f"{seat.plan_id}/{order.message_id}/unfit")
    needed = {"decision": {"question": f"{why}\nWho shall do it? Send another command."[-2000:]}}
    title = f"{seat.agent_id} is not fit for {order.task_id}"
    request = question(seat, order, request_id, at, type="DECISION", title=title, blocking=False, needed=needed)
    if human.ask(tx, request, plan_id=seat.plan_id, at=at):
        hand_request_over(tx, seat, request)
