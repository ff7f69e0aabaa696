"""What follows from suspicious lines: they are noted, a person sees them before the work is done, or it is refused.

A check that runs inside the work's own process can be deceived by it, so grave lines count where nothing else speaks
for the work. What a person approved is bound to the hash of what was shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.promise import (
    AnyCheck,
    ArtifactCheck,
    CompletionPromise,
    HumanCheck,
    RunCheck,
    TestsCheck,
    Watch,
)
from agenttalk.rules.changes.suspicions import Suspicion
from agenttalk.rules.checks.check_results import judge_human
from agenttalk.rules.proof.evidence import CheckResult, Confirmation
from agenttalk.rules.text import change_words
from agenttalk.rules.text.message import LISTED, join

QUESTION: Final = "suspicion"
"""The id of the question to a person."""
_SHOWN: Final = 12
"""Suspicions that are named one by one."""


def find_watch(check: AnyCheck, promise: CompletionPromise) -> Watch:
    """Find what follows from grave lines for a check. Without a setting, a person is asked unless another party judges.

    That party stands outside the work's process: a person, or an agent that accepts an output.
    """
    if not isinstance(check, RunCheck | TestsCheck):
        return "note"
    if check.suspicion is not None:
        return check.suspicion
    return "note" if any(_judges_outside(each) for each in promise.checks) else "ask"


def _judges_outside(check: AnyCheck) -> bool:
    return isinstance(check, HumanCheck) or (isinstance(check, ArtifactCheck) and check.accepted_by is not None)


def list_grave(seen: Sequence[Suspicion]) -> tuple[Suspicion, ...]:
    """List the suspicions that a person has to see."""
    return tuple(each for each in seen if each.grave)


def make_question(promise: CompletionPromise, seen: Sequence[Suspicion]) -> HumanCheck | None:
    """Make the question to a person with the lines in it; None if no person has to be asked."""
    grave = list_grave(seen)
    if not grave or all(find_watch(check, promise) != "ask" for check in promise.checks):
        return None
    text = change_words.ASK_SUSPICIOUS(count=len(grave), lines=describe_lines(grave))
    return HumanCheck(id=QUESTION, kind="human", question=text)


def describe_lines(seen: Sequence[Suspicion]) -> str:
    """Describe suspicions, each with its place."""
    told = [describe_line(each) for each in seen[:_SHOWN]]
    told += [change_words.MORE_SUSPICIOUS(count=len(seen) - _SHOWN)] if len(seen) > _SHOWN else []
    return join(told)


def describe_line(suspicion: Suspicion) -> str:
    """Describe a suspicion with its place and the id of its rule."""
    place = f"{suspicion.path}:{suspicion.line}" if suspicion.line else suspicion.path
    return change_words.RULE_AT_LINE(path=place, rule=suspicion.id, what=suspicion.message)


def hash_lines(seen: Sequence[Suspicion]) -> str:
    """Hash suspicions as they are shown: what a person approved is about exactly these."""
    return wire.sha256(wire.write([[each.id, each.path, each.line, str(each.message)] for each in seen]))


def judge_result(
    result: CheckResult,
    check: AnyCheck,
    promise: CompletionPromise,
    seen: Sequence[Suspicion],
    answer: Confirmation | None,
    shown: str,
) -> CheckResult:
    """Judge the result of a check again, with what is suspicious. Only one that passed can become worse."""
    watch, grave = find_watch(check, promise), list_grave(seen)
    if not result.passed or not grave:
        return result
    lines = describe_lines(grave)
    if watch == "note":
        return replace(result, detail=_add(result.detail, change_words.NOTED_SUSPICIOUS(lines=lines)))
    if watch == "refuse":
        return replace(result, passed=False, reason="suspicious", detail=change_words.REFUSED_SUSPICIOUS(lines=lines))
    found = judge_human(answer, shown)
    if not found.passed:
        why = change_words.UNREVIEWED_SUSPICIOUS(why=found.detail, lines=lines)
        return replace(result, passed=False, reason="suspicious", detail=why)
    by = answer.by if answer is not None else ""
    return replace(result, detail=_add(result.detail, change_words.REVIEWED_SUSPICIOUS(by=by, lines=lines)))


def _add(detail: str, more: str) -> str:
    return join([detail, more], LISTED) if detail else more
