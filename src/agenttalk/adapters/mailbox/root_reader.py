"""Finds the files of a root, and reads what they say about a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.contracts.command import DagRef, make_command_id
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.core.wire import MAX_INTEGER
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import (
    AgentTalkError,
    Code,
    ContractError,
    InputError,
    JsonError,
    MachineError,
    MissingError,
    UsageError,
)
from agenttalk.contracts.plan import ActiveDagRef
from agenttalk.rules.commands.validation import NOTHING, Known

_CLAIMED: Final = (root_layout.PENDING, root_layout.PROCESSED)


def plan_folder(root: Path, plan_id: str) -> Path:
    """Return the folder in which the files of a plan are published."""
    return root / root_layout.plan_folder(plan_id)


def read_known(root: Path, plan_id: object, task_id: object, *, besides: bytes | None = None) -> Known:
    """Read what a root knows about a task, to make its next command. Ignores copies of the file `besides`.

    Invalid ids find nothing; the rules refuse them. An unknown plan, or a DAG that is being switched, is an error here,
    because guessing would make a command for the wrong DAG.
    """
    if not root.is_dir():
        hint = "give the folder that holds agents/ and system_runtime/"
        raise UsageError(Code.FILE_UNREADABLE, f"{root} is not a folder", hint=hint)
    if not isinstance(plan_id, str) or not is_id(plan_id):
        return NOTHING
    with SafeFolder.open(root) as top:
        known = NOTHING
        if isinstance(task_id, str) and is_id(task_id):
            seqs, rounds = _orders(top, plan_id, task_id, besides)
            ids = frozenset(make_command_id(task_id, seq) for seq in seqs)
            known = Known(command_ids=ids, last_seq=max(seqs, default=0), reexecutions=rounds)
        if plan_id.startswith("_"):
            return known
        dag, ref = _active_dag(top, plan_id)
    return replace(known, dag_ref=ref, task_ids=frozenset(node.task_id for node in dag.nodes))


def _active_dag(top: SafeFolder, plan_id: str) -> tuple[TaskDag, DagRef]:
    try:
        folder = top.open_folder(root_layout.plan_folder(plan_id))
    except MissingError as error:
        raise _unknown(top, plan_id) from error
    with folder:
        data = folder.read(root_layout.DAG, wire.DOCUMENT_LIMIT)
        pointer_data = folder.read(root_layout.POINTER, wire.ENVELOPE_LIMIT)
    digest = wire.sha256(data)
    with _named(folder.path / root_layout.POINTER):
        pointer = ActiveDagRef.from_bytes(pointer_data)
    if pointer.task_dag_sha256 != digest:
        raise MachineError(
            Code.ACTIVE_DAG_REF_MISMATCH,
            f"plan {plan_id!r}: {root_layout.POINTER} and {root_layout.DAG} disagree",
            hint="the DAG is being switched, or one of the two was edited; try again, then compare them",
        )
    with _named(folder.path / root_layout.DAG):
        dag = TaskDag.from_bytes(data)
    if dag.plan_id != plan_id:
        raise UsageError(
            Code.PLAN_MISMATCH,
            f"{folder.path / root_layout.DAG} is the DAG of plan {dag.plan_id!r}",
            hint="put it into the folder of its own plan",
        )
    return dag, DagRef(sha256=digest, revision=pointer.task_dag_revision)


def _unknown(top: SafeFolder, plan_id: str) -> UsageError:
    near = find_nearest(plan_id, _names(top, root_layout.PLANS))
    return UsageError(
        Code.NAME_UNKNOWN,
        f"{top.path} has no plan {plan_id!r}",
        hint=f"did you mean {near!r}?" if near else f"plans are in {top.path / root_layout.PLANS}",
    )


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Add the file to the errors of a document."""
    try:
        yield
    except ContractError as error:
        raise ContractError(error.code, f"{file}: {error.message}", error.problems, hint=error.hint) from error
    except JsonError as error:
        raise JsonError(error.code, f"{file}: {error.message}", hint=error.hint) from error


def _orders(top: SafeFolder, plan_id: str, task_id: str, besides: bytes | None) -> tuple[set[int], int]:
    """List the numbers of all visible commands of a task, and count the re-executions among them."""
    pattern = re.compile(rf"(?:.*__)?cmd_(reexecute_)?{re.escape(task_id)}_([0-9]{{3,16}})\.(?:msg\.)?json\Z")
    seqs: set[int] = set()
    rounds: set[int] = set()
    for folder in _command_folders(top, plan_id):
        for name in folder.names():
            match = pattern.match(name)
            if match and int(match[2]) < MAX_INTEGER and not _same_content(folder, name, besides):
                seqs.add(int(match[2]))
                rounds.update({int(match[2])} if match[1] else ())
    return seqs, len(rounds)


def _same_content(folder: SafeFolder, name: str, content: bytes | None) -> bool:
    if content is None:
        return False
    try:
        return folder.read(name, len(content)) == content
    except AgentTalkError:
        return False  # larger, or not a readable file: then it is another one


def _command_folders(top: SafeFolder, plan_id: str) -> Iterator[SafeFolder]:
    """Open each folder that can hold commands of a plan, one after the other."""
    with suppress(MissingError), top.open_folder(f"{root_layout.plan_folder(plan_id)}/commands") as published:
        yield published
    for agent in _names(top, root_layout.AGENTS):
        outbox, inbox = (
            root_layout.box_folder(agent, "outbox", plan_id),
            root_layout.box_folder(agent, "inbox", plan_id),
        )
        for path in (outbox, f"{outbox}/{root_layout.SENT}", inbox, *(f"{inbox}/{rest}" for rest in _CLAIMED)):
            # An agent that is not a folder, even a symlink, holds no commands, and must not hide those of others.
            with suppress(MissingError, InputError), top.open_folder(path) as folder:
                yield folder


def _names(top: SafeFolder, relative: str) -> list[str]:
    """List the names in a folder; none when it does not exist."""
    with suppress(MissingError), top.open_folder(relative) as folder:
        return list(folder.names())
    return []
