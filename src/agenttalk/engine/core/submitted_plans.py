"""Keeps submitted plans for later steps of the same process, so that nothing is read back that was just written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from agenttalk.contracts.core import root_layout, wire

if TYPE_CHECKING:  # commands that submit nothing load this, too
    from agenttalk.contracts.agent import AgentProfile
    from agenttalk.contracts.dag import Node, TaskDag
    from agenttalk.contracts.plan import Policies

KEPT_TASKS: Final = 20_000
"""Tasks that are kept in memory."""


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """A task as its plan defines it."""

    node: Node
    conditional_tasks: tuple[str, ...] = ()
    """Tasks that run only if this one activates them, by a branch or by failing."""
    activators: tuple[str, ...] = ()
    """Tasks that can activate this one."""
    last: bool = False
    """Whether it is known that no task ever waits for it."""
    followers: tuple[str, ...] = ()
    """All tasks that wait for it, if it is known that each of them waits for nothing else."""


@dataclass(frozen=True, slots=True)
class TaskLinks:
    """The links between tasks: those that activate another, by a branch or by failing, and those that wait for one."""

    conditional_tasks: dict[str, list[str]]
    activators: dict[str, list[str]]
    dependants: dict[str, list[str]]

    @classmethod
    def from_dag(cls, dag: TaskDag) -> TaskLinks:
        """Collect the links of a DAG in all directions."""
        conditional_tasks: defaultdict[str, list[str]] = defaultdict(list)
        dependants: defaultdict[str, list[str]] = defaultdict(list)
        for node in dag.nodes:
            for dependency in node.depends_on:
                dependants[dependency].append(node.task_id)
            for branch in node.gates.branches if node.gates else ():
                conditional_tasks[node.task_id] += branch.activate
            if node.failure_policy and node.failure_policy.fallback_task_id:
                for dependency in node.depends_on:
                    conditional_tasks[dependency].append(node.failure_policy.fallback_task_id)
        activators: defaultdict[str, list[str]] = defaultdict(list)
        for activator, tasks in conditional_tasks.items():
            conditional_tasks[activator] = list(dict.fromkeys(tasks))
            for task_id in conditional_tasks[activator]:
                activators[task_id].append(activator)
        return cls(dict(conditional_tasks), dict(activators), dict(dependants))


@dataclass(frozen=True, slots=True)
class PlanTeam:
    """The policies and agents of a plan, and the texts that are written of them."""

    policies: Policies
    profiles: dict[str, AgentProfile]
    settings: bytes
    """The data in the row of the plan's run."""
    shown: str
    """Files to be shown: pairs of path and text, as they stand inside a JSON object."""

    @classmethod
    def from_profiles(cls, policies: Policies, profiles: Mapping[str, AgentProfile]) -> PlanTeam:
        """Write the texts of policies and agents."""
        from agenttalk.engine.core.plan_settings import encode_settings

        shown = {
            f"{root_layout.agent_folder(agent_id)}/{root_layout.PROFILE}": f"{profile.as_text()}\n"
            for agent_id, profile in profiles.items()
        }
        known = dict(profiles)
        return cls(policies, known, encode_settings(policies, known), wire.to_text(shown)[1:-1])

    def is_of(self, policies: Policies, profiles: Mapping[str, AgentProfile]) -> bool:
        """Whether nothing has changed: the profiles are the same objects, which never change."""
        same = len(profiles) == len(self.profiles) and policies == self.policies
        return same and all(self.profiles.get(name) is profile for name, profile in profiles.items())


@dataclass(slots=True)
class SubmittedPlans:
    """The tasks of plans that this process submitted lately, by the hash of their DAG, and the last plan's team."""

    _tasks: dict[str, dict[str, TaskDefinition]] = field(default_factory=dict)
    _count: int = 0
    """How many tasks these are."""
    _team: PlanTeam | None = None

    def find_tasks(self, dag_sha256: str) -> Mapping[str, TaskDefinition]:
        """Return the tasks of a DAG; none if they are not known."""
        return self._tasks.get(dag_sha256, {})

    def keep_tasks(self, dag_sha256: str, nodes: Sequence[Node], links: TaskLinks) -> None:
        """Keep the tasks of a DAG that is being submitted, unless they are too many."""
        if dag_sha256 in self._tasks or len(nodes) > KEPT_TASKS:
            return
        self._count += len(nodes)
        if self._count > KEPT_TASKS:
            self._tasks.clear()
            self._count = len(nodes)
        tasks = self._tasks[dag_sha256] = {}
        alone = {node.task_id for node in nodes if len(node.depends_on) == 1 and node.task_id not in links.activators}
        for node in nodes:
            task_id = node.task_id
            # A conditional task may stand in for another one: then tasks wait for it that do not depend on it.
            known = task_id not in links.activators
            dependants = links.dependants.get(task_id, ())
            tasks[task_id] = TaskDefinition(
                node,
                tuple(links.conditional_tasks.get(task_id, ())),
                tuple(links.activators.get(task_id, ())),
                last=known and not dependants,
                followers=tuple(dependants) if known and alone.issuperset(dependants) else (),
            )

    def make_team(self, policies: Policies, profiles: Mapping[str, AgentProfile]) -> PlanTeam:
        """Return the team of a plan. The next plan often has the very same one, whose texts are not written again."""
        team = self._team
        if team is None or not team.is_of(policies, profiles):
            team = self._team = PlanTeam.from_profiles(policies, profiles)
        return team
