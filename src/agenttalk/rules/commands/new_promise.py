"""Makes a promise from a few fields. The promise is valid, or all its faults are reported.

Without given criteria, each check becomes a criterion. So every check is required evidence, and every criterion has a
check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from agenttalk.contracts.core.problems import problems_of
from agenttalk.contracts.errors import Code, ContractError, Problem
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.commands import promises

FIELDS: Final = ("objective", "checks", "criteria", "allowed_scope", "disallowed_scope", "budget")
"""The fields from which a promise is made."""
_DESCRIPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("run", "{} succeeds"),
    "tests": ("run", "{} passes"),
    "file": ("path", "{} is there"),
    "json": ("path", "{} is there, as JSON"),
    "http": ("url", "{} answers"),
    "artifact": ("output", "{} is delivered"),
    "human": ("question", "A person says yes: {}"),
}
"""Kind of a check → the field that describes it, and the description of its criterion."""


def make(params: Mapping[str, Any], *, ms: int, random: int) -> CompletionPromise:
    """Make a promise from a few fields. Raises ContractError with every problem."""
    unknown = [Problem(Code.FIELD_UNKNOWN, key[:80], "there is no such field") for key in params if key not in FIELDS]
    if unknown:
        raise _refusal(unknown)
    checks = _named(params.get("checks"))
    body: dict[str, Any] = {
        "id": promises.make_promise_id(ms, random),
        "objective": params.get("objective", ""),
        "acceptance": _criteria(params.get("criteria"), checks),
        "checks": checks,
        "requiredEvidence": [check["id"] for check in checks],
        **{_SPELLED[key]: params[key] for key in _SPELLED if params.get(key)},
    }
    try:
        promise = CompletionPromise.read(body)
    except ValidationError as error:
        raise _refusal(problems_of(error)) from error
    faults = [
        Problem(Code.FIELD_VALUE, issue.field, issue.message)
        for issue in promises.validate(promise).issues
        if issue.severity == "hard-deny"
    ]
    faults += promises.find_near_misses(promise)
    if not checks:
        faults.append(Problem(Code.FIELD_MISSING, "checks", "nothing is checked", "give at least one check"))
    if faults:
        raise _refusal(faults)
    return promise


_SPELLED: Final = {
    "allowed_scope": "allowedScope",
    "disallowed_scope": "disallowedScope",
    "budget": "budget",
}


def _named(given: object) -> list[dict[str, Any]]:
    """Give each check an id: its own, or its kind with a number."""
    checks: list[dict[str, Any]] = []
    kinds: Counter[str] = Counter()
    for check in given if isinstance(given, Sequence) and not isinstance(given, str) else ():
        if not isinstance(check, Mapping):
            raise _refusal([Problem(Code.FIELD_TYPE, "checks", "each check is an object with a kind")])
        kind = str(check.get("kind", ""))
        kinds[kind] += 1
        checks.append({"id": f"{kind}-{kinds[kind]}", **check})
    return checks


def _criteria(given: object, checks: Sequence[Mapping[str, Any]]) -> object:
    """Return the given criteria, or make one for each check."""
    if given:
        return given
    return [
        {"id": f"c-{check['id']}", "description": _description(check), "evidenceRequired": [check["id"]]}
        for check in checks
    ]


def _description(check: Mapping[str, Any]) -> str:
    field, words = _DESCRIPTIONS.get(str(check.get("kind")), ("", ""))
    return words.format(check[field]) if check.get(field) else f"The check {check['id']} passes"


def _refusal(problems: Sequence[Problem]) -> ContractError:
    first = problems[0]
    where = f"{first.field}: " if first.field else ""
    return ContractError(first.code, f"{where}{first.message}", list(problems), hint=first.hint)
