"""Sending work back: what a consumer's judgement of an input is worth, and when another round makes no sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from agenttalk.contracts import wire
from agenttalk.contracts.base import Many, Score
from agenttalk.contracts.command import ValidationCriteria
from agenttalk.contracts.validation import Issue
from agenttalk.rules import media
from agenttalk.rules.checks import Confirmation

FEEDBACK: Final = "validation_feedback.json"
_TYPES: Final = {"json": "application/json", "text": "text/plain", "markdown": "text/markdown", "csv": "text/csv"}
_ISSUES: Final = TypeAdapter(Many[Issue])
_SCORE: Final = TypeAdapter(Score)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What somebody says of an input."""

    accepted: bool
    score: float
    reason: str
    issues: tuple[Issue, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For documents and the ledger."""
        return {
            "decision": "ACCEPT" if self.accepted else "REJECT",
            "score": self.score,
            "reason": self.reason,
            "issues": [issue.as_json() for issue in self.issues],
        }


def format_faults(criteria: ValidationCriteria, files: Mapping[str, bytes]) -> list[str]:
    """Files that are not of the format asked for, and why."""
    wanted = _TYPES.get((criteria.format or "").strip().lower(), criteria.format or "")
    found = {path: media.misfit(wanted, data) for path, data in files.items()} if "/" in wanted else {}
    return [f"{path} {why}" for path, why in found.items() if why is not None]


def wants_judgement(criteria: ValidationCriteria) -> bool:
    """Whether a machine alone cannot tell."""
    return criteria.quality_threshold is not None or criteria.completeness is not None


def refused(faults: Sequence[str]) -> Judgement:
    """What a machine found wrong."""
    issues = tuple(Issue(severity="HIGH", category="FORMAT", description=each) for each in faults)
    return Judgement(False, 0, faults[0], issues)


def judged(criteria: ValidationCriteria, said: object) -> Judgement | None:
    """A consumer's judgement, held against what was asked for; None when it is none. Not saying ACCEPT is a refusal."""
    if not isinstance(said, Mapping):
        return None
    try:
        score = _SCORE.validate_python(said.get("score"))
        issues = _ISSUES.validate_python(said.get("issues") or ())
    except ValidationError:
        return None
    reason = said.get("reason")
    enough = criteria.quality_threshold is None or score >= criteria.quality_threshold
    accepted = said.get("decision") == "ACCEPT" and enough
    if not isinstance(reason, str) or not reason.strip():
        reason = "it is as asked for" if accepted else "it is not good enough"
    if said.get("decision") == "ACCEPT" and not enough:
        reason = f"{reason} (it scores {score:g}, and {criteria.quality_threshold:g} is asked for)"
    return Judgement(accepted, score, reason, tuple(issues))


def by_person(said: Confirmation) -> Judgement:
    """What a person says of an input."""
    if said.approved:
        return Judgement(True, 100, f"{said.by} finds it good enough")
    reason = f"{said.by} does not find it good enough"
    return Judgement(False, 0, reason, (Issue(severity="HIGH", description=reason),))


def fingerprint(issues: Sequence[Issue]) -> str:
    """Tells whether two sets of issues are the same, however they are ordered and spaced."""
    told = {
        " ".join(f"{each.category or ''} {each.location or ''} {each.description}".lower().split()) for each in issues
    }
    return wire.sha256(wire.write(sorted(told)))


def another_round(earlier: Sequence[str], now: str, *, used: int, most: int) -> Literal["yes", "stuck", "limit"]:
    """Whether work is sent back once more. The same issues again, unchanged, mean that it does not get anywhere."""
    if earlier and earlier[-1] == now:
        return "stuck"
    return "yes" if used < most else "limit"
