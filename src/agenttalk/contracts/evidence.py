"""Evidence and gate results from outside."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from pydantic import ValidationError

from agenttalk.contracts.core.base import Part, Text
from agenttalk.contracts.core.problems import problems_of
from agenttalk.contracts.errors import Code, ContractError, Problem
from agenttalk.contracts.promise import CompletionPromise, GateResult, Trust

_T = TypeVar("_T")


class EvidenceEntry(Part):
    """A piece of evidence, or a claim. Decisive fields have no defaults, so that nothing is guessed."""

    id: Text
    """Evidence id."""
    passed: bool
    """Whether it passed."""
    fresh: bool
    """Whether the files that it covers are unchanged."""
    trust: Trust
    """How it was obtained."""
    by: str = ""
    """Who obtained it."""
    at: str = ""
    """When, as text."""
    detail: str = ""
    """More about it, for people."""


def read_promise(document: object) -> CompletionPromise:
    """Read a promise from JSON values. Raises ContractError with every problem."""
    found: list[Problem] = []
    promise = _part(CompletionPromise.read, document, "", found)
    if promise is None:
        raise _refusal("promise", found)
    return promise


def read_evidence(document: object) -> tuple[str | EvidenceEntry, ...]:
    """Read an array of evidence ids and objects. Raises ContractError with every problem."""
    return _array("evidence", document, _evidence)


def read_gates(document: object) -> tuple[GateResult, ...]:
    """Read an array of gate results in their order. Raises ContractError with every problem."""
    return _array("gates", document, lambda item, at, found: _part(GateResult.read, item, at, found))


def _evidence(item: object, at: str, found: list[Problem]) -> str | EvidenceEntry | None:
    if not isinstance(item, str):
        return _part(EvidenceEntry.read, item, at, found)
    if item.strip():
        return item
    found.append(Problem(Code.FIELD_VALUE, at, "an evidence id must not be empty", "remove it"))
    return None


def _array(name: str, document: object, read: Callable[[object, str, list[Problem]], _T | None]) -> tuple[_T, ...]:
    found: list[Problem] = []
    if not isinstance(document, list):
        found.append(Problem(Code.FIELD_TYPE, "", "must be an array"))
        raise _refusal(name, found)
    read_items = [read(item, f"[{at}]", found) for at, item in enumerate(document)]
    if found:
        raise _refusal(name, found)
    return tuple(item for item in read_items if item is not None)


def _part(read: Callable[[object], _T], item: object, at: str, found: list[Problem]) -> _T | None:
    if not isinstance(item, dict):
        found.append(Problem(Code.FIELD_TYPE, at, "must be an object"))
        return None
    try:
        return read(item)
    except ValidationError as error:
        for problem in problems_of(error):
            field = f"{at}.{problem.field}" if at and problem.field else at or problem.field
            found.append(replace(problem, field=field))
        return None


def _refusal(name: str, problems: list[Problem]) -> ContractError:
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    where = f"{first.field}: " if first.field else ""
    return ContractError(first.code, f"{name}: {where}{first.message}{more}", problems, hint=first.hint)
