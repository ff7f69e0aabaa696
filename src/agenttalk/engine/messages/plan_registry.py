"""The registry of plans: their boards, their DAGs, and whether their messages may be delivered.

A plan whose files were found lying there is foreign: those files decide and are never rewritten. A plan that
was submitted to us is the engine's: the store decides, and a file that was edited is put back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import AgentId, is_id
from agenttalk.contracts.dag import Node, TaskDag
from agenttalk.contracts.errors import (
    AgentTalkError,
    Code,
    ContractError,
    InputError,
    JsonError,
    MissingError,
    UsageError,
)
from agenttalk.contracts.generation import Repair
from agenttalk.contracts.plan import ActiveDagRef, PlanManifest
from agenttalk.engine.core import records
from agenttalk.engine.core.boards import DEFAULT, SYSTEM, VIRTUAL, board_of, list_boards, open_if_readable, place_plan
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.profiles import list_agents
from agenttalk.engine.core.unchanged_folders import UnchangedFolders
from agenttalk.engine.messages import form_notices, recall
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.messages import (
    ADD_PLAN,
    HALT_PLAN,
    PLAN,
    PLAN_DOCUMENTS,
    PLANS,
    PUT_DOCUMENTS,
    PUT_PLAN,
    PUT_TASK,
    TASKS_OF,
    UNSHOW_VIEW,
)
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.messages import foreign_forms
from agenttalk.rules.messages.routes import RESERVED, PlanFacts

__all__ = [
    "DEFAULT",
    "SYSTEM",
    "UNROUTED",
    "VIRTUAL",
    "PlanRegistry",
    "RoutedPlan",
    "board_of",
    "ensure_task_rows",
    "files_of",
    "halt",
    "list_agents",
    "list_boards",
    "open_if_readable",
    "place_plan",
    "read_plan_facts",
    "submit",
]
"""The names of this module, with the boards of `list_boards`."""

LOG = logging.getLogger(__name__)
UNROUTED: Final = "_unrouted"
"""The plan id of problems that belong to no plan."""
_AT_ONCE: Final = 5_000
_LOOKS: Final = 16
"""Plans with an unchanged folder whose files a pass reads again, in turn, since they may be edited in place."""


@dataclass(frozen=True, slots=True)
class RoutedPlan:
    """A plan with the facts that routing needs."""

    plan_id: str
    board: Store
    origin: Literal["foreign", "engine", "virtual"]
    facts: PlanFacts | None
    """None on a virtual board, and while the plan is halted."""
    halted: str | None = None
    """Why its messages are not delivered; None if they are."""

    @property
    def dag_sha256(self) -> str:
        """The DAG in force; empty on a virtual board."""
        return self.facts.dag_sha256 if self.facts else ""


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """The files of a plan as they were found."""

    marks: tuple[tuple[str, int, int, int], ...]
    """Name, inode, time and size of each file. Equal marks mean unchanged files."""

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return any(mark[0] == name for mark in self.marks)


class PlanRegistry:
    """Caches plans, and reads only changed ones again."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._known: dict[str, tuple[PlanFiles, RoutedPlan]] = {}
        self._files: dict[str, PlanFiles] = {}
        self._quiet = UnchangedFolders()
        self._turn = 0
        self.agents: frozenset[str] = frozenset()

    async def refresh_agents(self) -> frozenset[str]:
        """Look who the agents are."""
        self.agents = frozenset(await asyncio.to_thread(list_agents, self._deps.root))
        return self.agents

    async def read_plan(self, plan_id: str) -> RoutedPlan | None:
        """Read a single plan; the others are not read."""
        if plan_id in VIRTUAL:
            return await self.build_virtual_plan(plan_id)
        if not is_id(plan_id) or plan_id.startswith("_"):
            return None
        await self.refresh_agents()
        files = await asyncio.to_thread(files_of, self._deps.root, plan_id)
        rows = await (await board_of(self._deps, plan_id)).read(PLAN, plan_id=plan_id)
        if files is not None or (rows and rows[0].origin == "engine"):
            await self._load(plan_id, files or PlanFiles(()))
        return self._known[plan_id][1] if plan_id in self._known else None

    async def refresh(self, busy: Collection[str] = ()) -> dict[str, RoutedPlan]:
        """Read agents and plans; import new ones, halt plans that contradict themselves.

        `busy`: plans that have messages. Their files are read in any case.
        """
        await self.refresh_agents()
        self._files = await asyncio.to_thread(self._plan_files, busy)
        found = dict(self._files)
        switched = await self._add_own(found)
        for plan_id in [each for each in self._known if each not in found and each not in VIRTUAL]:
            if self._known[plan_id][1].origin == "foreign":
                del self._known[plan_id]
        for plan_id, files in found.items():
            known = self._known.get(plan_id)
            if known is None or known[0] != files or plan_id in switched:
                await self._load(plan_id, files)
            elif known[1].facts is not None and known[1].facts.agents != self.agents:
                self._known[plan_id] = (files, replace(known[1], facts=replace(known[1].facts, agents=self.agents)))
        return {plan_id: plan for plan_id, (_, plan) in sorted(self._known.items())}

    def _plan_files(self, busy: Collection[str]) -> dict[str, PlanFiles]:
        """Read the files of every plan, or return the cached ones if its folder has not changed."""
        now = self._quiet.now()
        try:
            with self._deps.root.open_folder(root_layout.PLANS) as folder:
                entries = [entry for entry in folder.scan() if entry.kind == "folder" and entry.is_text]
        except (MissingError, InputError):
            return {}
        entries = sorted(each for each in entries if is_id(each.name) and not each.name.startswith("_"))
        due = {*busy, *self._next([each.name for each in entries])}
        found = {}
        for entry in entries:
            name = entry.name
            seen = self._files.get(name)
            if seen is not None and name not in due and self._quiet.is_unchanged(name, entry, now):
                found[name] = seen
                continue
            files = files_of(self._deps.root, name)
            self._quiet.record(name, entry, now, news=files != seen)
            if files is not None:
                found[name] = files
        return found

    def _next(self, names: list[str]) -> list[str]:
        """Choose the plans whose files are read again in this pass."""
        start = self._turn % len(names) if names else 0
        self._turn = start + _LOOKS
        return (names + names)[start : start + _LOOKS]

    async def _add_own(self, found: dict[str, PlanFiles]) -> set[str]:
        """Keep the engine's plans regardless of the folders; return those with another DAG than we know."""
        switched = set()
        for board in await list_boards(self._deps):
            for row in await board.read(PLANS):
                if row.origin == "engine":
                    found.setdefault(row.plan_id, PlanFiles(()))
                    known = self._known.get(row.plan_id)
                    if known and known[1].dag_sha256 != row.dag_sha256:
                        switched.add(row.plan_id)
        return switched

    async def build_virtual_plan(self, name: str) -> RoutedPlan:
        """Make a plan from a virtual board."""
        if name not in self._known:
            board = await self._deps.stores.board(name)
            await board.transact(lambda tx: tx.run(ADD_PLAN, plan_id=name, origin="virtual"))
            self._known[name] = (PlanFiles(()), RoutedPlan(name, board, "virtual", None))
        return self._known[name][1]

    async def _load(self, plan_id: str, files: PlanFiles) -> None:
        board = await place_plan(self._deps, plan_id)
        rows = await board.read(PLAN, plan_id=plan_id)
        if rows and rows[0].origin == "engine":
            self._known[plan_id] = (files, await self._engine_plan(plan_id, board))
        elif files.has(root_layout.DAG) or (rows and rows[0].origin == "foreign"):  # without its DAG it is halted
            self._known[plan_id] = (files, await self._foreign_plan(plan_id, board, rows[0].dag_sha256 if rows else ""))

    async def _engine_plan(self, plan_id: str, board: Store) -> RoutedPlan:
        """Read an engine's plan from the store. Files that differ from the store are restored."""
        dag, pointer, manifest = (await board.read(PLAN_DOCUMENTS, plan_id=plan_id))[0]
        edited = await asyncio.to_thread(
            _find_edited, self._deps.root, plan_id, {root_layout.DAG: dag, root_layout.POINTER: pointer or b""}
        )
        if edited:
            at = self._deps.stamp()
            await board.transact(lambda tx: _put_back(tx, plan_id, edited, at))
        said = PlanManifest.from_bytes(bytes(manifest)) if manifest else None
        facts = await asyncio.to_thread(_facts, bytes(dag), said, self.agents, foreign=False)
        return RoutedPlan(plan_id, board, "engine", facts)

    async def _foreign_plan(self, plan_id: str, board: Store, known_sha256: str) -> RoutedPlan:
        at = self._deps.stamp()
        await board.transact(lambda tx: tx.run(ADD_PLAN, plan_id=plan_id, origin="foreign"))
        try:
            _require_own_store(self._deps, plan_id)
            documents = await asyncio.to_thread(_read_plan, self._deps.root, plan_id)
            manifest, repairs = _foreign_manifest(documents[1])
            facts = await asyncio.to_thread(_facts, documents[0], manifest, self.agents, foreign=True)
            _require_agreement(plan_id, facts, documents[2])
        except AgentTalkError as error:
            why, code = error.message, _why_halted(error)
            await board.transact(lambda tx: halt(tx, plan_id, code, why, at))
            return RoutedPlan(plan_id, board, "foreign", None, halted=why)
        await self._import(board, facts, documents, known_sha256, at)
        if repairs:
            await board.transact(
                lambda tx: form_notices.note_repairs(tx, plan_id, None, root_layout.MANIFEST, repairs, at=at)
            )
        return RoutedPlan(plan_id, board, "foreign", facts)

    async def _import(
        self, board: Store, facts: PlanFacts, documents: tuple[bytes, bytes | None, bytes], known_sha256: str, at: str
    ) -> None:
        dag, manifest, pointer = documents
        plan_id = facts.dag.plan_id
        if facts.dag_sha256 != known_sha256:
            await ensure_task_rows(board, facts.dag, at)
        known = [row.task_id for row in await board.read(TASKS_OF, plan_id=plan_id)] if known_sha256 else []

        def work(tx: Tx) -> None:
            _put_plan(tx, facts, "foreign", dag=dag, pointer=pointer, manifest=manifest)
            if known_sha256 and facts.dag_sha256 != known_sha256:
                new = facts.dag_sha256
                recall.withdraw_outdated(tx, plan_id, known, old=known_sha256, new=new, deps=self._deps, at=at)
            if facts.dag_sha256 != known_sha256:
                tx.record("plan.dag", plan_id, {"origin": "foreign", "dag_sha256": facts.dag_sha256})

        await board.transact(work)


async def ensure_task_rows(board: Store, dag: TaskDag, at: str) -> None:
    """Give every node a row; those that have one keep their state."""
    for start in range(0, len(dag.nodes), _AT_ONCE):
        await board.transact(partial(_put_nodes, dag=dag, nodes=dag.nodes[start : start + _AT_ONCE], at=at))


def _put_nodes(tx: Tx, dag: TaskDag, nodes: Sequence[Node], at: str) -> None:
    for node in nodes:
        tx.run(PUT_TASK, plan_id=dag.plan_id, task_id=node.task_id, agent_id=node.assigned_agent_id, at=at)


async def submit(
    deps: Deps, dag_bytes: bytes, *, manifest: bytes | None = None, board: str = DEFAULT, kind: str = "business"
) -> str:
    """Make a plan the engine's, or switch the engine's plan to another DAG: all or nothing. Returns its id."""
    dag = TaskDag.from_bytes(dag_bytes)
    plan_id = dag.plan_id
    store = await place_plan(deps, plan_id, board)
    rows = await store.read(PLAN, plan_id=plan_id)
    if rows and rows[0].origin != "engine":
        raise UsageError(
            Code.PLAN_MISMATCH,
            f"plan {plan_id!r} was found as files under {root_layout.plan_folder(plan_id)}; those decide",
            hint="change the files there, or submit it under another plan_id",
        )
    at = deps.stamp()
    facts = _facts(dag_bytes, PlanManifest.from_bytes(manifest) if manifest else None, frozenset(), foreign=False)
    await ensure_task_rows(store, dag, at)

    def work(tx: Tx) -> None:
        known = tx.run(PLAN, plan_id=plan_id)
        revision = (known[0].revision or 0) + 1 if known else 1
        if known and known[0].dag_sha256 == facts.dag_sha256:
            return
        pointer = wire.write(
            {
                "schema_version": "1.0",
                "plan_id": plan_id,
                "dag_kind": kind,
                "task_dag_sha256": facts.dag_sha256,
                "task_dag_revision": revision,
                "updated_at": at,
            }
        )
        if known:
            [row] = tx.run(PLAN_DOCUMENTS, plan_id=plan_id)
            name = known[0].dag_sha256.removeprefix("sha256:")
            records.publish_file(tx, f"plans/{plan_id}/dag_history/{revision - 1:06d}_{name[:16]}.json", bytes(row.dag))
        _put_plan(tx, facts, "engine", dag=dag_bytes, pointer=pointer, manifest=manifest, revision=revision)
        records.publish_file(tx, f"plans/{plan_id}/{root_layout.DAG}", dag_bytes)
        if manifest is not None:
            records.publish_file(tx, f"plans/{plan_id}/{root_layout.MANIFEST}", manifest)
        records.publish_file(tx, f"plans/{plan_id}/{root_layout.POINTER}", pointer)
        tx.record("plan.dag", plan_id, {"origin": "engine", "dag_sha256": facts.dag_sha256, "revision": revision})

    await store.transact(work)
    return plan_id


def halt(tx: Tx, plan_id: str, code: Code, why: str, at: str) -> None:
    """Stop delivering a plan's messages, and tell people once for each reason."""
    if tx.run(HALT_PLAN, plan_id=plan_id, why=why):
        tx.record("plan.halted", plan_id, {"code": str(code), "why": why})
        records.alert(tx, at=at, plan_id=plan_id, code=code, message=why, key=f"{why}/{at}", severity="CRITICAL")


_HALTS: Final = frozenset(
    {Code.ACTIVE_DAG_REF_MISMATCH, Code.SCHEMA_VERSION_UNSUPPORTED, Code.PLAN_MISMATCH, Code.STORE_INCOMPATIBLE}
)


def _require_own_store(deps: Deps, plan_id: str) -> None:
    """Refuse foreign plans in a shared store, because other servers do not have the files that decide about them."""
    if deps.shared:
        raise UsageError(
            Code.STORE_INCOMPATIBLE,
            f"plan {plan_id!r} was found as files; that works with SQLite only, and this store is PostgreSQL",
            hint="submit the plan to the engine, or keep this root with SQLite",
        )


def files_of(root: Folder, plan_id: str) -> PlanFiles | None:
    """Read the files of a plan; None if it has no folder."""
    try:
        with root.open_folder(root_layout.plan_folder(plan_id)) as folder:
            marks = [
                (entry.name, entry.inode, entry.mtime_ns, entry.size)
                for entry in folder.scan()
                if entry.name in {root_layout.DAG, root_layout.POINTER, root_layout.MANIFEST}
            ]
    except (MissingError, InputError):
        return None
    return PlanFiles(tuple(sorted(marks)))


def read_plan_facts(root: Folder, plan_id: str) -> PlanFacts:
    """Read a foreign plan from its files. Raises AgentTalkError if they contradict each other."""
    dag, manifest, pointer = _read_plan(root, plan_id)
    facts = _facts(dag, _foreign_manifest(manifest)[0], (), foreign=True)
    _require_agreement(plan_id, facts, pointer)
    return facts


def _read_plan(root: Folder, plan_id: str) -> tuple[bytes, bytes | None, bytes]:
    """DAG, manifest and pointer, as bytes."""
    with root.open_folder(root_layout.plan_folder(plan_id)) as folder:
        dag = folder.read(root_layout.DAG, wire.DOCUMENT_LIMIT)
        try:
            manifest = folder.read(root_layout.MANIFEST, wire.ENVELOPE_LIMIT)
        except MissingError:
            manifest = None
        try:
            pointer = folder.read(root_layout.POINTER, wire.ENVELOPE_LIMIT)
        except MissingError as error:
            raise UsageError(
                Code.ACTIVE_DAG_REF_MISMATCH,
                f"plan {plan_id!r} has {root_layout.DAG} but no {root_layout.POINTER}",
                hint="write it last, when the DAG is complete",
            ) from error
    return dag, manifest, pointer


def _why_halted(error: AgentTalkError) -> Code:
    """Return the code of the alert for a halted plan, by the fault of its file."""
    if isinstance(error, ContractError | JsonError):
        return error.code if error.code in _HALTS else Code.SCHEMA_INVALID
    return error.code if error.code in _HALTS else Code.ACTIVE_DAG_REF_MISMATCH


def _foreign_manifest(manifest: bytes | None) -> tuple[PlanManifest | None, tuple[Repair, ...]]:
    """Read the manifest of a foreign plan, with the repairs to its form. Raises AgentTalkError for its faults."""
    if manifest is None:
        return None, ()
    with _naming(root_layout.MANIFEST):
        said, repairs = foreign_forms.normalize_document(
            PlanManifest, wire.read(manifest, limit=PlanManifest.size_limit)
        )
        return PlanManifest.from_json(said), repairs


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Add the name of a plan's file to an error about it."""
    try:
        yield
    except ContractError as error:
        raise ContractError(error.code, f"{name}: {error.message}", error.problems, hint=error.hint) from error
    except JsonError as error:
        raise JsonError(error.code, f"{name}: {error.message}", hint=error.hint) from error


def _facts(dag: bytes, manifest: PlanManifest | None, agents: Collection[str], *, foreign: bool) -> PlanFacts:
    commanders = manifest.commanders if manifest else None
    if commanders == ():  # an empty list means that no agent may command; a missing list sets no rule
        commanders = tuple(AgentId(each) for each in RESERVED)
    with _naming(root_layout.DAG):
        read = TaskDag.from_bytes(dag)
    return PlanFacts(
        dag=read,
        dag_sha256=wire.sha256(dag),
        agents=agents,
        foreign=foreign,
        commanders=commanders or (),
    )


def _require_agreement(plan_id: str, facts: PlanFacts, pointer: bytes) -> None:
    with _naming(root_layout.POINTER):
        said = ActiveDagRef.from_bytes(pointer)
    if said.task_dag_sha256 != facts.dag_sha256:
        raise UsageError(
            Code.ACTIVE_DAG_REF_MISMATCH,
            f"plan {plan_id!r}: {root_layout.POINTER} and {root_layout.DAG} disagree",
            hint="write the DAG first, then the pointer with its hash",
        )
    if facts.dag.plan_id != plan_id:
        raise UsageError(
            Code.PLAN_MISMATCH,
            f"the DAG in the folder of {plan_id!r} is that of plan {facts.dag.plan_id!r}",
            hint="put it into the folder of its own plan",
        )


def _put_plan(
    tx: Tx,
    facts: PlanFacts,
    origin: str,
    *,
    dag: bytes,
    pointer: bytes,
    manifest: bytes | None,
    revision: int | None = None,
) -> None:
    tx.run(
        PUT_PLAN,
        plan_id=facts.dag.plan_id,
        origin=origin,
        dag_sha256=facts.dag_sha256,
        revision=revision,
        halted=None,
    )
    tx.run(PUT_DOCUMENTS, plan_id=facts.dag.plan_id, dag=dag, pointer=pointer, manifest=manifest)


def _find_edited(root: Folder, plan_id: str, wanted: dict[str, bytes]) -> list[str]:
    """Find the files of a plan that differ from the store. A missing file was only not written yet."""
    edited = []
    for name, data in wanted.items():
        try:
            if root.digest(f"{root_layout.plan_folder(plan_id)}/{name}", wire.DOCUMENT_LIMIT).sha256 != wire.sha256(
                bytes(data)
            ):
                edited.append(name)
        except MissingError:
            continue
        except InputError:
            edited.append(name)
    return edited


def _put_back(tx: Tx, plan_id: str, names: list[str], at: str) -> None:
    for name in names:
        if tx.run(UNSHOW_VIEW, path=f"plans/{plan_id}/{name}"):
            records.alert(
                tx,
                at=at,
                plan_id=plan_id,
                code=Code.VIEW_EDITED,
                message=f"{name} was edited and is put back; the store decides about this plan",
                key=f"{name}/{at}",
                severity="WARNING",
            )
