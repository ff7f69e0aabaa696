"""Taking in a plan that the engine is to run: all of it, or nothing.

A plan of usual size is one transaction. A larger one takes several; until the last of them a row in `runs` is
all that tells of it, so nobody sees a part of a plan. Whoever is killed meanwhile submits it again.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
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
from agenttalk.contracts.plan import PlanManifest, Policies
from agenttalk.engine.core.boards import DEFAULT, place_plan
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.plan_settings import encode_settings, store_settings
from agenttalk.engine.plans import submission_gate
from agenttalk.engine.plans.definition import cache_tasks
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
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.commands import promises
from agenttalk.rules.proof import staleness

_AT_ONCE: Final = 5_000
"""Tasks that one transaction takes in."""
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
    """Have a plan run. False when this very plan was submitted before: then nothing changes.

    `also` is done in the transaction from which on it runs. Raises UsageError when there is another plan of that id,
    and ContractError when it must not be run.
    """
    submission_gate.decide_pre_plan(dag, manifest, revision=1)  # before it has a place anywhere
    store = await place_plan(deps, dag.plan_id, board)
    at = deps.stamp()
    began = await _began(store, dag.plan_id) if any(promises.is_unnamed(node) for node in dag.nodes) else None
    try:
        return await _submit(
            deps, store, promises.assign_promise_ids(dag, _ms(began or at)), manifest, profiles, at, also
        )
    except UsageError:
        now = await _began(store, dag.plan_id)
        if now in {None, began}:
            raise
        # Somebody else submitted it meanwhile: the same, perhaps, whose promises are named after that moment.
        return await _submit(deps, store, promises.assign_promise_ids(dag, _ms(str(now))), manifest, profiles, at, also)


async def _began(store: Store, plan_id: str) -> str | None:
    """When a plan was submitted, if it was."""
    rows = await store.read(RUN, plan_id=plan_id)
    return str(rows[0].began_at) if rows else None


def _ms(at: str) -> int:
    return int(parse_instant(at).timestamp() * 1000)


async def _submit(
    deps: Deps,
    store: Store,
    dag: TaskDag,
    manifest: PlanManifest,
    profiles: Mapping[str, AgentProfile],
    at: str,
    also: Callable[[Tx], None],
) -> bool:
    """Hand over a plan whose promises are named."""
    gate = submission_gate.decide_pre_plan(dag, manifest, revision=1)
    closing = staleness.needs_final_check(dag, manifest)
    plan = _Submission(dag, manifest, _Team.reuse_or_make(manifest.policies, profiles), at, gate, closing, also)
    if len(dag.nodes) > _AT_ONCE:
        with pause_collector():
            return await _submit_in_parts(deps, store, plan)
    links = TaskLinks.from_dag(dag)
    rows = TaskRows.from_nodes(dag.nodes, links)
    papers = _PlanDocuments.from_plan(plan, rows.texts)
    cache_tasks(papers.sha256, dag.nodes, links.conditional_tasks, links.activators, links.dependants)
    return await store.transact(partial(_take_whole, plan=plan, rows=rows, papers=papers))


async def store_check_files(deps: Deps, board: str, dag: TaskDag, files: Mapping[str, bytes]) -> None:
    """Keep what the checks of a plan bring along. Raises InputError when something that they name was not brought.

    Nor is a plan taken that holds a secret: it would be kept for good, and shown to agents.
    """
    if secrets := deps.secret_guard.secrets:
        for what, data in (
            ("the plan", dag.to_bytes()),
            *((f"a file of {dag.plan_id}", each) for each in files.values()),
        ):
            if name := secrets.find_name(data):
                hint = f"hand {name} to its agent by the profile's env, or take it out of the text"
                raise InputError(
                    Code.SECRET_EXPOSED, f"{what} holds the value of {name}, so it is not taken", hint=hint
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
    """While the store takes one part in, the next one is made ready."""
    token = deps.ids.new("submission").encode()
    before = await store.transact(partial(_announce, plan=plan, token=token))
    if before is not None:
        return _same(plan.dag.plan_id, before, (wire.sha256(plan.dag.to_bytes()), plan.team.settings))
    texts: list[str] = []
    under_way: asyncio.Future[None] | None = None
    try:
        for rows in _parts(plan.dag):
            texts += rows.texts
            if under_way is not None:
                await under_way
            under_way = asyncio.ensure_future(store.transact(partial(_put_part, plan=plan, token=token, rows=rows)))
            await asyncio.sleep(0)  # now it is handed over
        papers = _PlanDocuments.from_plan(plan, texts)
        if papers.content is not None:
            await (await deps.stores.blobs(store.name)).put(papers.dag)
        if under_way is not None:
            await under_way
    finally:
        if under_way is not None:
            under_way.cancel()
    await store.transact(partial(_end_parts, plan=plan, token=token, papers=papers))
    return True


@dataclass(frozen=True, slots=True)
class _Submission:
    """What is handed over."""

    dag: TaskDag
    manifest: PlanManifest
    team: _Team
    at: str
    gate: PrePlanDecision
    closing: bool
    """Whether what was proven is looked at once more before it ends."""
    also: Callable[[Tx], None]


@dataclass(frozen=True, slots=True)
class _Team:
    """Policies and agents of a plan, and what is written of them. The next plan often has the same."""

    policies: Policies
    profiles: dict[str, AgentProfile]
    settings: bytes
    shown: str
    """Files that are to be written: pairs of path and text, as JSON has them inside of an object."""

    @classmethod
    def reuse_or_make(cls, policies: Policies, profiles: Mapping[str, AgentProfile]) -> _Team:
        """The team; that of the plan before when it is the very same."""
        known = _teams[-1] if _teams else None
        if known is None or not known.is_of(policies, profiles):
            shown = {
                f"{root_layout.agent_folder(agent_id)}/{root_layout.PROFILE}": f"{profile.as_text()}\n"
                for agent_id, profile in profiles.items()
            }
            known = cls(policies, dict(profiles), encode_settings(policies, dict(profiles)), wire.to_text(shown)[1:-1])
            _teams[:] = [known]
        return known

    def is_of(self, policies: Policies, profiles: Mapping[str, AgentProfile]) -> bool:
        """Whether nothing has changed: the profiles are the same objects, which never change."""
        same = len(profiles) == len(self.profiles) and policies == self.policies
        return same and all(self.profiles.get(name) is profile for name, profile in profiles.items())


_teams: list[_Team] = []


@dataclass(frozen=True, slots=True)
class _PlanDocuments:
    """The documents of a plan."""

    dag: bytes
    sha256: str
    manifest: bytes
    pointer: bytes
    shown: str
    """Files that are to be written: JSON from path to text."""
    content: str | None
    """Where the DAG is shown from when it is large."""

    @classmethod
    def from_plan(cls, plan: _Submission, texts: Sequence[str]) -> _PlanDocuments:
        """The documents. `texts` are those of the nodes."""
        dag = plan.dag.to_bytes_with(texts) if len(texts) > _BREATH else plan.dag.to_bytes()
        manifest = plan.manifest.to_bytes()
        sha256 = wire.sha256(dag)
        pointer = wire.write(
            {
                "schema_version": "1.0",
                "plan_id": plan.dag.plan_id,
                "dag_kind": "business",
                "task_dag_sha256": sha256,
                "task_dag_revision": 1,
                "updated_at": plan.at,
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


def _take_whole(tx: Tx, plan: _Submission, rows: TaskRows, papers: _PlanDocuments) -> bool:
    """A whole plan in one transaction."""
    before = _room_for(tx, plan.dag.plan_id)
    if before is not None:
        return _same(plan.dag.plan_id, before, (papers.sha256, plan.team.settings))
    rows.write(tx, plan.dag.plan_id, plan.at)
    _release(tx, plan, papers)
    return True


def _announce(tx: Tx, plan: _Submission, token: bytes) -> tuple[str, bytes] | None:
    """Say that a plan is coming in parts, and by whose hand; or what is there already."""
    before = _room_for(tx, plan.dag.plan_id)
    if before is None:
        _put_run(tx, plan, "SUBMITTED", token)
    return before


def _put_part(tx: Tx, plan: _Submission, token: bytes, rows: TaskRows) -> None:
    _require_own(tx, plan.dag.plan_id, token)
    rows.write(tx, plan.dag.plan_id, plan.at)


def _end_parts(tx: Tx, plan: _Submission, token: bytes, papers: _PlanDocuments) -> None:
    _require_own(tx, plan.dag.plan_id, token)
    _release(tx, plan, papers)


def _release(tx: Tx, plan: _Submission, papers: _PlanDocuments) -> None:
    """All of it is there: from this commit on it runs, or waits until its DAG is approved."""
    plan_id, sha256 = plan.dag.plan_id, papers.sha256
    tx.run(PUT_PLAN, plan_id=plan_id, origin="engine", dag_sha256=sha256, revision=1, halted=None)
    waits = submission_gate.open_review(tx, plan_id, 1, sha256, plan.manifest.policies, at=plan.at)
    _put_run(tx, plan, "PAUSED" if waits else "RUNNING", store_settings(tx, plan.team.settings))
    tx.run(PUT_DOCUMENTS, plan_id=plan_id, dag=papers.dag, pointer=papers.pointer, manifest=papers.manifest)
    tx.run(SHOW_VIEWS, rows=papers.shown)
    if papers.content is not None:
        tx.run(SHOW_VIEW, path=f"plans/{plan_id}/{root_layout.DAG}", body=None, content=papers.content)
    plan.gate.record(tx, plan.at)
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
        at=plan.at,
    )


def _room_for(tx: Tx, plan_id: str) -> tuple[str, bytes] | None:
    """None when a plan of that id may be taken in; else the hash of its DAG and its settings.

    What is left of one that somebody could not finish is removed: it may have been another plan.
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
    """Nobody else may have begun to submit the plan, or have finished it."""
    origin, _, state, settings = tx.run(SUBMITTED, plan_id=plan_id)[0]
    if state != "SUBMITTED" or settings != token:
        raise _taken(plan_id, "somebody submits it at the same time", "submit it once")
    _require_free(plan_id, origin)


def _require_free(plan_id: str, origin: str | None) -> None:
    if origin not in {None, "engine"}:
        raise _taken(plan_id, "it was found as files, and those decide", "submit it under another plan_id")


def _same(plan_id: str, before: tuple[str, bytes], now: tuple[str, bytes]) -> bool:
    if before != now:
        raise _taken(plan_id, "it was submitted with other content", "use 'agenttalk plan apply' to change it")
    return False


def _taken(plan_id: str, why: str, hint: str) -> UsageError:
    return UsageError(Code.PLAN_MISMATCH, f"there is a plan {plan_id!r} already: {why}", hint=hint)


@dataclass(frozen=True, slots=True)
class TaskLinks:
    """Which tasks run only if another says so, by a branch or by failing; and who waits for whom."""

    conditional_tasks: dict[str, list[str]]
    activators: dict[str, list[str]]
    dependants: dict[str, list[str]]

    @classmethod
    def from_dag(cls, dag: TaskDag) -> TaskLinks:
        """All directions."""
        wards: defaultdict[str, list[str]] = defaultdict(list)
        dependants: defaultdict[str, list[str]] = defaultdict(list)
        for node in dag.nodes:
            for dependency in node.depends_on:
                dependants[dependency].append(node.task_id)
            for branch in node.gates.branches if node.gates else ():
                wards[node.task_id] += branch.activate
            if node.failure_policy and node.failure_policy.fallback_task_id:
                for dependency in node.depends_on:
                    wards[dependency].append(node.failure_policy.fallback_task_id)
        guards: defaultdict[str, list[str]] = defaultdict(list)
        for guard, tasks in wards.items():
            wards[guard] = list(dict.fromkeys(tasks))
            for task_id in wards[guard]:
                guards[task_id].append(guard)
        return cls(dict(wards), dict(guards), dict(dependants))


def _parts(dag: TaskDag) -> Iterator[TaskRows]:
    """The tasks in parts. Each is in the order in which the store keeps it, which is by far the quickest to take in."""
    links = TaskLinks.from_dag(dag)
    for start in range(0, len(dag.nodes), _AT_ONCE):
        yield TaskRows.from_nodes(dag.nodes[start : start + _AT_ONCE], links)


_BREATH: Final = 250
"""Tasks after which other threads get a turn."""
_BETWEEN: Final = '","'
_NOTHING: Final = "{}"


def _object(pairs: Iterable[str]) -> str:
    return f"{{{','.join(pairs)}}}"


@dataclass(frozen=True, slots=True)
class TaskRows:
    """Tasks as one statement for each table takes them in: JSON by their ids, in which nothing has to be escaped."""

    texts: list[str]
    """The nodes, in the order of the DAG."""
    tasks: str
    nodes: str
    """Their texts, and not what they say: PostgreSQL's JSON cannot hold every character."""
    edges: str
    linked: list[dict[str, Any]]
    """Nodes that have wards or guards, which are few."""

    @classmethod
    def from_nodes(cls, nodes: Sequence[Node], links: TaskLinks) -> TaskRows:
        """The rows of some tasks, and of who waits for them."""
        texts: list[str] = []
        for start in range(0, len(nodes), _BREATH):
            if start:
                time.sleep(0)  # the thread that writes to the store may be waiting for its turn
            texts += [node.as_text() for node in nodes[start : start + _BREATH]]
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

    def write(self, tx: Tx, plan_id: str, at: str) -> None:
        """Write down new tasks."""
        tx.run(PUT_ENGINE_TASKS, plan_id=plan_id, at=at, rows=self.tasks)
        self.put_nodes(tx, plan_id)

    def put_nodes(self, tx: Tx, plan_id: str) -> None:
        """Write down what is asked for in tasks, and who waits for whom."""
        tx.run(PUT_NODES, plan_id=plan_id, rows=self.nodes)
        if self.edges != _NOTHING:
            tx.run(PUT_EDGES, plan_id=plan_id, rows=self.edges)
        if self.linked:
            tx.run_many(LINK_NODE, [{"plan_id": plan_id, **each} for each in self.linked])


def put_nodes(tx: Tx, plan_id: str, nodes: Sequence[Node], links: TaskLinks) -> None:
    """Write down what is asked for in tasks, and who waits for whom."""
    TaskRows.from_nodes(nodes, links).put_nodes(tx, plan_id)


def _linked(task_id: str, links: TaskLinks) -> dict[str, Any]:
    wards, guards = links.conditional_tasks.get(task_id), links.activators.get(task_id)
    return {
        "task_id": task_id,
        "wards": wire.write(wards) if wards else None,
        "guards": wire.write(guards) if guards else None,
    }


def _task(node: Node, links: TaskLinks) -> str:
    agent_id, unmet, held, priority = _standing(node, links)
    return f'"{node.task_id}":["{agent_id}",{unmet},{held},{priority}]'


def _standing(node: Node, links: TaskLinks) -> tuple[Any, ...]:
    """The agent of a task, for how many it waits, whether it is held, and its priority."""
    needs, held = node.depends_on, int(node.task_id in links.activators)
    unmet = len(needs) if len(needs) < 2 else len(set(needs))
    return node.assigned_agent_id, unmet + held, held, PRIORITIES[node.priority or "MEDIUM"]


def make_task_row(plan_id: str, node: Node, links: TaskLinks, at: str) -> dict[str, Any]:
    """The row of a task that nobody has looked at yet."""
    agent_id, unmet, held, priority = _standing(node, links)
    return {
        "plan_id": plan_id,
        "task_id": node.task_id,
        "agent_id": agent_id,
        "unmet": unmet,
        "held": held,
        "priority": priority,
        "at": at,
    }
