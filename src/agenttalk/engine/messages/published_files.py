"""Writes the views, system_runtime/ and the gateway's inbox, from the store.

Nothing here decides. Deleting the files loses nothing; they are written again from the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MissingError
from agenttalk.contracts.plan import PlanStatus
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_status import describe_status
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.core import FACTS_OF, NEWEST_FACT, TASK_STATUSES, TaskStatusRow
from agenttalk.ports.statements.keys import NewestRow
from agenttalk.ports.statements.messages import (
    JOURNAL_DUE,
    JOURNAL_STATE,
    JOURNAL_WRITTEN,
    PLAN,
    PLANS,
    UNSHOW_VIEWS,
    UNSHOWN_VIEWS,
    UNWRITTEN_JOURNALS,
    VIEW_BODY,
    VIEW_SHOWN,
    JournalRow,
)
from agenttalk.ports.statements.plans import (
    ANY_RUN,
    CURSOR_VALUE,
    ENDED_ACKS,
    ENGINE_COMMANDS,
    NEWEST_MESSAGE,
    SET_CURSOR,
    EndedAckRow,
    EngineCommandRow,
)
from agenttalk.ports.statements.statement import Statement
from agenttalk.ports.storage import Store, Tx

_Row = TypeVar("_Row", EngineCommandRow, EndedAckRow)
_ALL: Final = 2**62
_AT_ONCE: Final = 500
_COMMANDS: Final = "commands"
_ACKS: Final = "acks"
_LINES: Final = 2_000
_PIECE: Final = 1024 * 1024
View: TypeAlias = "tuple[str, bytes | None, int]"
"""Path, content and version of a file."""
StatusMarks: TypeAlias = "dict[str, tuple[str, int]]"
"""Plan → the hash of its DAG, and a hash of its tasks, when its status was last written."""
_BLOCKED: Final = {
    "BLOCKED_WAITING_INPUT": "INPUT",
    "BLOCKED_WAITING_REVIEW": "REVIEW",
    "BLOCKED_WAITING_HUMAN": "HUMAN",
}
_TRUST_FIELDS: Final = frozenset({"origin", "board", "proven", "freshness", "isolated", "cause"})
"""Fields of a task's status that the file has under the same names, where they have a value."""


async def publish(deps: Deps, board: Store) -> int:
    """Write every view of a board that is not shown as it is; how many were. Raises when the disk will not."""
    return await _views(deps, board) + await _journals(deps, board) + await _turns(deps, board)


async def republish(deps: Deps, board: Store) -> int:
    """Write every view again, over existing files."""
    await board.transact(_forget_all)
    for plan_id, *_ in await board.read(PLANS):
        await board.transact(partial(_forget, plan_id=plan_id))
        await publish_status(deps, board, plan_id)
    return await publish(deps, board)


def _forget_all(tx: Tx) -> None:
    tx.run(UNSHOW_VIEWS)
    for name in (_COMMANDS, _ACKS):
        tx.run(SET_CURSOR, name=name, value=0)


def _forget(tx: Tx, plan_id: str) -> None:
    """Write our lines anew; lines of another party before ours stay."""
    for row in tx.run(JOURNAL_STATE, plan_id=plan_id):
        tx.run(JOURNAL_WRITTEN, plan_id=plan_id, seq=0, base=row.base, size=0)


async def _views(deps: Deps, board: Store) -> int:
    """Write the waiting views. One that fails does not delay the others; the first error is raised at the end."""
    blobs = await deps.stores.blobs(board.name)
    count = 0
    failures: list[AgentTalkError] = []
    while rows := await board.read(UNSHOWN_VIEWS, limit=_AT_ONCE):
        written: list[tuple[str, int]] = []
        for row in rows:
            if row.content is not None:  # one by one, because it may be large
                try:
                    large = [(row.path, await blobs.get(row.content), row.version)]
                except AgentTalkError as error:
                    failures.append(error)
                else:
                    written += await asyncio.to_thread(_write, deps.root, large, failures)
        small = [(row.path, row.body, row.version) for row in rows if row.content is None]
        theirs = await _newer_statuses(deps, board, small)
        written += [(path, version) for path, _, version in small if path in theirs]
        mine = [each for each in small if each[0] not in theirs]
        written += await asyncio.to_thread(_write, deps.root, mine, failures)
        if not written:
            break
        await board.transact(partial(_mark_shown, written=written))
        count += len(written)
    if failures:
        raise failures[0]
    return count


async def _newer_statuses(deps: Deps, board: Store, views: Sequence[View]) -> set[str]:
    """Find statuses of foreign plans that are not overwritten, because another party wrote them after ours.

    This raises one alert. When we know something later, ours is written again.
    """
    found = set()
    for path, body, _ in views:
        plan_id, _, name = path.removeprefix("plans/").partition("/")
        if name != root_layout.STATUS or body is None or not path.startswith("plans/"):
            continue
        rows = await board.read(PLAN, plan_id=plan_id)
        if rows and rows[0].origin == "foreign" and await asyncio.to_thread(_is_later, deps.root, _place(path), body):
            found.add(path)
            await board.transact(partial(_tell_newer, plan_id=plan_id, at=deps.stamp()))
    return found


def _is_later(root: Folder, path: str, body: bytes) -> bool:
    """Whether the status that lies there says that it is later than ours."""
    try:
        lying: Any = wire.read(root.read(path, wire.DOCUMENT_LIMIT), limit=wire.DOCUMENT_LIMIT)
        own: Any = wire.read(body, limit=wire.DOCUMENT_LIMIT)
        return datetime.fromisoformat(lying["updated_at"]) > datetime.fromisoformat(own["updated_at"])
    except (AgentTalkError, KeyError, TypeError, ValueError):
        return False


def _tell_newer(tx: Tx, plan_id: str, at: str) -> None:
    records.alert(
        tx,
        at=at,
        plan_id=plan_id,
        code=Code.VIEW_FOREIGN,
        message=f"{root_layout.STATUS} was written by another party, later than what we know; it is left as it is",
        key=root_layout.STATUS,
        severity="WARNING",
    )


def _mark_shown(tx: Tx, written: list[tuple[str, int]]) -> None:
    for path, version in written:
        tx.run(VIEW_SHOWN, path=path, version=version)


def _place(path: str) -> str:
    return path if path.startswith(f"{root_layout.AGENTS}/") else f"{root_layout.RUNTIME}/{path}"


def _write(
    root: Folder, views: Sequence[tuple[str, bytes | None, int]], failures: list[AgentTalkError]
) -> list[tuple[str, int]]:
    """Write views in their order; path and version of those that were, and what went wrong with the others."""
    written = []
    for path, data, version in views:
        try:
            if data is None:
                root.remove(_place(path))
            else:
                root.write(_place(path), data, parents=True)
        except AgentTalkError as error:
            failures.append(error)
        else:
            written.append((path, version))
    return written


async def _turns(deps: Deps, board: Store) -> int:
    """Write the engine's commands and their receipts. Their rows are in order, so a cursor is enough."""
    if not await board.read(ANY_RUN):
        return 0
    commands = await _follow(deps, board, _COMMANDS, NEWEST_MESSAGE, ENGINE_COMMANDS, _command_file)
    return commands + await _follow(deps, board, _ACKS, NEWEST_FACT, ENDED_ACKS, _ack_file)


async def _follow(
    deps: Deps,
    board: Store,
    name: str,
    newest: Statement[NewestRow],
    rows_after: Statement[_Row],
    made: Callable[[_Row], tuple[str, bytes] | None],
) -> int:
    known = await board.read(CURSOR_VALUE, name=name)
    after = known[0].value if known else 0
    last = (await board.read(newest))[0].newest
    if last <= after:
        return 0
    count = 0
    while rows := await board.read(rows_after, after=after, limit=_AT_ONCE):
        files = [found for row in rows if (found := made(row)) is not None]
        await asyncio.to_thread(_write_files, deps.root, files)
        after = rows[-1].seq
        count += len(files)
    value = max(after, last)
    await board.transact(lambda tx: tx.run(SET_CURSOR, name=name, value=value))
    return count


def _write_files(root: Folder, files: Sequence[tuple[str, bytes]]) -> None:
    for path, data in files:
        root.write(path, data, parents=True)


def _command_file(row: EngineCommandRow) -> tuple[str, bytes] | None:
    return f"{root_layout.plan_folder(row.plan_id)}/commands/{row.name}", row.envelope


def _ack_file(row: EndedAckRow) -> tuple[str, bytes] | None:
    body: Any = wire.read(row.body, limit=wire.DOCUMENT_LIMIT)
    ack = body.get("ack")
    if ack is None:
        return None
    return f"{root_layout.plan_folder(ack['plan_id'])}/acks/{root_layout.ack_name(ack['message_id'])}", wire.write(
        ack
    ) + b"\n"


async def _journals(deps: Deps, board: Store) -> int:
    count = 0
    for (plan_id,) in await board.read(UNWRITTEN_JOURNALS):
        count += await _journal(deps, board, plan_id)
    return count


async def _journal(deps: Deps, board: Store, plan_id: str) -> int:
    """Append the lines that deliveries.jsonl does not have yet.

    How long the file was after the last line is known; what lies behind that is a line torn by a crash.
    """
    path = f"{root_layout.plan_folder(plan_id)}/{root_layout.JOURNAL}"
    rows = await board.read(JOURNAL_STATE, plan_id=plan_id)
    if not rows:  # another party's file: recorded before the first line, so that a crash cannot hide it
        base = await asyncio.to_thread(_end_line, deps.root, path)
        await board.transact(partial(_written, plan_id=plan_id, seq=0, base=base, size=0))
        rows = [JournalRow(0, base, 0)]
    seq, base, size = rows[0]
    length = await asyncio.to_thread(_size, deps.root, path)
    if length < base + size:  # it was removed or cut: what is ours is written again
        seq, size, base = 0, 0, min(base, length)
    count = 0
    while facts := await board.read(FACTS_OF, subject=records.journal_subject(plan_id), after=seq, limit=_LINES):
        lines = [line + b"\n" for fact in facts for line in records.read_journal_lines(bytes(fact.body))]
        if lines:
            await asyncio.to_thread(deps.root.append, path, b"".join(lines), at=base + size)
        seq, size = facts[-1].seq, size + sum(map(len, lines))
        count += len(lines)
        await board.transact(partial(_written, plan_id=plan_id, seq=seq, base=base, size=size))
    return count


def _written(tx: Tx, plan_id: str, seq: int, base: int, size: int) -> None:
    tx.run(JOURNAL_WRITTEN, plan_id=plan_id, seq=seq, base=base, size=size)
    tx.run(JOURNAL_DUE, plan_id=plan_id, subject=records.journal_subject(plan_id))


def _end_line(root: Folder, path: str) -> int:
    """Complete the last line of a file, and return the size of the file."""
    size = _size(root, path)
    if not size:
        return 0
    last = b""
    with root.stream(path, size) as stream:
        while piece := stream.read(_PIECE):
            last = piece[-1:]
    if last == b"\n":
        return size
    root.append(path, b"\n", at=size)
    return size + 1


def _size(root: Folder, path: str) -> int:
    try:
        entry = root.entry(path)
    except (MissingError, InputError):
        return 0
    return entry.size if entry else 0


async def publish_status(deps: Deps, board: Store, plan_id: str, seen: StatusMarks | None = None) -> bool:
    """Bring plan_status.json up to date; False when nothing had changed.

    Who asks often hands in `seen`, where it is noted how the plan looked, so that the same is not made again.
    """
    rows = await board.read(PLAN, plan_id=plan_id)
    if not rows or rows[0].origin == "virtual" or not rows[0].dag_sha256:
        return False
    dag_sha256 = rows[0].dag_sha256
    rows_of_tasks = await board.read(TASK_STATUSES, plan_id=plan_id, task_id="", limit=_ALL)
    look = (dag_sha256, hash(tuple(rows_of_tasks)))
    if seen is not None and seen.get(plan_id) == look:
        return False
    tasks = [_describe_task(row) for row in rows_of_tasks]
    path = f"plans/{plan_id}/{root_layout.STATUS}"
    blocked = {"INPUT": 0, "REVIEW": 0, "HUMAN": 0}
    for task in tasks:
        if task["state"] in _BLOCKED:
            blocked[_BLOCKED[task["state"]]] += 1
    body = {
        "schema_version": "1.0",
        "plan_id": plan_id,
        "active_task_dag_sha256": dag_sha256,
        "updated_at": max((task["updated_at"] for task in tasks), default=deps.stamp()),
        "tasks": tasks,
        "blocked_summary": blocked,
        "gates_summary": {},
    }
    PlanStatus.from_json(body)

    def work(tx: Tx) -> bool:
        shown = tx.run(VIEW_BODY, path=path)
        if shown and shown[0].body == wire.write(body) + b"\n":
            return False
        records.publish_file(tx, path, body)
        return True

    new = await board.transact(work)
    if seen is not None:
        seen[plan_id] = look
    return new


def _describe_task(row: TaskStatusRow) -> dict[str, Any]:
    """Return the status of a task in the format of the file, whose older fields have names of their own."""
    status = describe_status(row)
    task: dict[str, object] = {
        "task_id": status["task_id"],
        "assigned_agent_id": status["agent_id"],
        "state": status["state"],
        "updated_at": status["updated_at"],
        "attempts": {"reexecute_count": status["rounds"], "retry_count": status["retries"]},
        **{name: value for name, value in status.items() if name in _TRUST_FIELDS and value is not None},
    }
    if status["state"] in _BLOCKED:
        blocking: dict[str, object] = {"reason": f"waiting for {_BLOCKED[status['state']].lower()}"}
        blocking |= {"started_at": row.waiting_since} if row.waiting_since else {}
        blocking |= {"missing": status["missing"]} if row.missing else {}
        blocking |= {"request_id": status["request_id"]} if status["request_id"] else {}
        task["blocking"] = blocking
    if row.progress:
        task["progress"] = wire.read(bytes(row.progress))
    return task
