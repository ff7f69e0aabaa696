"""Reads the result of a program's turn from its result file or its standard output."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.errors import Code, JsonError
from agenttalk.contracts.evidence import EvidenceEntry
from agenttalk.rules.agents.progress_notes import strip_notes
from agenttalk.rules.proof.evidence import read_claims
from agenttalk.rules.text import answer_words, turn_words
from agenttalk.rules.text.message import ABOUT, LINES, cut, join

FITNESS_THRESHOLD: Final = 70
"""The least points of 100 with which an agent judges itself fit for a command."""
_SIGNALLED: Final = 128
_SIGNALS: Final = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    31: "SIGSYS",
}
TAIL: Final = 4_000
"""The most characters of an error text."""


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The result that the agent reported."""

    value: Any
    score: float | None = None
    explanation: str | None = None
    claims: tuple[str | EvidenceEntry, ...] = ()
    """Evidence that the agent claims to have."""


@dataclass(frozen=True, slots=True)
class TurnFault:
    """Why a turn does not count."""

    code: Code
    message: str


def read_result(
    file: bytes | None, stdout: bytes, *, score_required: bool, may_refuse: bool = False
) -> AgentResult | TurnFault:
    """Read the result: from the result file, else the last line of the output with a `result`, else the whole output.

    A valid score is kept even if none is required; an invalid one is then left out. An agent that `may_refuse` may
    return the command with a `self_assessment`; the field of any other agent is ignored.
    """
    if file is not None:
        try:
            said = wire.read(file)
        except JsonError as error:
            return TurnFault(Code.COMMAND_FAILED, answer_words.RESULT_UNREADABLE(error=error.message))
        if not isinstance(said, dict):
            return TurnFault(Code.COMMAND_FAILED, answer_words.RESULT_NO_OBJECT())
    else:
        told = ("result", "self_assessment") if may_refuse else ("result",)
        said = _last_object(stdout, told) or {"result": text_of(strip_notes(stdout))}
    unfit = explain_unfitness(said.get("self_assessment")) if may_refuse else None
    if unfit is not None:
        return TurnFault(Code.AGENT_UNFIT, unfit)
    return _scored(said, required=score_required)


def explain_unfitness(assessment: object) -> str | None:
    """Explain why an agent judged itself unfit for a command; None if it did not."""
    said: Mapping[Any, Any] = assessment if isinstance(assessment, Mapping) else {}
    score, reason = said.get("score"), said.get("reason")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score < FITNESS_THRESHOLD:
        return None
    why = reason.replace("\0", "\ufffd").strip()[:TAIL] if isinstance(reason, str) else ""
    return answer_words.FITNESS(why=why or answer_words.NO_REASON(), score=score)


def find_reported_object(file: bytes | None, stdout: bytes, told: Collection[str]) -> dict[str, Any] | None:
    """Find the object with one of these keys in the file, or else the last one in the output."""
    if file is None:
        return _last_object(stdout, told)
    try:
        said = wire.read(file)
    except JsonError:
        return None
    return said if isinstance(said, dict) and not said.keys().isdisjoint(told) else None


def _last_object(stdout: bytes, told: Collection[str]) -> dict[str, Any] | None:
    for line in reversed(stdout.split(b"\n")):
        if line.strip().startswith(b"{"):
            try:
                said = wire.read(line)
            except JsonError:
                continue
            if isinstance(said, dict) and not said.keys().isdisjoint(told):
                return said
    return None


def _scored(said: dict[str, Any], *, required: bool) -> AgentResult | TurnFault:
    score, explanation = said.get("score"), said.get("score_explanation")
    valid = isinstance(score, int | float) and not isinstance(score, bool) and 0 <= score <= 100
    if required and score is None:
        return TurnFault(Code.SCORE_MISSING, answer_words.NO_SCORE())
    if required and not valid:
        return TurnFault(Code.SCORE_INVALID, answer_words.BAD_SCORE(score=f"{score!r:.60}"))
    return AgentResult(
        said.get("result"),
        score if valid else None,
        explanation if isinstance(explanation, str) else None,
        read_claims(said.get("evidence")),
    )


def text_of(data: bytes) -> str:
    """Decode a program's bytes to text that every store accepts."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def describe_error(error: str, stderr: bytes) -> str:
    """Explain why a program failed: the driver's reason, and the end of the program's own output."""
    first = cut(error, TAIL // 2)
    said = text_of(stderr).strip()[-(TAIL - len(first) - 2) :]
    if first and said:
        return join([first, said], LINES) if "\n" in said else ABOUT(subject=first, what=said)
    return first or said or turn_words.NO_WORD()


def list_required_outputs(command: Command) -> list[str]:
    """Return the names of the outputs that a command always requires."""
    return [output.output_name for output in command.produces or ()]


def list_possible_outputs(command: Command) -> list[tuple[str, str | None]]:
    """Return the outputs that a command allows, each with its condition; None for one without a condition."""
    return [(output.output_name, output.when) for output in command.may_produce] if command.may_produce else []


def map_declared_outputs(command: Command) -> dict[str, str]:
    """Map names in the folder of outputs to the outputs that a command requires or allows.

    An output whose name is free text may also be there under the spelling of the name for paths.
    """
    names = [*list_required_outputs(command), *(output.output_name for output in command.may_produce or ())]
    return {spelling: name for name in names for spelling in (name, root_layout.path_segment(name))}


def find_missing_outputs(command: Command, found: Collection[str]) -> TurnFault | None:
    """Report required outputs that are missing; None if all are there."""
    missing = [name for name in list_required_outputs(command) if name not in found]
    if not missing:
        return None
    return TurnFault(Code.OUTPUT_MISSING, answer_words.OUTPUTS_MISSING(names=", ".join(dict.fromkeys(missing))))


def find_unsafe_path(paths: Iterable[str]) -> str | None:
    """Return the first path of an output that an inbox cannot hold; None if there is none."""
    return next((path for path in paths if not root_layout.is_safe_payload(path)), None)


def fill_notice(command: Command, outcome: AgentResult | TurnFault) -> str | None:
    """Render the notice of a command's end. It is shown and logged, and changes no state."""
    if isinstance(outcome, TurnFault):
        wanted, values = command.on_failure, {"error": outcome.message}
    else:
        score = "" if outcome.score is None else f"{outcome.score:g}"
        wanted, values = command.on_complete, {"result": str(outcome.value), "score": score}
    if wanted is None:
        return None
    parts = re.split(r"(\{result\}|\{score\}|\{error\})", wanted.message_template)
    filled = [values.get(part[1:-1], "") if number % 2 else part for number, part in enumerate(parts)]
    return "".join(filled)[:TAIL]


def describe_exit(code: int) -> str:
    """Explain an exit code. Shells and sandboxes encode the signal that ended their program in it."""
    name = _SIGNALS.get(code - _SIGNALLED)
    return turn_words.EXIT_BY_SIGNAL(code=code, signal=name) if name else turn_words.EXIT(code=code)
