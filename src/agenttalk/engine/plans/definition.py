"""What does not change while a plan runs: its nodes, its agents and its policies, as they were submitted.

Read once and kept, because every step of a plan needs them. A new revision of the DAG makes a new sheet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import AgentId, parse_instant
from agenttalk.contracts.dag import EVERYONE, Node, Output
from agenttalk.contracts.errors import Code, MissingError
from agenttalk.contracts.plan import PlanLimits, PlanManifest, Policies, Workspace
from agenttalk.contracts.promise import AnyCheck, CompletionPromise
from agenttalk.engine.core.plan_settings import read_settings
from agenttalk.engine.core.trace_context import Trace, trace_of
from agenttalk.ports.statements.messages import PLAN_MANIFEST
from agenttalk.ports.statements.plans import NODE, NODES_OF, RUN, RunRow
from agenttalk.ports.statements.proof import JOINED_CHECKS, JoinedCheckRow
from agenttalk.ports.storage import Tx
from agenttalk.rules.commands import promises
from agenttalk.rules.proof import done, staleness
from agenttalk.rules.proof.staleness import InheritedCheck

"""The id of a promise that was not submitted yet, or that follows from its node."""
_KEPT: Final = 20_000
"""Tasks that are kept in memory for each plan."""


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """What is asked for in a task."""

    node: Node
    conditional_tasks: tuple[str, ...] = ()
    """Tasks that run only if this one says so: by a branch, or by failing."""
    activators: tuple[str, ...] = ()
    """Tasks that can say so of this one."""
    last: bool = False
    """Whether it is known that nobody waits for it, nor ever will."""
    followers: tuple[str, ...] = ()
    """All that wait for it, if it is known that each of them waits for nothing else."""


_NOBODY: Final[dict[str, TaskDefinition]] = {}
_submitted: dict[str, dict[str, TaskDefinition]] = {}
"""Hash of a DAG → its tasks as somebody of this process submitted them, so that they need not be read again."""


def cache_tasks(
    dag_sha256: str,
    nodes: Sequence[Node],
    wards: Mapping[str, Sequence[str]],
    guards: Mapping[str, Sequence[str]],
    dependants: Mapping[str, Sequence[str]],
) -> None:
    """Keep the tasks of a DAG that was just submitted, unless they are too many."""
    if _remembered[0] + len(nodes) > _KEPT:
        _submitted.clear()
        _remembered[0] = 0
    if len(nodes) <= _KEPT and dag_sha256 not in _submitted:
        _remembered[0] += len(nodes)
        specs = _submitted[dag_sha256] = {}
        alone = {node.task_id for node in nodes if len(node.depends_on) == 1 and node.task_id not in guards}
        for node in nodes:
            name = node.task_id
            known = name not in guards  # else it may stand in for somebody
            last = known and name not in dependants
            follow = tuple(dependants[name]) if known and not last and alone.issuperset(dependants[name]) else ()
            specs[name] = TaskDefinition(node, tuple(wards.get(name, ())), tuple(guards.get(name, ())), last, follow)


_remembered = [0]
"""How many tasks are remembered."""


@dataclass(slots=True)
class PlanDefinition:
    """A plan that the engine runs."""

    plan_id: str
    dag_sha256: str
    revision: int
    policies: Policies
    profiles: dict[str, AgentProfile]
    began_ms: int = 0
    """When it was submitted, in milliseconds since 1970."""
    workspace: Workspace | None = None
    """The repository that its tasks work on."""
    limits: PlanLimits | None = None
    """What its tasks may use altogether."""
    trace: Trace | None = None
    """To which trace its messages belong, where a tracing system is told of them."""
    specs: dict[str, TaskDefinition] = field(default_factory=dict)
    joined_checks: dict[str, tuple[InheritedCheck, ...]] = field(default_factory=dict)
    """Task → checks of others that it broke, and has to keep."""
    _promises: dict[str, CompletionPromise] | None = None

    def correlation(self, task_id: str) -> str:
        """What the envelope of a message says of its trace, as text; empty where nothing is traced."""
        if self.trace is None:
            return ""
        return f'"correlation":{{"trace_id":"{self.trace.trace_id_of(self.plan_id, task_id)}"}},'

    def spec(self, tx: Tx, task_id: str) -> TaskDefinition:
        """What is asked for in a task, and whose fate hangs on it."""
        found = self.specs.get(task_id)
        if found is not None:
            return found
        found = _submitted.get(self.dag_sha256, _NOBODY).get(task_id)
        if found is None:
            rows = tx.run(NODE, plan_id=self.plan_id, task_id=task_id)
            if not rows:
                raise MissingError(Code.TASK_NOT_FOUND, f"plan {self.plan_id!r} has no task {task_id!r}")
            data, wards, guards = rows[0]
            found = TaskDefinition(Node.model_validate_json(bytes(data)), _names(wards), _names(guards))
        if len(self.specs) >= _KEPT:
            self.specs.clear()
        self.specs[task_id] = found
        return found

    def node(self, tx: Tx, task_id: str) -> Node:
        """What is asked for in a task."""
        return self.spec(tx, task_id).node

    def promises(self, tx: Tx) -> dict[str, CompletionPromise]:
        """The promises of all tasks that work on the plan's repository, by their tasks. Read once for a revision."""
        if self._promises is None:
            nodes = [Node.model_validate_json(bytes(data)) for _, data in tx.run(NODES_OF, plan_id=self.plan_id)]
            self._promises = {
                node.task_id: node.promise
                for node in nodes
                if node.workspace == "repo" and node.promise is not None and node.promise.checks
            }
        return self._promises

    def other_promises(self, tx: Tx, task_id: str) -> dict[str, CompletionPromise]:
        """The same without one task's own."""
        return {name: each for name, each in self.promises(tx).items() if name != task_id}

    def promise(self, node: Node, score: float | None = None) -> CompletionPromise:
        """What done means for a task: its own promise, or the one that follows from its node. Its id stays the same.

        A score may make more outputs due.
        """
        return staleness.add_inherited_checks(self._own_promise(node, score), self.joined_checks.get(node.task_id, ()))

    def _own_promise(self, node: Node, score: float | None) -> CompletionPromise:
        if node.promise is not None and not promises.is_unnamed(node):
            return node.promise
        promise_id = self.promise_id(node.task_id)
        if node.promise is None:
            return done.derive_promise(node, promise_id=promise_id, score=score)
        return node.promise.model_copy(update={"id": promise_id})  # of a kind of its own, whose tasks no plan names

    def promise_id(self, task_id: str) -> str:
        """The id of a promise that has none of its own."""
        return promises.make_plan_promise_id(self.plan_id, task_id, self.began_ms)

    def profile(self, agent_id: str) -> AgentProfile:
        """How an agent is driven; one that nobody described is worked by hand."""
        known = self.profiles.get(agent_id)
        return known if known is not None else AgentProfile(agent_id=AgentId(agent_id))

    def receivers(self, output: Output) -> tuple[str, ...]:
        """Who gets an output."""
        if EVERYONE in output.deliver_to:
            return tuple(sorted(self.profiles))
        return tuple(dict.fromkeys(output.deliver_to))


def _names(data: Any) -> tuple[str, ...]:
    names: Any = wire.read(bytes(data)) if data is not None else ()
    return tuple(names)


class DefinitionCache:
    """The sheets of a board. Used by one thread at a time: the one that writes to the board."""

    def __init__(self, *, traced: bool = False) -> None:
        self._traced = traced
        self._known: dict[str, PlanDefinition] = {}

    def load(self, tx: Tx, plan_id: str) -> PlanDefinition:
        """The sheet of a plan."""
        known = self._known.get(plan_id)
        if known is None:
            known = read_definition(plan_id, tx.run(RUN, plan_id=plan_id)[0])
            [(manifest,)] = tx.run(PLAN_MANIFEST, plan_id=plan_id)
            if manifest:
                document = PlanManifest.model_validate_json(bytes(manifest))
                known.workspace, known.limits = document.workspace, document.limits
            if known.workspace is not None:  # where no tree is shared nobody breaks what others made
                known.joined_checks = read_joined_checks(tx.run(JOINED_CHECKS, plan_id=plan_id))
            if self._traced:
                known.trace = trace_of(tx, plan_id)
            self._known[plan_id] = known
        return known

    def forget(self, plan_id: str) -> None:
        """It was changed; read it again."""
        self._known.pop(plan_id, None)


def read_definition(plan_id: str, run: RunRow) -> PlanDefinition:
    """The sheet of a plan, from its row (the query `run`)."""
    policies, profiles = read_settings(bytes(run.settings))
    return PlanDefinition(
        plan_id,
        run.dag_sha256,
        run.revision or 1,
        policies,
        profiles,
        int(parse_instant(run.began_at).timestamp() * 1000),
    )


def read_joined_checks(rows: Sequence[JoinedCheckRow]) -> dict[str, tuple[InheritedCheck, ...]]:
    """The checks of others that tasks have to keep, from their rows (the query `joined_checks`)."""
    found: dict[str, tuple[InheritedCheck, ...]] = {}
    for task_id, owner, body in rows:
        check = _check().validate_json(bytes(body))
        found[task_id] = (*found.get(task_id, ()), InheritedCheck(owner, check))
    return found


@cache
def _check() -> TypeAdapter[AnyCheck]:
    """Built when it is needed first: it takes as long as a short command."""
    return TypeAdapter(AnyCheck)
