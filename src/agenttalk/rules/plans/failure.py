"""What follows for the dependants of a task that failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from agenttalk.contracts.dag import Node
from agenttalk.rules.core.task_states import FINAL, Cause, State

DependencyStanding = Literal["open", "fine", "failed"]
"""What a dependency means to those that wait for it."""


@dataclass(frozen=True, slots=True)
class SkipConsequence:
    """The dependant is skipped."""


@dataclass(frozen=True, slots=True)
class BlockConsequence:
    """The dependant waits for a reviewer."""


@dataclass(frozen=True, slots=True)
class ReplanConsequence:
    """A new plan is asked for, and the dependant waits for a person."""


@dataclass(frozen=True, slots=True)
class FallbackConsequence:
    """Another task takes the place of the failed task."""

    task_id: str


Consequence = SkipConsequence | BlockConsequence | ReplanConsequence | FallbackConsequence


def decide_consequence(node: Node, failed: str) -> Consequence:
    """Decide what a task does when a dependency has failed. Without a policy it blocks.

    A fallback that is not named, is the failed task or the task itself cannot stand in: that blocks too.
    """
    policy = node.failure_policy
    match policy.on_dependency_failed if policy else "BLOCK":
        case "SKIP":
            return SkipConsequence()
        case "REPLAN_REQUEST":
            return ReplanConsequence()
        case "FALLBACK" if policy and policy.fallback_task_id not in {None, failed, node.task_id}:
            return FallbackConsequence(str(policy.fallback_task_id))
    return BlockConsequence()


def decide_consequences(dependants: Iterable[Node], failed: str) -> dict[str, Consequence]:
    """Decide what each task does that depends on a failed one.

    A fallback takes the failed task's place on every edge, so it also serves dependants that would have
    skipped or blocked. One that names its own fallback gets that one, the others get the first named.
    """
    alone: dict[str, Consequence] = {
        node.task_id: decide_consequence(node, failed) for node in dependants if failed in node.depends_on
    }
    fallback = next((each for each in alone.values() if isinstance(each, FallbackConsequence)), None)
    if fallback is None:
        return alone
    return {
        task_id: own if isinstance(own, FallbackConsequence) or task_id == fallback.task_id else fallback
        for task_id, own in alone.items()
    }


def is_race_lost(state: State, others: Collection[State]) -> bool:
    """Whether a task of a race that comes to a state is out: another is completed, or it failed and others go on."""
    return "COMPLETED" in others or (state == "FAILED" and any(other not in FINAL for other in others))


def judge_dependency(state: State, cause: Cause | None) -> DependencyStanding:
    """Judge what a dependency means to its dependants, from its state and the cause of that state.

    A task that was skipped because something failed brings nothing either, so that counts as failed. A branch
    not taken, an unused fallback and a task removed from the plan are fine.
    """
    if state not in FINAL:
        return "open"
    if state == "FAILED" or (state == "SKIPPED" and cause == "DEPENDENCY_SKIP"):
        return "failed"
    return "fine"
