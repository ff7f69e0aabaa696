"""Gates of a task: scores, branches, and which outputs a score makes due."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from agenttalk.contracts.dag import CONDITION_PATTERN, Gates, Node, Output
from agenttalk.rules.text import verdict_words

MIN_SCORE: Final = "_min_score"
"""A threshold is named `<task_id>_min_score`."""
_CONDITION = re.compile(CONDITION_PATTERN.replace("$", r"\Z"))
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class ScoreGateResult:
    """Whether a task may count as completed, and where its score leads."""

    met: bool
    branch: int | None = None
    """Place of the branch that was taken."""
    activate: tuple[str, ...] = ()
    """Tasks that the branch lets run."""
    unmet: tuple[str, ...] = ()
    """What is not met, in words; also said of a gate that need not be met."""


def holds(condition: str, score: float | None) -> bool:
    """Whether a condition such as `score < 70` holds. Without a score, or without sense, nothing holds."""
    said = _CONDITION.match(condition)
    if said is None or score is None or not _is_finite(score):
        return False
    return _COMPARE[said[1]](score, float(said[2]))


def judge_gates(node: Node, *, scores: Mapping[str, float | None], evidence: Collection[str]) -> ScoreGateResult:
    """Judge a task's gates by the scores of tasks and the existing documents.

    The first branch whose condition holds answers the gate, also when other conditions are unmet.
    """
    gates = node.gates
    if gates is None:
        return ScoreGateResult(met=True)
    own = scores.get(node.task_id)
    for at, branch in enumerate(gates.branches):
        if holds(branch.when, own):
            return ScoreGateResult(met=True, branch=at, activate=tuple(branch.activate))
    unmet = (*_thresholds(gates, scores), *_evidence(gates, evidence))
    return ScoreGateResult(met=not unmet or not gates.required, unmet=unmet)


def due_outputs(node: Node, score: float | None) -> tuple[Output, ...]:
    """List the outputs that must exist: no optional ones, and conditional ones only where the score requires them."""
    return tuple(
        output for output in node.outputs if not output.optional and (output.when is None or holds(output.when, score))
    )


def possible_outputs(node: Node) -> tuple[Output, ...]:
    """List the outputs that may exist: optional and conditional ones."""
    return tuple(output for output in node.outputs if output.optional or output.when is not None)


def _is_finite(score: float) -> bool:
    return -math.inf < score < math.inf


def _thresholds(gates: Gates, scores: Mapping[str, float | None]) -> Iterator[str]:
    for name, least in gates.thresholds.items():
        task_id = name.removesuffix(MIN_SCORE)
        if not task_id or task_id == name:
            yield verdict_words.UNKNOWN_THRESHOLD(name=name, suffix=MIN_SCORE)
            continue
        score = scores.get(task_id)
        if score is None or not _is_finite(score):
            yield verdict_words.NO_SCORE(name=task_id, least=least)
        elif score < least:
            yield verdict_words.LOW_SCORE(name=task_id, score=score, least=least)


def _evidence(gates: Gates, evidence: Collection[str]) -> Iterator[str]:
    for name in gates.evidence_required:
        if name not in evidence:
            yield verdict_words.NO_DOCUMENT(name=name)
