"""What a policy would have refused of what was called done: `done.decide` judges again, from what was kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, NamedTuple

from agenttalk.contracts.policy import AuditPolicy
from agenttalk.contracts.promise import AcceptanceCriterion, CompletionPromise, GateResult, Trust
from agenttalk.rules.proof.done import TRUST, Evidence, Verdict, decide

ReplayStanding = Literal["kept", "refused", "unknown"]
_RUNS: Final = frozenset({"run", "tests"})
_OWN: Final = frozenset({"result", "score", "gates"})
_OUTPUT: Final = "output:"
_BY: Final = {"confirmed": "a person"}
"""Who vouches for evidence that names no one."""


@dataclass(frozen=True, slots=True)
class ReplayedWork:
    """Something that was called done, with what it rested on."""

    promise: CompletionPromise | None
    """None when it cannot be had any more."""
    evidence: tuple[Evidence, ...] = ()
    gates: tuple[GateResult, ...] = ()
    checks: tuple[Mapping[str, Any], ...] = ()
    """The record of each check."""
    isolated: bool | None = None
    """Whether the agent's program ran in a sandbox; None when there was no program of ours."""
    overridden: bool = False
    accepted_by: str | None = None
    rounds: int = 0
    age_days: float = 0.0
    unverified: tuple[str, ...] = field(default=())


class ReplayVerdict(NamedTuple):
    """The verdict of a policy on it."""

    standing: ReplayStanding
    reasons: tuple[str, ...] = ()


def judge(policy: AuditPolicy, done: ReplayedWork) -> ReplayVerdict:
    """Return whether a policy would have let something count as done. What cannot be decided is never kept."""
    if done.promise is None:
        return ReplayVerdict("unknown", ("what it promised is not kept any more",))
    then = decide(done.promise, done.evidence, done.gates)
    if not then.fulfilled:
        why = "; ".join([*then.blockers, *(f"{name} is missing" for name in then.missing)])
        return ReplayVerdict("unknown", (f"what it rested on cannot be put together again: {why}",))
    now = decide(strengthen_promise(policy, done.promise), done.evidence, done.gates)
    reasons = [*now.blockers, *(f"{name} is missing" for name in now.missing), *_refusals(policy, done, then)]
    if reasons:
        return ReplayVerdict("refused", tuple(dict.fromkeys(reasons)))
    unclear = tuple(_unclear(policy, done))
    return ReplayVerdict("unknown", unclear) if unclear else ReplayVerdict("kept")


def strengthen_promise(policy: AuditPolicy, promise: CompletionPromise) -> CompletionPromise:
    """Raise the trust that a promise's criteria need to that of a policy; never lowers it."""
    criteria = tuple(
        each.model_copy(update={"min_trust": _highest(each, policy)}) if each.evidence_required else each
        for each in promise.acceptance
    )
    return promise.model_copy(update={"acceptance": criteria})


def _highest(criterion: AcceptanceCriterion, policy: AuditPolicy) -> Trust | None:
    asked = [rule.min_trust for rule in policy.criteria if fnmatchcase(criterion.id, rule.id)]
    found = [each for each in (criterion.min_trust, policy.min_trust, *asked) if each is not None]
    return max(found, key=TRUST.index, default=None)


def _refusals(policy: AuditPolicy, done: ReplayedWork, then: Verdict) -> Iterator[str]:
    """Find a policy's objections to finished work, besides the trust of its criteria."""
    passed = [each for each in done.checks if each.get("passed")]
    kinds = {each.get("kind") for each in passed}
    for kind in policy.required_checks:
        if kind not in kinds:
            yield f"no check of the kind {kind!r} has passed"
    refuse = set(policy.refuse) | ({"weak"} if policy.red_first else set())
    for each in passed:
        yield from _of_check(each, refuse)
    if "weak" in refuse:
        yield from _never_looked_at(done, {str(each.get("id")) for each in passed})
    if "not_isolated" in refuse and done.isolated is False:
        yield "the agent's program was not isolated"
    if "claimed" in refuse and then.trust in {None, "claimed"}:
        yield "it rests on the agent's word"
    if "unverified" in refuse and (done.unverified or then.unverified):
        yield f"nothing proves {', '.join(dict.fromkeys([*done.unverified, *then.unverified]))}"
    if "overridden" in refuse and done.overridden:
        yield "an operator overrode a checkpoint"
    if "accepted" in refuse and done.accepted_by is not None:
        yield f"{done.accepted_by} took refused work as it was"
    yield from _counted(policy, done)


def _of_check(told: Mapping[str, Any], refuse: set[str]) -> Iterator[str]:
    name = f"the check {told['id']!r}"
    if "weak" in refuse and told.get("weak"):
        yield f"{name} was not seen to fail before the work"
    if "flaky" in refuse and told.get("flaky"):
        yield f"{name} passed only when it was made again"
    if "not_isolated" in refuse and told.get("isolated") is False:
        yield f"{name} was not isolated"


def _never_looked_at(done: ReplayedWork, passed: set[str]) -> Iterator[str]:
    """Yield checks that did not run before the work, because the plan said so: they were not seen to fail either."""
    for check in done.promise.checks if done.promise is not None else ():
        if check.kind in _RUNS and check.red_first == "off" and check.id in passed:
            yield f"the check {check.id!r} was not made before the work (red_first: off), so it was not seen to fail"


def _counted(policy: AuditPolicy, done: ReplayedWork) -> Iterator[str]:
    if policy.max_rounds is not None and done.rounds > policy.max_rounds:
        yield f"it took {done.rounds} rounds of rework, and {policy.max_rounds} may be"
    if policy.max_age_days is not None and done.age_days > policy.max_age_days:
        yield f"it was proven {done.age_days:.1f} days ago, and {policy.max_age_days:g} may be"
    people = {each.by for each in done.evidence if each.passed and each.trust == "confirmed"}
    if policy.approvals is not None and len(people) < policy.approvals:
        yield f"{len(people)} people confirmed it, and {policy.approvals} must"


def _unclear(policy: AuditPolicy, done: ReplayedWork) -> Iterator[str]:
    """Yield what a policy asks for and the record does not have."""
    seen = {each.get("id") for each in done.checks}
    asks = policy.red_first is not None or "weak" in policy.refuse
    for check in done.promise.checks if asks and done.promise is not None else ():
        if check.kind in _RUNS and check.id not in seen:
            yield f"the record does not say how the check {check.id!r} stood before the work"


def rebuild_evidence(
    promise: CompletionPromise,
    checks: Sequence[Mapping[str, Any]],
    claims: Sequence[Mapping[str, Any]],
    *,
    at: str,
    by: str,
) -> tuple[Evidence, ...]:
    """Return what a turn that counted as done rested on, from its record.

    What the engine sees by itself (outputs, result, score, gates) stands in no list: had it not been there, the turn
    would not have been called done. Anything else counts only if it was written down.
    """
    found = [
        Evidence(
            each["id"],
            bool(each.get("passed")),
            True,
            each.get("trust", "claimed"),
            each.get("by") or _BY.get(str(each.get("trust")), "engine"),
            at,
        )
        for each in checks
    ]
    found += [
        Evidence(each["id"], bool(each.get("passed")), True, "claimed", by, at)
        for each in claims
        if not each.get("set_aside")
    ]
    known = {each.id for each in found} | {check.id for check in promise.checks}
    asked = dict.fromkeys(
        [*promise.required_evidence, *(name for each in promise.acceptance for name in each.evidence_required)]
    )
    found += [
        Evidence(name, True, True, "observed", "engine", at)
        for name in asked
        if name not in known and (name in _OWN or name.startswith(_OUTPUT))
    ]
    return tuple(found)
