"""Submits a plan that the engine will run: all of it, or nothing.

A plan of usual size is one transaction. A larger one takes several; until the last of them only a row in `runs` shows
it, so no reader sees a part of a plan. After a crash in between, the plan has to be submitted again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json.encoder import encode_basestring
from typing import Any, Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.command import PRIORITIES
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import parse_instant
from agenttalk.contracts.core.large_documents import pause_collector
from agenttalk.contracts.dag import Node, TaskDag
from agenttalk.contracts.errors import Code, InputError, UsageError
from agenttalk.contracts.plan import PlanManifest
from agenttalk.engine.core.boards import DEFAULT, place_plan
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.plan_settings import store_settings
from agenttalk.engine.core.submitted_plans import PlanTeam, TaskLinks
from agenttalk.engine.plans import submission_gate
from agenttalk.engine.plans.submission_gate import PrePlanDecision
from agenttalk.ports.statements.messages import PUT_DOCUMENTS, PUT_PLAN, SHOW_VIEW, SHOW_VIEWS
from agenttalk.ports.statements.plans import (
    ADD_RUN,
    DROP_EDGES,
    DROP_NODES,
    DROP_TASKS,
    LINK_NODE,
    PUT_EDGES,
    PUT_ENGINE_TASKS,
    PUT_NODES,
    RUN,
    SUBMITTED,
)
from agenttalk.ports.storage import Store, Tx, Value
from agenttalk.rules.commands import promises
from agenttalk.rules.proof import staleness

_AT_ONCE: Final = 5_000
"""Tasks that one transaction writes."""
_LARGE: Final = 1024 * 1024
"""A DAG of more bytes is shown from a content of its own, so that the database does not hold it twice."""


async def submit(
    deps: Deps,
    dag: TaskDag,
    manifest: PlanManifest,
    profiles: Mapping[str, AgentProfile],
    *,
    board: str = DEFAULT,
    also: Callable[[Tx], None] = lambda _: None,
) -> bool:
    """Submit a plan. False when this very plan was submitted before: then nothing changes.

    `also` is called in the transaction that starts it. Raises UsageError when there is another plan of that id, and
    ContractError when it must not be run.
    """
    submission_gate.decide_pre_plan(dag, manifest, revision=1)  # before the plan gets a board
    store = await place_plan(deps, dag.plan_id, board)
    now = deps.stamp()
    is_unnamed = any(promises.is_unnamed(node) for node in dag.nodes)
    began_at = await _read_start(store, dag.plan_id) if is_unnamed else None
    try:
        named = promises.assign_promise_ids(dag, _to_milliseconds(began_at or now))
        return await _submit(deps, store, named, manifest, profiles, now, also)
    except UsageError:
        latest = await _read_start(store, dag.plan_id)
        if latest in {None, began_at}:
            raise
        # Another process submitted it meanwhile, perhaps the same plan, whose promises are named after that moment.
        named = promises.assign_promise_ids(dag, _to_milliseconds(str(latest)))
        return await _submit(deps, store, named, manifest, profiles, now, also)


async def _read_start(store: Store, plan_id: str) -> str | None:
    """Return when a plan was submitted, if it was."""
    rows = await store.read(RUN, plan_id=plan_id)
    return str(rows[0].began_at) if rows else None


def _to_milliseconds(instant: str) -> int:
    return int(parse_instant(instant).timestamp() * 1000)


async def _submit(
    deps: Deps,
    store: Store,
    dag: TaskDag,
    manifest: PlanManifest,
    profiles: Mapping[str, AgentProfile],
    now: str,
    also: Callable[[Tx], None],
) -> bool:
    """Submit a plan whose promises have ids."""
    gate = submission_gate.decide_pre_plan(dag, manifest, revision=1)
    closing = staleness.needs_final_check(dag, manifest)
    team = deps.submitted.make_team(manifest.policies, profiles)
    plan = _Submission(dag, manifest, team, now, gate, closing, also)
    if len(dag.nodes) > _AT_ONCE:
        with pause_collector():
            return await _submit_in_parts(deps, store, plan)
    links = TaskLinks.from_dag(dag)
    rows = TaskRows.from_nodes(dag.nodes, links)
    documents = _PlanDocuments.from_plan(plan, rows.texts)
    deps.submitted.keep_tasks(documents.sha256, dag.nodes, links)
    return await store.transact(partial(_write_whole, plan=plan, rows=rows, documents=documents))


async def store_check_files(deps: Deps, board: str, dag: TaskDag, files: Mapping[str, bytes]) -> None:
    """Store the files of a plan's checks. Raises InputError when one that they name is missing.

    A plan that holds a secret is refused as well: it would be kept for good, and shown to agents.
    """
    if secrets := deps.secret_guard.secrets:
        for what, data in (
            ("the plan", dag.to_bytes()),
            *((f"a file of {dag.plan_id}", content) for content in files.values()),
        ):
            if name := secrets.find_name(data):
                hint = f"hand {name} to its agent by the profile's env, or take it out of the text"
                raise InputError(
                    Code.SECRET_EXPOSED, f"{what} contains the value of {name}, so it is refused", hint=hint
                )
    named = {
        sha256: path
        for node in dag.nodes
        if node.promise is not None
        for check in node.promise.checks
        for path, sha256 in (check.files_sha256 or {}).items()
    }
    if not named:
        return
    blobs = await deps.stores.blobs(board)
    for sha256, path in named.items():
        if sha256 in files:
            await blobs.put(files[sha256])
        elif not await blobs.exists(sha256):
            message = f"the content of {path!r}, a file of a check, was not handed over"
            raise InputError(Code.BLOB_MISSING, message, hint="submit the plan from its file")


async def _submit_in_parts(deps: Deps, store: Store, plan: _Submission) -> bool:
    """Submit a plan in several transactions. While the store writes one part, the next one is prepared."""
    token = deps.ids.new("submission").encode()
    before = await store.transact(partial(_announce, plan=plan, token=token))
    if before is not None:
        return _same(plan.dag.plan_id, before, (wire.sha256(plan.dag.to_bytes()), plan.team.settings))
    texts: list[str] = []
    writing: asyncio.Future[None] | None = None
    try:
        for rows in _parts(plan.dag):
            texts += rows.texts
            if writing is not None:
                await writing
            writing = asyncio.ensure_future(store.transact(partial(_put_part, plan=plan, token=token, rows=rows)))
            await asyncio.sleep(0)  # the store has the part now
        documents = _PlanDocuments.from_plan(plan, texts)
        if documents.content is not None:
            await (await deps.stores.blobs(store.name)).put(documents.dag)
        if writing is not None:
            await writing
    finally:
        if writing is not None:
            writing.cancel()
    await store.transact(partial(_end_parts, plan=plan, token=token, documents=documents))
    return True


@dataclass(frozen=True, slots=True)
class _Submission:
    """A plan, as its submission needs it."""

    dag: TaskDag
    manifest: PlanManifest
    team: PlanTeam
    now: str
    gate: PrePlanDecision
    closing: bool
    """Whether its proofs are checked once more before it ends."""
    also: Callable[[Tx], None]


@dataclass(frozen=True, slots=True)
class _PlanDocuments:
    """The documents of a plan."""

    dag: bytes
    sha256: str
    manifest: bytes
    pointer: bytes
    shown: str
    """Files to be shown: a JSON object from path to text."""
    content: str | None
    """The hash of a large DAG, which is shown from a content of its own."""

    @classmethod
    def from_plan(cls, plan: _Submission, texts: Sequence[str]) -> _PlanDocuments:
        """Write the documents. `texts` are those of the nodes."""
        dag = plan.dag.to_bytes_with(texts) if len(texts) > _YIELD_AFTER else plan.dag.to_bytes()
        manifest = plan.manifest.to_bytes()
        sha256 = wire.sha256(dag)
        pointer = wire.write(
            {
                "schema_version": "1.0",
                "plan_id": plan.dag.plan_id,
                "dag_kind": "business",
                "task_dag_sha256": sha256,
                "task_dag_revision": 1,
                "updated_at": plan.now,
            }
        )
        folder = f"plans/{plan.dag.plan_id}"
        shown = {
            f"{folder}/{root_layout.MANIFEST}": manifest.decode(),
            f"{folder}/{root_layout.POINTER}": pointer.decode(),
        }
        large = len(dag) > _LARGE
        if not large:
            shown[f"{folder}/{root_layout.DAG}"] = dag.decode()
        pairs = f"{wire.to_text(shown)[1:-1]}{',' if plan.team.shown else ''}{plan.team.shown}"
        return cls(dag, sha256, manifest, pointer, f"{{{pairs}}}", sha256 if large else None)


def _write_whole(tx: Tx, plan: _Submission, rows: TaskRows, documents: _PlanDocuments) -> bool:
    """Write a whole plan in one transaction."""
    before = _find_before(tx, plan.dag.plan_id)
    if before is not None:
        return _same(plan.dag.plan_id, before, (documents.sha256, plan.team.settings))
    rows.write(tx, plan.dag.plan_id, plan.now)
    _release(tx, plan, documents)
    return True


def _announce(tx: Tx, plan: _Submission, token: bytes) -> tuple[str, bytes] | None:
    """Reserve the id of a plan that comes in parts, for the submission with this token. Return a plan that is there."""
    before = _find_before(tx, plan.dag.plan_id)
    if before is None:
        _put_run(tx, plan, "SUBMITTED", token)
    return before


def _put_part(tx: Tx, plan: _Submission, token: bytes, rows: TaskRows) -> None:
    _require_own(tx, plan.dag.plan_id, token)
    rows.write(tx, plan.dag.plan_id, plan.now)


def _end_parts(tx: Tx, plan: _Submission, token: bytes, documents: _PlanDocuments) -> None:
    _require_own(tx, plan.dag.plan_id, token)
    _release(tx, plan, documents)


def _release(tx: Tx, plan: _Submission, documents: _PlanDocuments) -> None:
    """Start a plan that is written completely. It waits if its DAG has to be approved first."""
    plan_id, sha256 = plan.dag.plan_id, documents.sha256
    tx.run(PUT_PLAN, plan_id=plan_id, origin="engine", dag_sha256=sha256, revision=1, halted=None)
    waits = submission_gate.open_review(tx, plan_id, 1, sha256, plan.manifest.policies, at=plan.now)
    _put_run(tx, plan, "PAUSED" if waits else "RUNNING", store_settings(tx, plan.team.settings))
    tx.run(PUT_DOCUMENTS, plan_id=plan_id, dag=documents.dag, pointer=documents.pointer, manifest=documents.manifest)
    tx.run(SHOW_VIEWS, rows=documents.shown)
    if documents.content is not None:
        tx.run(SHOW_VIEW, path=f"plans/{plan_id}/{root_layout.DAG}", body=None, content=documents.content)
    plan.gate.record(tx, plan.now)
    body = {"origin": "engine", "dag_sha256": sha256, "revision": 1, "tasks": len(plan.dag.nodes)}
    tx.record("plan.submitted", plan_id, body | plan.gate.to_json())
    plan.also(tx)


def _put_run(tx: Tx, plan: _Submission, state: str, settings: bytes) -> None:
    tx.run(
        ADD_RUN,
        plan_id=plan.dag.plan_id,
        state=state,
        settings=settings,
        open=len(plan.dag.nodes),
        closing=int(plan.closing),
        at=plan.now,
    )


def _find_before(tx: Tx, plan_id: str) -> tuple[str, bytes] | None:
    """Return the DAG's hash and the settings of a plan that has this id; None when the id is free.

    What an unfinished submission left is removed: it may have been another plan.
    """
    origin, sha256, state, settings = tx.run(SUBMITTED, plan_id=plan_id)[0]
    if state not in {None, "SUBMITTED"}:
        return sha256 or "", settings or b""
    _require_free(plan_id, origin)
    if state is not None:
        for statement in (DROP_EDGES, DROP_NODES, DROP_TASKS):
            tx.run(statement, plan_id=plan_id)
    return None


def _require_own(tx: Tx, plan_id: str, token: bytes) -> None:
    """Raise UsageError if another submission of this id has begun meanwhile."""
    row = tx.run(SUBMITTED, plan_id=plan_id)[0]
    if row.state != "SUBMITTED" or row.settings != token:
        raise _taken(plan_id, "another process submits it at the same time", "submit it once")
    _require_free(plan_id, row.origin)


def _require_free(plan_id: str, origin: str | None) -> None:
    if origin not in {None, "engine"}:
        raise _taken(plan_id, "it was found as files, and those decide", "submit it under another plan_id")


def _same(plan_id: str, before: tuple[str, bytes], now: tuple[str, bytes]) -> bool:
    if before != now:
        raise _taken(plan_id, "it was submitted with other content", "use 'agenttalk plan apply' to change it")
    return False


def _taken(plan_id: str, why: str, hint: str) -> UsageError:
    return UsageError(Code.PLAN_MISMATCH, f"there is a plan {plan_id!r} already: {why}", hint=hint)


def _parts(dag: TaskDag) -> Iterator[TaskRows]:
    """Split the tasks into parts. Each is in the order of the store's index, which is by far the quickest to write."""
    links = TaskLinks.from_dag(dag)
    for start in range(0, len(dag.nodes), _AT_ONCE):
        yield TaskRows.from_nodes(dag.nodes[start : start + _AT_ONCE], links)


_YIELD_AFTER: Final = 250
"""Tasks after which other threads get a turn."""
_BETWEEN: Final = '","'
_NOTHING: Final = "{}"


def _object(pairs: Iterable[str]) -> str:
    return f"{{{','.join(pairs)}}}"


@dataclass(frozen=True, slots=True)
class TaskRows:
    """Tasks as the statements take them, one for each table: JSON by task id, in which nothing has to be escaped."""

    texts: list[str]
    """The nodes, in the order of the DAG."""
    tasks: str
    nodes: str
    """Their texts as strings, not as objects: PostgreSQL's JSON cannot hold every character."""
    edges: str
    linked: list[dict[str, Value]]
    """Nodes with conditional tasks or activators, which are few."""

    @classmethod
    def from_nodes(cls, nodes: Sequence[Node], links: TaskLinks) -> TaskRows:
        """Make the rows of some tasks, and of the tasks that wait for them."""
        texts: list[str] = []
        for start in range(0, len(nodes), _YIELD_AFTER):
            if start:
                time.sleep(0)  # the thread that writes to the store may be waiting for its turn
            texts += [node.as_text() for node in nodes[start : start + _YIELD_AFTER]]
        written = dict(zip([node.task_id for node in nodes], texts, strict=True))
        ids = sorted(written)
        waiting = [task_id for task_id in ids if task_id in links.dependants]
        edges = [_BETWEEN.join(links.dependants[task_id]) for task_id in waiting]
        linked = [task_id for task_id in ids if task_id in links.conditional_tasks or task_id in links.activators]
        return cls(
            texts,
            _object(sorted([_task(node, links) for node in nodes])),
            _object([f'"{task_id}":{encode_basestring(written[task_id])}' for task_id in ids]),
            _object([f'"{task_id}":["{tasks}"]' for task_id, tasks in zip(waiting, edges, strict=True)]),
            [_linked(task_id, links) for task_id in linked],
        )

    def write(self, tx: Tx, plan_id: str, now: str) -> None:
        """Write new tasks."""
        tx.run(PUT_ENGINE_TASKS, plan_id=plan_id, at=now, rows=self.tasks)
        self.put_nodes(tx, plan_id)

    def put_nodes(self, tx: Tx, plan_id: str) -> None:
        """Write the nodes of tasks, and which tasks wait for which."""
        tx.run(PUT_NODES, plan_id=plan_id, rows=self.nodes)
        if self.edges != _NOTHING:
            tx.run(PUT_EDGES, plan_id=plan_id, rows=self.edges)
        if self.linked:
            tx.run_many(LINK_NODE, [{"plan_id": plan_id, **row} for row in self.linked])


def put_nodes(tx: Tx, plan_id: str, nodes: Sequence[Node], links: TaskLinks) -> None:
    """Write the nodes of tasks, and which tasks wait for which."""
    TaskRows.from_nodes(nodes, links).put_nodes(tx, plan_id)


def _linked(task_id: str, links: TaskLinks) -> dict[str, Value]:
    conditional_tasks, activators = links.conditional_tasks.get(task_id), links.activators.get(task_id)
    return {
        "task_id": task_id,
        "wards": wire.write(conditional_tasks) if conditional_tasks else None,
        "guards": wire.write(activators) if activators else None,
    }


def _task(node: Node, links: TaskLinks) -> str:
    agent_id, unmet, held, priority = _standing(node, links)
    return f'"{node.task_id}":["{agent_id}",{unmet},{held},{priority}]'


def _standing(node: Node, links: TaskLinks) -> tuple[Any, ...]:
    """Return the agent of a task, for how many others it waits, whether it is held, and its priority."""
    needs, held = node.depends_on, int(node.task_id in links.activators)
    unmet = len(needs) if len(needs) < 2 else len(set(needs))
    return node.assigned_agent_id, unmet + held, held, PRIORITIES[node.priority or "MEDIUM"]


def make_task_row(plan_id: str, node: Node, links: TaskLinks, now: str) -> dict[str, Value]:
    """Make the row of a new task."""
    agent_id, unmet, held, priority = _standing(node, links)
    return {
        "plan_id": plan_id,
        "task_id": node.task_id,
        "agent_id": agent_id,
        "unmet": unmet,
        "held": held,
        "priority": priority,
        "at": now,
    }
