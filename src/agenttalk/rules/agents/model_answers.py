"""The form of the answer that a model must give, and the check of an answer's form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.wire import JsonValue
from agenttalk.contracts.errors import Code, JsonError
from agenttalk.rules.agents import results
from agenttalk.rules.agents.results import TurnFault
from agenttalk.rules.text import answer_words

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_NUMBER: Final[dict[str, Any]] = {"type": "number", "description": "from 0 to 100"}
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class AnswerSpec:
    """The required contents of an answer."""

    score: bool = False
    """Whether a score is required."""
    outputs: tuple[str, ...] = ()
    """Names of the required outputs."""
    possible: tuple[str, ...] = ()
    """Names of the optional outputs."""
    judges: bool = False
    """Whether it only judges an input."""
    may_refuse: bool = False
    """Whether it may decline the task as not fit for it."""

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> AnswerSpec:
        """Read what `as_json` wrote."""
        outputs, possible = tuple(said["outputs"]), tuple(said["possible"])
        return cls(said["score"], outputs, possible, said["judges"], said["may_refuse"])

    def as_json(self) -> dict[str, JsonValue]:
        """Write it as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """An answer with a valid form."""

    result: dict[str, Any]
    """The content of the result file."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Name → text."""


def build_schema(asked: AnswerSpec) -> dict[str, Any]:
    """Make the JSON Schema of an answer.

    The range of a score is not part of it: a model whose words are forced into the schema would then make a good
    number out of nonsense.
    """
    if asked.judges:
        return _object(
            {
                "score": _NUMBER,
                "decision": {"type": "string", "enum": ["ACCEPT", "REJECT"]},
                "reason": _TEXT,
                "issues": {"type": "array", "items": _object({"severity": _SEVERITY, **_ISSUE}, ("description",))},
                "prompt": _TEXT,
            },
            ("score", "decision", "reason"),
        )
    parts: dict[str, Any] = {}
    if asked.may_refuse:
        parts["self_assessment"] = _object({"score": _NUMBER, "reason": _TEXT}, ("score", "reason"))
    parts["result"] = {"type": "string", "description": "what you did, in short"}
    if asked.score:
        parts |= {"score": _NUMBER, "score_explanation": {"type": "string", "description": "why this score"}}
    if asked.outputs or asked.possible:
        name = {"type": "string", "enum": [*asked.outputs, *asked.possible]}
        item = _object({"name": name, "text": {"type": "string", "description": "all of it"}}, ("name", "text"))
        parts["outputs"] = {"type": "array", "items": item}
    return _object(parts, [name for name in parts if name != "self_assessment"])


_SEVERITY: Final[dict[str, Any]] = {"type": "string", "enum": ["HIGH", "MEDIUM", "LOW"]}
_ISSUE: Final[dict[str, Any]] = dict.fromkeys(("category", "description", "location", "suggestion"), _TEXT)


def _object(parts: Mapping[str, Any], required: Any) -> dict[str, Any]:
    return {"type": "object", "properties": dict(parts), "required": list(required), "additionalProperties": False}


def read_answer(asked: AnswerSpec, text: str) -> ModelAnswer | TurnFault:
    """Read an answer from a text."""
    if not text.strip():
        return TurnFault(Code.AGENT_SILENT, answer_words.EMPTY())
    try:
        said = wire.read(text.strip().encode("utf-8", "replace"))
    except JsonError as error:
        return TurnFault(Code.ANSWER_INVALID, answer_words.NO_JSON(error=error.message, text=_shown(text)))
    return check_answer(asked, said)


def check_answer(asked: AnswerSpec, said: object) -> ModelAnswer | TurnFault:
    """Check an answer. Returns a usable one, or its first fault in words for the model."""
    if not isinstance(said, dict):
        return TurnFault(Code.ANSWER_INVALID, answer_words.NO_OBJECT(text=_shown(str(said))))
    try:
        written = wire.write({name: value for name, value in said.items() if name != "outputs"})
    except JsonError as error:
        return TurnFault(Code.ANSWER_INVALID, answer_words.UNWRITABLE(error=error.message))
    if asked.judges:
        return _judgement(said, written)
    if asked.may_refuse and results.explain_unfitness(said.get("self_assessment")) is not None:
        return ModelAnswer({"self_assessment": said["self_assessment"]})
    result = said.get("result")
    if not isinstance(result, str) or not result.strip():
        return TurnFault(Code.AGENT_SILENT, answer_words.NO_RESULT())
    found = results.read_result(written, b"", score_required=asked.score)
    if isinstance(found, TurnFault):
        return found
    outputs = _outputs(asked, said.get("outputs"))
    if isinstance(outputs, TurnFault):
        return outputs
    kept = {"result": result, "score": found.score, "score_explanation": found.explanation}
    return ModelAnswer({name: value for name, value in kept.items() if value is not None}, outputs)


def _judgement(said: dict[str, Any], written: bytes) -> ModelAnswer | TurnFault:
    found = results.read_result(written, b"", score_required=True)
    if isinstance(found, TurnFault):
        return found
    if said.get("decision") not in {"ACCEPT", "REJECT"}:
        return TurnFault(Code.ANSWER_INVALID, answer_words.NO_DECISION())
    return ModelAnswer(
        {name: said[name] for name in ("score", "decision", "reason", "issues", "prompt") if name in said}
    )


def _outputs(asked: AnswerSpec, said: object) -> dict[str, str] | TurnFault:
    found: dict[str, str] = {}
    for each in said if isinstance(said, list) else ():
        name, text = (each.get("name"), each.get("text")) if isinstance(each, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(text, str):
            return TurnFault(Code.ANSWER_INVALID, answer_words.NO_OUTPUT())
        if name not in {*asked.outputs, *asked.possible}:
            known = ", ".join([*asked.outputs, *asked.possible]) or "none"
            return TurnFault(Code.ANSWER_INVALID, answer_words.NOT_ASKED_FOR(name=name[:80], names=known))
        if name in found:
            return TurnFault(Code.ANSWER_INVALID, answer_words.TWICE(name=name))
        found[name] = text
    missing = [name for name in asked.outputs if not found.get(name, "").strip()]
    if missing:
        return TurnFault(Code.OUTPUT_MISSING, answer_words.OUTPUTS_EMPTY(names=", ".join(missing)))
    return found


def _shown(text: str) -> str:
    said = " ".join(text.split())
    return repr(said if len(said) <= _SHOWN else f"{said[: _SHOWN - 1]}…")
