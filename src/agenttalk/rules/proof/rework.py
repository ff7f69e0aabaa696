"""Sending work back: what a consumer's judgement of an input is worth, and when another round makes no sense."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypedDict

from pydantic import TypeAdapter, ValidationError

from agenttalk.contracts.command import Command, Reexecution, ResolvedInput, ValidationCriteria
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import Many, Score, write_time
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.promise import CompletionPromise, Trust
from agenttalk.contracts.validation import Expectations, Issue, IssueSeverity, ValidationFeedback
from agenttalk.rules.core import media_types
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.evidence import Confirmation
from agenttalk.rules.text import catalogue, verdict_words
from agenttalk.rules.text.message import WHAT_IS, Message

CONFLICT: Final = "conflict"
"""The category of the issue that others had changed the same meanwhile."""
SCOPE: Final = "scope"
"""The category of issues about what the work may touch."""
FEEDBACK: Final = "validation_feedback.json"
"""The file that says why work came back."""
FEEDBACK_INPUT: Final = "validation_feedback"
PREVIOUS_INPUT: Final = "previous_output"
PATCH: Final = "attempt.patch"
"""The previous attempt at a repository, when it does not merge with what others did meanwhile."""
EXTRAS: Final = frozenset({FEEDBACK_INPUT, PREVIOUS_INPUT})
"""Inputs that a re-execution gets besides its own."""
_ADDS: Final = frozenset({"completeness", "missing", "coverage"})
"""Categories of issues that ask for something to be added."""
_PROMPT: Final = 4_000
"""Characters of a validator's own words that are passed on."""
_CHANGING: Final = (
    re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?[\d.,:Z+]*"),
    re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"),
    re.compile(r"\b0x[0-9a-fA-F]+\b"),
    re.compile(r"/(?:sealed[/-]|tmp/)[\w-]+"),
    re.compile(r"\b\d+(?:\.\d+)?\s*(?:ns|us|\u00b5s|ms|s|sec|secs|second|seconds)\b"),
)
"""What programs print and is another each time: times, addresses, temporary folders, durations."""
_TYPES: Final = {"json": "application/json", "text": "text/plain", "markdown": "text/markdown", "csv": "text/csv"}


RoundAnswer = Literal["yes", "stuck", "limit"]
"""Whether there is another round: yes, no because the same came back, no because all are used up."""


class IssueRecord(TypedDict):
    """An issue as documents and the ledger have it."""

    severity: IssueSeverity
    category: NotRequired[str | None]
    description: str
    description_message: NotRequired[Any]
    location: NotRequired[str | None]
    suggestion: NotRequired[str | None]


class JudgementRecord(TypedDict):
    """A judgement, as documents and the ledger have it."""

    decision: str
    score: float
    reason: str
    reason_message: NotRequired[Any]
    issues: list[IssueRecord]
    expectations: NotRequired[JsonObject]
    prompt: NotRequired[str]
    unusable: NotRequired[int]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A validator's judgement of an input."""

    accepted: bool
    score: float
    reason: str
    issues: tuple[Issue, ...] = ()
    expectations: Expectations | None = None
    """What the next version should have."""
    prompt: str | None = None
    """What its maker is asked for, in the validator's own words."""
    unusable: int = 0
    """How many answers of its user before could not be read as a judgement: then a person judged."""

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Judgement:
        """Read the JSON of `as_json`."""
        wanted = said.get("expectations")
        return cls(
            said["decision"] == "ACCEPT",
            said["score"],
            catalogue.read_text(said, "reason"),
            tuple(_readers().issues.validate_python(said["issues"])),
            None if wanted is None else _readers().expectations.validate_python(wanted),
            said.get("prompt"),
            said.get("unusable", 0),
        )

    def as_json(self) -> JudgementRecord:
        """Return the judgement as JSON, for documents and the ledger."""
        told: JudgementRecord = {
            "decision": "ACCEPT" if self.accepted else "REJECT",
            "score": self.score,
            "reason": str(self.reason),
            "issues": _issues_to_json(self.issues),
        }
        if isinstance(self.reason, Message):
            told["reason_message"] = catalogue.to_json(self.reason)
        if self.expectations is not None:
            told["expectations"] = self.expectations.as_json()
        if self.prompt is not None:
            told["prompt"] = self.prompt
        if self.unusable:
            told["unusable"] = self.unusable
        return told

    def as_result(self, validator: str) -> dict[str, Any]:
        """Return the `validation_result` of a re-execution command."""
        told = {key: value for key, value in self.as_json().items() if key not in {"decision", "unusable"}}
        return {"validator": validator, **told}


def _issues_to_json(issues: Sequence[Issue]) -> list[IssueRecord]:
    found: list[Any] = [issue.as_json() for issue in issues]
    return found


def is_after_conflict(command: Command) -> bool:
    """Whether a task is done again because others had changed the same meanwhile."""
    again = command.reexecute
    return again is not None and any(each.category == CONFLICT for each in again.validation_result.issues)


def find_format_faults(criteria: ValidationCriteria, files: Mapping[str, bytes]) -> list[str]:
    """Files that are not of the format asked for, and why."""
    wanted = _TYPES.get((criteria.format or "").strip().lower(), criteria.format or "")
    found = {path: media_types.explain_mismatch(wanted, data) for path, data in files.items()} if "/" in wanted else {}
    return [WHAT_IS(subject=path, what=why) for path, why in found.items() if why is not None]


def wants_judgement(criteria: ValidationCriteria) -> bool:
    """Whether a machine alone cannot tell."""
    return criteria.quality_threshold is not None or criteria.completeness is not None


def make_issue(text: str, category: str | None = None, severity: IssueSeverity = "HIGH") -> Issue:
    """Make an issue. Beside a text that is a message stands the message."""
    message = catalogue.to_json(text) if isinstance(text, Message) else None
    return Issue(severity=severity, category=category, description=text, description_message=message)


def make_refusal(faults: Sequence[str], category: str = "FORMAT") -> Judgement:
    """Make a refusal of the faults that a program found."""
    issues = tuple(make_issue(fault, category) for fault in faults)
    return Judgement(False, 0, faults[0], issues)


def read_judgement(criteria: ValidationCriteria, said: object) -> Judgement | None:
    """Read a consumer's judgement by the criteria; None if unreadable. Every other than ACCEPT is a refusal."""
    if not isinstance(said, Mapping):
        return None
    try:
        score = _readers().score.validate_python(said.get("score"))
        issues = _readers().issues.validate_python(said.get("issues") or ())
        wanted = said.get("expectations")
        expectations = None if wanted is None else _readers().expectations.validate_python(wanted)
    except ValidationError:
        return None
    reason = said.get("reason")
    enough = criteria.quality_threshold is None or score >= criteria.quality_threshold
    accepted = said.get("decision") == "ACCEPT" and enough
    if not isinstance(reason, str) or not reason.strip():
        reason = verdict_words.AS_ASKED() if accepted else verdict_words.NOT_ENOUGH()
    if said.get("decision") == "ACCEPT" and not enough:
        reason = verdict_words.SCORES_LESS(why=reason, score=score, least=criteria.quality_threshold)
    own = tuple(issue.model_copy(update={"description_message": None}) for issue in issues)  # its words, not ours
    return Judgement(accepted, score, reason, own, expectations, _own_words(said.get("prompt")))


def _own_words(said: object) -> str | None:
    return said.strip()[:_PROMPT] if isinstance(said, str) and said.strip() else None


def read_person_judgement(said: Confirmation, *, unusable: int = 0) -> Judgement:
    """Read a person's judgement of an input, after `unusable` answers of its user."""
    if said.approved:
        return Judgement(True, 100, verdict_words.FOUND_GOOD(by=said.by), unusable=unusable)
    reason = verdict_words.FOUND_POOR(by=said.by)
    return Judgement(False, 0, reason, (make_issue(reason),), unusable=unusable)


def fingerprint_issues(issues: Sequence[Issue]) -> tuple[str, ...]:
    """Fingerprint a set of issues, independent of order and spacing: one mark for each.

    What programs print differs from run to run although nothing has changed: durations, times of day, addresses and
    temporary folders do not count.
    """
    told = {
        " ".join(
            strip_changing_parts(f"{each.category or ''} {each.location or ''} {each.description}").lower().split()
        )
        for each in issues
    }
    return tuple(sorted(wire.sha256(each.encode("utf-8", "surrogatepass"))[7:23] for each in told))


def strip_changing_parts(text: str) -> str:
    """Remove the parts of a text that differ in every run."""
    for pattern in _CHANGING:
        text = pattern.sub("~", text)
    return text


@dataclass(frozen=True, slots=True)
class RoundHistory:
    """The rounds of rework that count for a task."""

    used: int = 0
    allowed: int = 0
    """How many it may have, with those that a person granted."""
    issue_sets: tuple[tuple[str, ...], ...] = ()
    """The fingerprints of the issues of each round, by the same validator or by the engine."""


NO_ROUNDS: Final = RoundHistory()


def decide_another_round(rounds: RoundHistory, fingerprint: Sequence[str], *, converges: bool = True) -> RoundAnswer:
    """Decide whether work with these issues is sent back once more. The engine and validators both ask here.

    A set of issues that comes back unchanged means that the agent gets nowhere, also when others came between. A set
    that shrinks may use all rounds. `converges` is false where the same issues again do not mean that.
    """
    if converges and set(fingerprint) in [set(earlier) for earlier in rounds.issue_sets]:
        return "stuck"
    return "yes" if rounds.used < rounds.allowed else "limit"


def list_own_inputs(command: Command) -> tuple[ResolvedInput, ...]:
    """List the inputs of a command, without those added by a re-execution."""
    inputs = tuple(command.resolved_inputs or ())
    return inputs if command.reexecute is None else tuple(each for each in inputs if each.input_name not in EXTRAS)


def list_extra_inputs(again: Reexecution) -> tuple[ResolvedInput, ...]:
    """List the inputs that a re-execution adds: what was refused, and why."""
    paths = tuple(
        f"{PREVIOUS_INPUT}/{root_layout.path_segment(each.output_name)}/{each.path}" for each in again.previous
    )
    feedback = ResolvedInput(input_name=FEEDBACK_INPUT, required=True, paths=(FEEDBACK,))
    if not paths:
        return (feedback,)
    return ResolvedInput(input_name=PREVIOUS_INPUT, required=True, paths=paths), feedback


def make_feedback(again: Reexecution, *, at: str) -> ValidationFeedback:
    """Make the document with the reasons of rework; `at` is its time, if the command has none."""
    result = again.validation_result
    return ValidationFeedback.from_json(
        {
            "schema_version": "1.0",
            "validator": result.validator,
            "original_agent": again.original_agent,
            "original_task_id": again.original_task_id,
            "validation_time": write_time(again.validated_at) if again.validated_at else at,
            "score": result.score,
            "decision": "REJECT",
            "reason": result.reason,
            "issues": [issue.as_json() for issue in result.issues],
            "expectations": (result.expectations or derive_expectations(result.issues)).as_json(),
            **({"prompt": result.prompt} if result.prompt is not None else {}),
        }
    )


def derive_expectations(issues: Sequence[Issue]) -> Expectations:
    """Derive from the issues what the next version should have."""
    adds = [each for each in issues if (each.category or "").lower() in _ADDS]
    return Expectations(
        additions=tuple(each.suggestion or each.description for each in adds),
        modifications=tuple(each.suggestion or each.description for each in issues if each not in adds),
    )


def make_confirmations(
    promise: CompletionPromise, evidence: Sequence[Evidence], *, by: str, at: str, shown: str, trust: Trust
) -> list[Evidence]:
    """Make the evidence of a person's acceptance: all that the promise requires and that did not pass.

    It is bound to the hash of what was shown, and worth `trust`. What is done is decided as always, with this evidence.
    """
    wanted = dict.fromkeys(
        [
            *promise.required_evidence,
            *(name for criterion in promise.acceptance for name in criterion.evidence_required),
            *(each.target for each in promise.done_when if each.type == "evidence-present" and each.target),
        ]
    )
    passed = {each.id for each in evidence if each.passed and each.fresh}
    detail = f"{by} accepted it as it is ({shown})"
    left = [name for name in wanted if name not in passed]
    return [Evidence(name, True, True, trust, by, at, detail, overrules=True) for name in left]


@dataclass(frozen=True, slots=True)
class RoundGrant:
    """A person grants more rounds."""

    rounds: int

    def __str__(self) -> str:
        return f"grant {self.rounds}"


@dataclass(frozen=True, slots=True)
class WorkAcceptance:
    """A person takes it as it is."""

    def __str__(self) -> str:
        return "accept"


@dataclass(frozen=True, slots=True)
class TaskAbandonment:
    """A person leaves it failed."""

    def __str__(self) -> str:
        return "abort"


ReworkDecision = RoundGrant | WorkAcceptance | TaskAbandonment
MOST_GRANTED: Final = 100
_GRANT: Final = re.compile(r"grant(?:[ =:]+([0-9]{1,3}))?\Z")


def read_decision(said: str, answers: Sequence[object]) -> ReworkDecision | None:
    """Read the answer to the question about a task without rounds; None when it is not clear."""
    if said in {"REJECT", "ABORT"}:
        return TaskAbandonment()
    found = {_decided(str(each).strip().lower()) for each in answers}
    return found.pop() if len(found) == 1 else None


def _decided(answer: str) -> ReworkDecision | None:
    if answer in {"accept", "abort"}:
        return WorkAcceptance() if answer == "accept" else TaskAbandonment()
    match = _GRANT.match(answer)
    number = int(match[1] or 1) if match else 0
    return RoundGrant(number) if 0 < number <= MOST_GRANTED else None


class _Readers(NamedTuple):
    score: TypeAdapter[float]
    issues: TypeAdapter[Sequence[Issue]]
    expectations: TypeAdapter[Expectations]


@cache
def _readers() -> _Readers:
    """Built when they are needed first: it takes as long as a short command."""
    return _Readers(TypeAdapter(Score), TypeAdapter(Many[Issue]), TypeAdapter(Expectations))
