"""A policy to apply to past work. It shows what it would have refused, and changes nothing."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import Count, Document, Many, Part, Positive, Text
from agenttalk.contracts.core.problems import field_path, find_nearest
from agenttalk.contracts.errors import Code, ContractError, JsonError, Problem
from agenttalk.contracts.planfile import yaml_text
from agenttalk.contracts.promise import Trust

RefusalKind = Literal["accepted", "claimed", "flaky", "not_isolated", "overridden", "unverified", "weak"]
Kind = Literal["run", "tests", "file", "json", "git", "http", "browser", "artifact", "report", "human", "forge"]


class CriterionRule(Part):
    """A rule for criteria by name."""

    id: Text
    """A glob over the names of criteria, such as `tests-*`."""
    min_trust: Trust
    """The least trust that proves them."""


class AuditPolicy(Document):
    """A policy for `agenttalk audit replay`: requirements that past work must meet."""

    min_trust: Trust | None = None
    """The least trust that proves every criterion."""
    criteria: Many[CriterionRule] = ()
    """The least trust for criteria by name."""
    required_checks: Many[Kind] = ()
    """Kinds of checks: one check of each kind must have passed."""
    red_first: Literal["required"] | None = None
    """Whether every check that runs something must have failed before the work."""
    refuse: Many[RefusalKind] = ()
    """What is refused: `weak` (a check did not fail before the work), `not_isolated` (a check, or the agent, ran
    without a sandbox), `claimed` (the only proof is the agent's word), `unverified` (a claim has no proof), `flaky`
    (a check passed only on a repetition), `overridden` (a person overrode a checkpoint), `accepted` (a person accepted
    refused work as it was)."""
    max_rounds: Count | None = None
    """The most rework rounds."""
    max_age_days: Positive | None = None
    """The most days since it was proven."""
    approvals: Positive | None = None
    """The least number of people who must have confirmed it."""


def read_policy(data: bytes, *, yaml: bool) -> AuditPolicy:
    """Read a policy file. Raises ContractError with every problem, unknown keys included."""
    try:
        source = (
            yaml_text.parse_yaml(data) if yaml else yaml_text.YamlSource(wire.read(data, limit=wire.DOCUMENT_LIMIT))
        )
    except JsonError as error:
        raise _refusal((Problem(error.code, "", error.message, error.hint),)) from error
    except ContractError as error:
        raise _refusal(error.problems) from error
    if source.problems:
        raise _refusal(source.problems)
    return policy_of(source.value)


def policy_of(value: Any) -> AuditPolicy:
    """Read a policy from JSON values. Raises ContractError."""
    strange = tuple(_strange((), value, AuditPolicy))
    if isinstance(value, dict) and isinstance(value.get("criteria"), list):
        for number, each in enumerate(value["criteria"]):
            strange += tuple(_strange(("criteria", number), each, CriterionRule))
    try:
        policy = AuditPolicy.from_json(value)
    except (ContractError, JsonError) as error:
        found = error.problems if isinstance(error, ContractError) else (Problem(error.code, "", error.message),)
        raise _refusal((*strange, *found)) from error
    if strange:
        raise _refusal(strange)
    if policy.model_copy(update={"schema_version": "1.0"}) == AuditPolicy():
        raise _refusal(
            (Problem(Code.FIELD_MISSING, "", "this policy requires nothing", "write e.g. min_trust: executed"),)
        )
    return policy


def _strange(loc: tuple[int | str, ...], value: object, kind: type[BaseModel]) -> Iterator[Problem]:
    known = tuple(kind.model_fields)
    for key in value if isinstance(value, dict) else ():
        if key not in known:
            near = find_nearest(str(key), known, cutoff=0.6)
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"
            yield Problem(Code.FIELD_UNKNOWN, field_path((*loc, str(key))), f"unknown key {str(key)[:80]!r}", hint)


def _refusal(problems: tuple[Problem, ...]) -> ContractError:
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    where = f"{first.field}: " if first.field else ""
    return ContractError(first.code, f"not a valid policy: {where}{first.message}{more}", problems, hint=first.hint)
