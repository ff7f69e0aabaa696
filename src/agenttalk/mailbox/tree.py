"""Where things lie under a root, and what they tell about a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from agenttalk.contracts import wire
from agenttalk.contracts.base import is_id
from agenttalk.contracts.command import DagRef
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.plan import ActiveDagRef
from agenttalk.contracts.problem import nearest
from agenttalk.errors import Code, MachineError, UsageError
from agenttalk.mailbox import fsio
from agenttalk.rules.commands import NOTHING, Known


def plan_folder(root: Path, plan_id: str) -> Path:
    """Where the files of a plan are published."""
    return root / "system_runtime" / "plans" / plan_id


def known(root: Path, plan_id: object, task_id: object, *, besides: Path | None = None) -> Known:
    """What a root tells about a task, for making its next command. The file `besides` does not count.

    Ids that are no ids tell nothing; the rules will refuse them. An unknown plan or a DAG that is
    being switched is an error here, because guessing would make a command for the wrong DAG.
    """
    if not root.is_dir():
        raise UsageError(
            Code.FILE_UNREADABLE,
            f"{root} is not a folder",
            hint="give the folder that holds agents/ and system_runtime/",
        )
    if not isinstance(plan_id, str) or not is_id(plan_id):
        return NOTHING
    task = task_id if isinstance(task_id, str) and is_id(task_id) else None
    seqs, rounds = _orders(root, plan_id, task, besides) if task else ([], 0)
    found = Known(
        command_ids=frozenset(f"cmd_{task}_{seq}" for seq in seqs),
        last_seq=max((int(seq) for seq in seqs), default=0),
        reexecutions=rounds,
    )
    if plan_id.startswith("_"):
        return found
    dag, ref = _active_dag(root, plan_id)
    return Known(
        dag_ref=ref,
        task_ids=frozenset(node.task_id for node in dag.nodes),
        command_ids=found.command_ids,
        last_seq=found.last_seq,
        reexecutions=found.reexecutions,
    )


def _active_dag(root: Path, plan_id: str) -> tuple[TaskDag, DagRef]:
    folder = plan_folder(root, plan_id)
    if not folder.is_dir():
        near = nearest(plan_id, fsio.names_in(folder.parent))
        raise UsageError(
            Code.NAME_UNKNOWN,
            f"{root} has no plan {plan_id!r}",
            hint=f"did you mean {near!r}?" if near else f"plans lie in {folder.parent}",
        )
    data = fsio.read_file(folder / "task_dag.json", limit=wire.DOCUMENT_LIMIT)
    digest = wire.sha256(data)
    pointer = ActiveDagRef.from_bytes(fsio.read_file(folder / "active_dag_ref.json", limit=wire.ENVELOPE_LIMIT))
    if pointer.task_dag_sha256 != digest:
        raise MachineError(
            Code.ACTIVE_DAG_REF_MISMATCH,
            f"plan {plan_id!r}: active_dag_ref.json and task_dag.json disagree",
            hint="the DAG is being switched, or one of the two was edited; try again, then compare them",
        )
    return TaskDag.from_bytes(data), DagRef(sha256=digest, revision=pointer.task_dag_revision)


def _orders(root: Path, plan_id: str, task_id: str, besides: Path | None) -> tuple[list[str], int]:
    """The numbers of all orders of a task that can be seen, as written, and how many were re-executions."""
    pattern = re.compile(rf"(?:.*__)?cmd_(reexecute_)?{re.escape(task_id)}_([0-9]{{3,16}})\.(?:msg\.)?json\Z")
    left_out = besides.resolve() if besides else None
    matches = [
        match
        for folder, name in _command_files(root, plan_id)
        if (match := pattern.match(name)) and (folder / name).resolve() != left_out
    ]
    rounds = {int(match[2]) for match in matches if match[1]}
    return sorted({match[2] for match in matches}), len(rounds)


def _command_files(root: Path, plan_id: str) -> Iterator[tuple[Path, str]]:
    agents = root / "agents"
    folders = [plan_folder(root, plan_id) / "commands"]
    for agent in fsio.names_in(agents):
        folders += [agents / agent / "outbox" / plan_id / rest for rest in ("", ".sent")]
        folders += [agents / agent / "inbox" / plan_id / rest for rest in ("", ".pending", ".processed")]
    for folder in folders:
        for name in fsio.names_in(folder):
            yield folder, name
