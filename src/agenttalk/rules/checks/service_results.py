"""Whether a service of the work does what its check asks for: by its answers, or by its pages in a browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.contracts.promise import BrowserCheck, BrowserStep, ServiceCheck, ServiceRequest
from agenttalk.rules.checks.check_results import HttpAnswer, ProgramExit, judge_run
from agenttalk.rules.proof.evidence import CheckFinding
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import ABOUT, join, join_names

STEPS: Final = (
    "open",
    "click",
    "fill",
    "press",
    "choose",
    "see",
    "miss",
    "count",
    "value",
    "title",
    "address",
    "screenshot",
)
"""What a step in a browser can be."""
_LOOKS: Final = frozenset({"see", "miss", "count", "value", "title", "address"})
"""Steps that say what must be so."""
_SHOWN: Final = 200
"""Characters of an answer that are shown."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """What happened in a browser."""

    problem: str = ""
    """Why there was no session."""
    steps: tuple[str | None, ...] = ()
    """For each step that was taken what was found instead; None where it succeeded."""
    errors: tuple[str, ...] = ()
    """Errors that scripts of the page did not catch."""
    pictures: tuple[dict[str, Any], ...] = ()

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read a session. What is not as expected is a problem of it."""
        if not isinstance(document, dict):
            return cls(problem=check_words.BROWSER_FAILED(error=""))
        steps = [step for step in document.get("steps") or () if isinstance(step, dict)]
        return cls(
            steps=tuple(None if step.get("passed") is True else str(step.get("found", "")) for step in steps),
            errors=tuple(str(error) for error in document.get("errors") or ()),
            pictures=tuple(shot for shot in document.get("pictures") or () if isinstance(shot, dict)),
        )


def find_faults(check: ServiceCheck | BrowserCheck) -> Iterator[tuple[str, str]]:
    """Find what is wrong with a check of a service: the field, and why."""
    if isinstance(check, ServiceCheck):
        yield from _find_request_faults(check)
    else:
        yield from _find_step_faults(check)


def _find_request_faults(check: ServiceCheck) -> Iterator[tuple[str, str]]:
    if not check.requests:
        yield "requests", "it sends no request, so it would show nothing; name one"
    for number, request in enumerate(check.requests):
        if not request.path.startswith("/"):
            yield f"requests[{number}].path", f"the path {request.path[:80]!r} does not begin with /"


def _find_step_faults(check: BrowserCheck) -> Iterator[tuple[str, str]]:
    actions: list[str] = []
    for number, step in enumerate(check.steps):
        named = list_actions(step)
        actions += named
        if len(named) != 1:
            found = join_names(named) if named else "nothing"
            yield f"steps[{number}]", f"a step is one of {', '.join(STEPS)}; this one names {found}"
        if step.open is not None and not step.open.startswith("/"):
            yield f"steps[{number}].open", f"the path {step.open[:80]!r} does not begin with /"
    if not _LOOKS.intersection(actions):
        yield "steps", f"no step says what must be so, so it would show nothing; add one of {', '.join(sorted(_LOOKS))}"
    if actions and actions[0] != "open":
        yield "steps[0]", "the first step opens a page; begin with open"


def list_actions(step: BrowserStep) -> list[str]:
    """List what a step names."""
    return [name for name in STEPS if getattr(step, name) is not None]


def judge_service(finding: CheckFinding | None, ran: ProgramExit) -> CheckFinding:
    """Judge a check by what was found at the service, and by how the service ended; None if it never was reachable."""
    if ran.how != "finished":
        return judge_run(ran)
    if finding is None:
        ended = check_words.SERVICE_NEVER_UP if ran.exit_code is None else check_words.SERVICE_ENDED_WITH
        return CheckFinding(False, "unreachable", ended(code=ran.exit_code))
    if finding.passed and ran.exit_code is not None:
        return CheckFinding(False, "exit_code", check_words.SERVICE_ENDED_WITH(code=ran.exit_code))
    return finding


def judge_answers(requests: Sequence[ServiceRequest], answers: Sequence[HttpAnswer | CheckFinding]) -> CheckFinding:
    """Judge the answers to all requests of a check. Each must be there and as asked."""
    if not requests:
        return CheckFinding(False, "facts_missing", check_words.NO_REQUEST())
    faults = []
    for request, answer in zip(requests, answers, strict=False):
        if isinstance(answer, CheckFinding):
            return answer
        if wrong := _find_answer_faults(request, answer):
            faults.append(ABOUT(subject=f"{request.method} {request.path}", what=join(wrong)))
    if not faults and len(answers) != len(requests):
        return CheckFinding(False, "unreachable", check_words.SERVICE_ENDED())
    return CheckFinding(False, "answer", join(faults)) if faults else CheckFinding(True)


def _find_answer_faults(request: ServiceRequest, answer: HttpAnswer) -> list[str]:
    faults: list[str] = []
    if answer.status != request.status:
        faults.append(check_words.OTHER_STATUS(found=answer.status, asked=request.status))
    if request.contains is not None and request.contains.encode() not in answer.body:
        lacks = check_words.ANSWER_HOLDS_NOT if answer.whole else check_words.PART_HOLDS_NOT
        faults.append(lacks(text=request.contains[:80]))
    if "equals" in request.model_fields_set and not _is_equal(request.equals, answer):
        found = answer.body[:_SHOWN].decode(errors="replace")
        faults.append(check_words.OTHER_ANSWER(found=found, asked=wire.write(request.equals)[:_SHOWN].decode()))
    return faults


def _is_equal(asked: Any, answer: HttpAnswer) -> bool:
    """Whether an answer is exactly a JSON value."""
    if not answer.whole:
        return False
    try:
        return _is_same(asked, wire.read(answer.body, limit=len(answer.body) + 1))
    except AgentTalkError:
        return False


def _is_same(asked: Any, found: Any) -> bool:
    """Compare JSON values with their types: true is not 1, and 1 is not 1.0."""
    if type(asked) is not type(found):
        return False
    if isinstance(asked, dict):
        return asked.keys() == found.keys() and all(_is_same(asked[name], found[name]) for name in asked)
    if isinstance(asked, list):
        return len(asked) == len(found) and all(map(_is_same, asked, found))
    return bool(asked == found)


def judge_browser(check: BrowserCheck, session: BrowserSession) -> CheckFinding:
    """Judge a session: all steps were taken, and each succeeded."""
    if session.problem:
        return CheckFinding(False, "not_started", session.problem)
    for step, found in zip(check.steps, session.steps, strict=False):
        if found is not None:
            return CheckFinding(False, "content", check_words.STEP_FAILED(step=_describe(step), found=found[:_SHOWN]))
    looks = [step for step in check.steps if _LOOKS.intersection(list_actions(step))]
    if len(session.steps) != len(check.steps) or not looks or any(len(list_actions(step)) != 1 for step in check.steps):
        return CheckFinding(False, "facts_missing", check_words.STEPS_MISSING())
    if session.errors and check.page_errors == "fail":
        return CheckFinding(False, "content", check_words.PAGE_ERRORS(errors=join_names(session.errors[:3])))
    noted = check_words.PAGE_ERRORS(errors=join_names(session.errors[:3])) if session.errors else ""
    return CheckFinding(True, "", noted)


def _describe(step: BrowserStep) -> str:
    """Write a step as its plan does."""
    given = {name: value for name, value in step.as_json().items() if value is not None}
    return ", ".join(f"{name}: {value}" for name, value in given.items())[:_SHOWN]
