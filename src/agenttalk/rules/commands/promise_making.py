"""Making a promise from a few fields: valid by construction, or refused with everything that is wrong.

Each check becomes a criterion of its own unless criteria are given, so nothing that is checked is left out of what has
to be shown, and nothing has to be shown that nobody checks.
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
"""What a promise is made of."""
_SAID: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("run", "{} succeeds"),
    "tests": ("run", "{} passes"),
    "file": ("path", "{} is there"),
    "json": ("path", "{} is there, as JSON"),
    "http": ("url", "{} answers"),
    "artifact": ("output", "{} is delivered"),
    "human": ("question", "A person says yes: {}"),
}
"""Kind of a check → which of its fields says what it is about, and how a criterion says it."""


def make(params: Mapping[str, Any], *, ms: int, random: int) -> CompletionPromise:
    """The promise that a few fields describe. Raises ContractError with every problem."""
    strange = [Problem(Code.FIELD_UNKNOWN, key[:80], "there is no such field") for key in params if key not in FIELDS]
    if strange:
        raise _refusal(strange)
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
        Problem(Code.FIELD_VALUE, each.field, each.message)
        for each in promises.validate(promise).issues
        if each.severity == "hard-deny"
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


def _named(said: object) -> list[dict[str, Any]]:
    """Checks, each with an id: its own, or its kind and how many of that kind there were before."""
    found: list[dict[str, Any]] = []
    kinds: Counter[str] = Counter()
    for each in said if isinstance(said, Sequence) and not isinstance(said, str) else ():
        if not isinstance(each, Mapping):
            raise _refusal([Problem(Code.FIELD_TYPE, "checks", "each check is an object with a kind")])
        kind = str(each.get("kind", ""))
        kinds[kind] += 1
        found.append({"id": f"{kind}-{kinds[kind]}", **each})
    return found


def _criteria(said: object, checks: Sequence[Mapping[str, Any]]) -> object:
    """What has to be shown: as it is said, or what each check is about."""
    if said:
        return said
    return [
        {"id": f"c-{check['id']}", "description": _description(check), "evidenceRequired": [check["id"]]}
        for check in checks
    ]


def _description(check: Mapping[str, Any]) -> str:
    field, words = _SAID.get(str(check.get("kind")), ("", ""))
    return words.format(check[field]) if check.get(field) else f"The check {check['id']} passes"


def _refusal(problems: Sequence[Problem]) -> ContractError:
    first = problems[0]
    where = f"{first.field}: " if first.field else ""
    return ContractError(first.code, f"{where}{first.message}", list(problems), hint=first.hint)
