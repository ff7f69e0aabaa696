"""Computes the expected end of a plan: an interpreter without an engine, small enough to read beside the rules.

It is given the plan and, for each task, what its agent does at each attempt. It has no clock, no database and no
restarts: it goes over the tasks again and again until nothing more is decided.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from agenttalk.contracts.dag import Branch, ByMessageType, Input, Node, Output, TaskDag

SENT_BACK: Final = 2
"""How often an agent is asked again for a score."""
ENGINE_ENDS: Final = 3
"""Deaths of the engine over one task after which a person looks at it."""
POLICIES: Final = {
    "SKIP": "SKIPPED",
    "BLOCK": "BLOCKED_WAITING_REVIEW",
    "REPLAN_REQUEST": "BLOCKED_WAITING_HUMAN",
    "FALLBACK": "BLOCKED_WAITING_REVIEW",  # no fallback is left
}
COMPARE: Final = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
Edge = Literal["open", "fine", "failed"]
"""What a dependency means to the task that waits for it."""


@dataclass(frozen=True)
class Try:
    """What an agent does at one attempt."""

    how: Literal["finished", "crashed", "timeout"] = "finished"
    said: str = "ok"
    score: float | None = None
    made: tuple[str, ...] = ()
    """Outputs that it leaves."""


@dataclass(frozen=True)
class Fate:
    """What became of a task."""

    state: str = "PENDING"
    retries: int = 0
    reexecutions: int = 0
    attempts: int = 0
    lost: bool = False
    """Whether it counts as failed for those that depend on it."""
    score: float | None = None
    made: frozenset[str] = frozenset()
    activates: tuple[str, ...] = ()

    @property
    def edge(self) -> Edge:
        if self.state not in {"COMPLETED", "FAILED", "SKIPPED"}:
            return "open"
        return "failed" if self.lost else "fine"


Scripts = Mapping[str, Sequence[Try]]
"""Task → its attempts; the last one is done again and again."""


@dataclass
class Reference:
    """The interpreter."""

    dag: TaskDag
    scripts: Scripts
    rounds: int = 3
    """Rounds of rework, where a task says nothing."""
    fates: dict[str, Fate] = field(default_factory=dict)

    def interpret(self) -> dict[str, Fate]:
        """The fate of every task."""
        while sum(self._looked_at(node) for node in self.dag.nodes):
            pass
        return {node.task_id: self.fates.get(node.task_id, Fate()) for node in self.dag.nodes}

    def result(self) -> str:
        """The fate of the plan."""
        fates = self.interpret().values()
        if any(fate.lost for fate in fates):
            return "failed"
        return "waiting" if any(fate.edge == "open" for fate in fates) else "done"

    def _looked_at(self, node: Node) -> bool:
        fate = None if node.task_id in self.fates else self._decided(node)
        if fate is not None:
            self.fates[node.task_id] = fate
        return fate is not None

    def _decided(self, node: Node) -> Fate | None:
        edges = [self._edge(node, each) for each in node.depends_on]
        if "failed" in edges:
            state = POLICIES[node.failure_policy.on_dependency_failed if node.failure_policy else "BLOCK"]
            return Fate(state, lost=state == "SKIPPED")
        guards = self._guards(node.task_id)
        if guards and not any(self._calls_for(each, node.task_id) for each in guards):
            return None if any(self._now(each.task_id) == "open" for each in guards) else Fate("SKIPPED")
        if "open" in edges:
            return None
        return self._blocked(node) or self._worked(node)

    # Dependencies.

    def _now(self, task_id: str) -> Edge:
        return self.fates.get(task_id, Fate()).edge

    def _edge(self, node: Node, dependency: str) -> Edge:
        if self._now(dependency) == "failed":
            spare = self._spare(node, dependency)
            return "failed" if spare is None else self._now(spare)
        return self._now(dependency)

    def _spare(self, node: Node, failed: str) -> str | None:
        """The task that takes the place of a failed one: its own fallback, or one that another task named."""
        own = _fallback(node)
        if own is not None:
            return own
        named = (_fallback(each) for each in self.dag.nodes if failed in each.depends_on)
        return next((each for each in named if each not in {None, node.task_id}), None)

    def _guards(self, task_id: str) -> list[Node]:
        """Tasks that decide whether another runs: by a branch, or by failing."""
        replaced = {before for node in self.dag.nodes if _fallback(node) == task_id for before in node.depends_on}
        return [
            node
            for node in self.dag.nodes
            if node.task_id in replaced or any(task_id in branch.activate for branch in _branches(node))
        ]

    def _calls_for(self, guard: Node, task_id: str) -> bool:
        if task_id in self.fates.get(guard.task_id, Fate()).activates:
            return True
        dependants = [node for node in self.dag.nodes if guard.task_id in node.depends_on]
        return self._now(guard.task_id) == "failed" and any(_fallback(node) == task_id for node in dependants)

    # Inputs.

    def _blocked(self, node: Node) -> Fate | None:
        sources: dict[str, None] = dict.fromkeys(node.depends_on)
        for each in node.depends_on:
            spare = self._spare(node, each) if self._now(each) == "failed" else None
            sources |= {spare: None} if spare else {}
        there = [(each, name) for each in sources for name in sorted(self.fates[each].made)]
        found = [(need, [each for each in there if _means(need, each[1])]) for need in node.inputs]
        filled = [(need, matches) for need, matches in found if len(matches) >= (need.min_count or 1)]
        if len(filled) < len(found) and any(need.required and (need, each) not in filled for need, each in found):
            return Fate("BLOCKED_WAITING_INPUT")
        if any(self._unclear(need, [task for task, _ in matches]) for need, matches in filled):
            return Fate("BLOCKED_WAITING_HUMAN")
        return None

    def _unclear(self, need: Input, makers: Sequence[str]) -> bool:
        """Whether nothing says which of several is meant. Only scores are compared here."""
        if need.policy != "highest_score":
            assert need.policy == "all" or len(makers) == 1, "the order of deliveries would decide"
            return False
        scores = [self.fates[each].score for each in makers]
        known = [each for each in scores if each is not None]
        return len(known) < len(scores) or known.count(max(known)) > 1

    # Work.

    def _worked(self, node: Node) -> Fate:
        most = node.failure_policy.max_reexecute_times if node.failure_policy else None
        left = {"retries": node.retry_times or 0, "rounds": self.rounds if most is None else most, "asked": SENT_BACK}
        given = dict(left)
        for number, each in enumerate(_endless(self.scripts[node.task_id]), 1):
            short = _short_of(node, each)
            counts: dict[str, Any] = {
                "retries": given["retries"] - left["retries"],
                "reexecutions": given["rounds"] - left["rounds"],
                "attempts": number,
            }
            if short is None:
                return self._finished(node, each, counts)
            if not left[short]:
                return Fate("FAILED", lost=True, **counts)
            left[short] -= 1
        raise AssertionError("scripts do not end")

    def _finished(self, node: Node, each: Try, counts: dict[str, Any]) -> Fate:
        made = frozenset(output.name for output in _meant(node, each.score) if output.name in each.made)
        branch = next((branch for branch in _branches(node) if _holds(branch.when, each.score)), None)
        if branch is not None:
            return Fate("COMPLETED", score=each.score, made=made, activates=tuple(branch.activate), **counts)
        scores = {node.task_id: each.score} | {
            task_id: fate.score for task_id, fate in self.fates.items() if fate.state == "COMPLETED"
        }
        least = node.gates.thresholds if node.gates and node.gates.required else {}
        reached = [(scores.get(name.removesuffix("_min_score")), wanted) for name, wanted in least.items()]
        met = all(score is not None and score >= wanted for score, wanted in reached)
        return Fate("COMPLETED" if met else "BLOCKED_WAITING_REVIEW", score=each.score, made=made, **counts)


def _fallback(node: Node) -> str | None:
    policy = node.failure_policy
    return policy.fallback_task_id if policy and policy.on_dependency_failed == "FALLBACK" else None


def _branches(node: Node) -> Sequence[Branch]:
    return node.gates.branches if node.gates else ()


def _means(need: Input, name: str) -> bool:
    selector = need.selector
    assert not isinstance(selector, ByMessageType)
    return fnmatchcase(name, selector.value) if selector.type == "by_glob" else name == selector.value


def _meant(node: Node, score: float | None) -> list[Output]:
    """The outputs that a score chooses."""
    return [output for output in node.outputs if output.when is None or _holds(output.when, score)]


def _short_of(node: Node, each: Try) -> Literal["retries", "asked", "rounds"] | None:
    """What is needed for another attempt; None when this one is good enough."""
    if each.how != "finished":
        return "retries"
    if node.score_required and (each.score is None or not 0 <= each.score <= 100):
        return "asked"
    due = {output.name for output in _meant(node, each.score) if not output.optional}
    always = {output.name for output in node.outputs if not output.optional and output.when is None}
    return None if due <= set(each.made) and (always or each.said) else "rounds"


def _holds(condition: str, score: float | None) -> bool:
    _, sign, number = condition.split()
    return score is not None and COMPARE[sign](score, float(number))


def _endless(script: Sequence[Try]) -> Iterator[Try]:
    yield from script
    while True:
        yield script[-1]
