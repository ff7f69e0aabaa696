"""Where things lie under a root, and what they tell about a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from agenttalk.contracts import wire
from agenttalk.contracts.base import MAX_INTEGER, is_id
from agenttalk.contracts.command import DagRef, make_command_id
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.plan import ActiveDagRef
from agenttalk.contracts.problem import nearest
from agenttalk.errors import AgentTalkError, Code, ContractError, JsonError, MachineError, UsageError
from agenttalk.mailbox import fsio
from agenttalk.rules.commands import NOTHING, Known


def plan_folder(root: Path, plan_id: str) -> Path:
    """Where the files of a plan are published."""
    return root / "system_runtime" / "plans" / plan_id


def known(root: Path, plan_id: object, task_id: object, *, besides: bytes | None = None) -> Known:
    """What a root tells about a task, for making its next command. Copies of the file `besides` do not count.

    Ids that are no ids tell nothing; the rules will refuse them. An unknown plan or a DAG that is
    being switched is an error here, because guessing would make a command for the wrong DAG.
    """
    if not root.is_dir():
        hint = "give the folder that holds agents/ and system_runtime/"
        raise UsageError(Code.FILE_UNREADABLE, f"{root} is not a folder", hint=hint)
    if not isinstance(plan_id, str) or not is_id(plan_id):
        return NOTHING
    found = NOTHING
    if isinstance(task_id, str) and is_id(task_id):
        seqs, rounds = _orders(root, plan_id, task_id, besides)
        ids = frozenset(make_command_id(task_id, seq) for seq in seqs)
        found = Known(command_ids=ids, last_seq=max(seqs, default=0), reexecutions=rounds)
    if plan_id.startswith("_"):
        return found
    dag, ref = _active_dag(root, plan_id)
    return replace(found, dag_ref=ref, task_ids=frozenset(node.task_id for node in dag.nodes))


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
    pointer_file = folder / "active_dag_ref.json"
    with _named(pointer_file):
        pointer = ActiveDagRef.from_bytes(fsio.read_file(pointer_file, limit=wire.ENVELOPE_LIMIT))
    if pointer.task_dag_sha256 != digest:
        raise MachineError(
            Code.ACTIVE_DAG_REF_MISMATCH,
            f"plan {plan_id!r}: active_dag_ref.json and task_dag.json disagree",
            hint="the DAG is being switched, or one of the two was edited; try again, then compare them",
        )
    with _named(folder / "task_dag.json"):
        dag = TaskDag.from_bytes(data)
    if dag.plan_id != plan_id:
        raise UsageError(
            Code.PLAN_MISMATCH,
            f"{folder / 'task_dag.json'} is the DAG of plan {dag.plan_id!r}",
            hint="put it into the folder of its own plan",
        )
    return dag, DagRef(sha256=digest, revision=pointer.task_dag_revision)


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Errors of a document name the file that it stands in."""
    try:
        yield
    except ContractError as error:
        raise ContractError(error.code, f"{file}: {error.message}", error.problems, hint=error.hint) from error
    except JsonError as error:
        raise JsonError(error.code, f"{file}: {error.message}", hint=error.hint) from error


def _orders(root: Path, plan_id: str, task_id: str, besides: bytes | None) -> tuple[set[int], int]:
    """The numbers of all orders of a task that can be seen, and how many of them were re-executions."""
    pattern = re.compile(rf"(?:.*__)?cmd_(reexecute_)?{re.escape(task_id)}_([0-9]{{3,16}})\.(?:msg\.)?json\Z")
    seqs: set[int] = set()
    rounds: set[int] = set()
    for folder, name in _command_files(root, plan_id):
        match = pattern.match(name)
        if match and int(match[2]) < MAX_INTEGER and not _same_content(folder / name, besides):
            seqs.add(int(match[2]))
            rounds.update({int(match[2])} if match[1] else ())
    return seqs, len(rounds)


def _same_content(file: Path, content: bytes | None) -> bool:
    if content is None:
        return False
    try:
        return fsio.read_file(file, limit=len(content)) == content
    except AgentTalkError:
        return False  # larger, or no file that can be read: another one


def _command_files(root: Path, plan_id: str) -> Iterator[tuple[Path, str]]:
    agents = root / "agents"
    folders = [plan_folder(root, plan_id) / "commands"]
    for agent in fsio.names_in(agents):
        folders += [agents / agent / "outbox" / plan_id / rest for rest in ("", ".sent")]
        folders += [agents / agent / "inbox" / plan_id / rest for rest in ("", ".pending", ".processed")]
    for folder in folders:
        for name in fsio.names_in(folder):
            yield folder, name
