"""The definition of a plan: its nodes, its agents and its policies, which do not change while a revision of it runs.

It is read once and kept, because every step of a plan needs it. A new revision of the DAG makes a new definition.
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
from agenttalk.engine.core.submitted_plans import KEPT_TASKS, SubmittedPlans, TaskDefinition
from agenttalk.engine.core.trace_context import Trace, trace_of
from agenttalk.ports.statements.messages import PLAN_MANIFEST
from agenttalk.ports.statements.plans import NODE, NODES_OF, RUN, RunRow
from agenttalk.ports.statements.proof import JOINED_CHECKS, JoinedCheckRow
from agenttalk.ports.storage import Snapshot, Tx
from agenttalk.rules.commands import promises
from agenttalk.rules.core.isolation import IsolationSettings
from agenttalk.rules.proof import done, staleness
from agenttalk.rules.proof.staleness import InheritedCheck

_KEPT_PROFILES: Final = 10_000
"""Profiles of agents that are kept in memory."""


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
    """The usage that its tasks may have together."""
    trace: Trace | None = None
    """The trace that its messages belong to, if a tracing system gets its spans."""
    submitted: Mapping[str, TaskDefinition] = field(default_factory=dict)
    """Its tasks as this process submitted them, if it did so lately."""
    specs: dict[str, TaskDefinition] = field(default_factory=dict)
    """Tasks that were needed before."""
    joined_checks: dict[str, tuple[InheritedCheck, ...]] = field(default_factory=dict)
    """Task → checks of other tasks that it broke, and has to keep."""
    _promises: dict[str, CompletionPromise] | None = None
    confined: dict[str, tuple[AgentProfile, IsolationSettings, AgentProfile]] = field(default_factory=dict)
    """Agent → its profile as submitted, the operator's settings, and its profile under them. Plans may share it."""

    def correlation(self, task_id: str) -> str:
        """Write the part of a message's envelope that names its trace; empty where nothing is traced."""
        if self.trace is None:
            return ""
        return f'"correlation":{{"trace_id":"{self.trace.trace_id_of(self.plan_id, task_id)}"}},'

    def spec(self, tx: Snapshot, task_id: str) -> TaskDefinition:
        """Return a task with its links to conditional tasks."""
        spec = self.specs.get(task_id)
        if spec is not None:
            return spec
        spec = self.submitted.get(task_id)
        if spec is None:
            rows = tx.run(NODE, plan_id=self.plan_id, task_id=task_id)
            if not rows:
                raise MissingError(Code.TASK_NOT_FOUND, f"plan {self.plan_id!r} has no task {task_id!r}")
            data, conditional_tasks, activators = rows[0]
            node = Node.model_validate_json(bytes(data))
            spec = TaskDefinition(node, _read_names(conditional_tasks), _read_names(activators))
        if len(self.specs) >= KEPT_TASKS:
            self.specs.clear()
        self.specs[task_id] = spec
        return spec

    def node(self, tx: Snapshot, task_id: str) -> Node:
        """Return the node of a task."""
        spec = self.specs.get(task_id)
        return spec.node if spec is not None else self.spec(tx, task_id).node

    def promises(self, tx: Snapshot) -> dict[str, CompletionPromise]:
        """Map the tasks that work on the plan's repository to their promises. They are read once for a revision."""
        if self._promises is None:
            nodes = [Node.model_validate_json(bytes(data)) for _, data in tx.run(NODES_OF, plan_id=self.plan_id)]
            self._promises = {
                node.task_id: node.promise
                for node in nodes
                if node.workspace == "repo" and node.promise is not None and node.promise.checks
            }
        return self._promises

    def other_promises(self, tx: Snapshot, task_id: str) -> dict[str, CompletionPromise]:
        """Return the same without one task's own."""
        return {name: promise for name, promise in self.promises(tx).items() if name != task_id}

    def promise(self, node: Node, score: float | None = None) -> CompletionPromise:
        """Return a task's promise: its own, or the one that follows from its node. Its id stays the same.

        A score may make more outputs due.
        """
        return staleness.add_inherited_checks(self._own_promise(node, score), self.joined_checks.get(node.task_id, ()))

    def _own_promise(self, node: Node, score: float | None) -> CompletionPromise:
        if node.promise is not None and not promises.is_unnamed(node):
            return node.promise
        promise_id = self.promise_id(node.task_id)
        if node.promise is None:
            return done.derive_promise(node, promise_id=promise_id, score=score)
        return node.promise.model_copy(update={"id": promise_id})  # a task of a board, which no plan file names

    def promise_id(self, task_id: str) -> str:
        """Make the id of a promise that was submitted without one."""
        return promises.make_plan_promise_id(self.plan_id, task_id, self.began_ms)

    def profile(self, agent_id: str) -> AgentProfile:
        """Return the profile of an agent; one without a profile works in its folder."""
        profile = self.profiles.get(agent_id)
        return profile if profile is not None else AgentProfile(agent_id=AgentId(agent_id))

    def confined_profile(self, agent_id: str, settings: IsolationSettings) -> AgentProfile:
        """Return the profile of an agent with the sandbox that the operator's settings give it."""
        profile = self.profile(agent_id)
        known = self.confined.get(agent_id)
        if known is None or known[0] is not profile or known[1] is not settings:
            if len(self.confined) >= _KEPT_PROFILES:
                self.confined.clear()
            known = self.confined[agent_id] = (profile, settings, settings.apply_to(profile))
        return known[2]

    def receivers(self, output: Output) -> tuple[str, ...]:
        """List the agents that get an output."""
        if EVERYONE in output.deliver_to:
            return tuple(sorted(self.profiles))
        return tuple(dict.fromkeys(output.deliver_to))


def _read_names(data: Any) -> tuple[str, ...]:
    names: Any = wire.read(bytes(data)) if data is not None else ()
    return tuple(names)


class DefinitionCache:
    """The definitions of a board's plans. One thread uses it: the one that writes to the board."""

    def __init__(self, submitted: SubmittedPlans | None = None, *, traced: bool = False) -> None:
        self._submitted = submitted or SubmittedPlans()
        self._traced = traced
        self._definitions: dict[str, PlanDefinition] = {}
        self._confined: dict[str, tuple[AgentProfile, IsolationSettings, AgentProfile]] = {}
        """Profiles under the operator's settings: the next plan often has the very same agents."""

    def load(self, tx: Tx, plan_id: str) -> PlanDefinition:
        """Return the definition of a plan."""
        definition = self._definitions.get(plan_id)
        if definition is None:
            definition = read_plan(tx, plan_id)
            definition.submitted = self._submitted.find_tasks(definition.dag_sha256)
            definition.trace = trace_of(tx, plan_id) if self._traced else None
            definition.confined = self._confined
            self._definitions[plan_id] = definition
        return definition

    def forget(self, plan_id: str) -> None:
        """Have a definition that changed read again."""
        self._definitions.pop(plan_id, None)


def read_plan(committed: Snapshot, plan_id: str) -> PlanDefinition:
    """Read the definition of a plan, without its trace."""
    [run] = committed.run(RUN, plan_id=plan_id)
    [(data,)] = committed.run(PLAN_MANIFEST, plan_id=plan_id)
    manifest = PlanManifest.model_validate_json(bytes(data)) if data else None
    workspace = manifest.workspace if manifest else None
    # Only tasks that share a repository can break what others made.
    joined = committed.run(JOINED_CHECKS, plan_id=plan_id) if workspace is not None else []
    return read_definition(plan_id, run, joined, workspace, manifest.limits if manifest else None)


def read_definition(
    plan_id: str,
    run: RunRow,
    joined: Sequence[JoinedCheckRow] = (),
    workspace: Workspace | None = None,
    limits: PlanLimits | None = None,
) -> PlanDefinition:
    """Read the definition of a plan from the row of its run, and the checks of others that its tasks have to keep."""
    policies, profiles = read_settings(bytes(run.settings))
    return PlanDefinition(
        plan_id,
        run.dag_sha256,
        run.revision or 1,
        policies,
        profiles,
        int(parse_instant(run.began_at).timestamp() * 1000),
        workspace,
        limits,
        joined_checks=_read_joined_checks(joined),
    )


def _read_joined_checks(rows: Sequence[JoinedCheckRow]) -> dict[str, tuple[InheritedCheck, ...]]:
    checks: dict[str, tuple[InheritedCheck, ...]] = {}
    for task_id, owner, body in rows:
        check = _check_type().validate_json(bytes(body))
        checks[task_id] = (*checks.get(task_id, ()), InheritedCheck(owner, check))
    return checks


@cache
def _check_type() -> TypeAdapter[AnyCheck]:
    """Build the type when it is needed first, because that takes as long as a short command."""
    return TypeAdapter(AnyCheck)
