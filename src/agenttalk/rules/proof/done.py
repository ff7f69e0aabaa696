"""Whether a promise is fulfilled. This is the one place where done is decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from agenttalk.contracts.core.base import Part
from agenttalk.contracts.dag import Node
from agenttalk.contracts.promise import (
    AcceptanceCriterion,
    AnyCheck,
    ArtifactCheck,
    Budget,
    CompletionPromise,
    DoneCondition,
    GateResult,
    Trust,
)
from agenttalk.rules.proof.score_gates import due_outputs
from agenttalk.rules.text import task_words, verdict_words
from agenttalk.rules.text.message import Message, join

__all__ = ["TRUST", "Evidence", "GateResult", "Trust", "Verdict", "decide", "derive_promise", "merge_promises"]

TRUST: Final[tuple[Trust, ...]] = ("claimed", "attested", "observed", "executed", "confirmed")
"""From the weakest; what a person confirmed satisfies any minimum."""
_KIND_TRUST: Final[dict[str, Trust]] = {
    "run": "executed",
    "tests": "executed",
    "cases": "executed",
    "mutants": "executed",
    "human": "attested",
}
OUTPUT: Final = "output:"
"""Goes before the name of an output in the id of its evidence."""
_SHOWS: Final = {"result": task_words.RESULT, "score": task_words.SCORE, "gates": task_words.GATES}
_EVERY: Final = "*"
RECEIPT: Final = "receipt"
"""The evidence that an agent calls a task of a foreign plan done."""
_ADDED: Final = "command:"
"""Goes before a name that a command's promise uses for something else than the node's."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that was seen, or said to be."""

    id: str
    passed: bool
    fresh: bool
    """Whether what it covers is still the same."""
    trust: Trust
    by: str
    at: str
    detail: str = ""
    overrules: bool = False
    """Whether a person takes it as it is, against what was found: then no minimum of trust applies."""
    code: str = ""
    """What was found, for programs, where the id does not say it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a promise."""

    fulfilled: bool
    missing: tuple[str, ...] = ()
    """Required evidence that is not present, by id."""
    blockers: tuple[str, ...] = ()
    """Everything else that stands in the way, in words."""
    unverified: tuple[str, ...] = ()
    """Claims that nothing proves: ids of evidence, and `criterion:<id>` for a criterion that asks for none."""
    trust: Trust | None = None
    """The weakest evidence that being done rests on; none while it is not."""


def decide(
    promise: CompletionPromise,
    evidence: Sequence[Evidence],
    gates: Sequence[GateResult],
    *,
    aborted: str | None = None,
    confirmed: bool = False,
    word: Trust = "confirmed",
) -> Verdict:
    """Decide whether evidence fulfils a promise, with the results of checkpoints in their order.

    Only evidence that passed, is fresh and is trusted enough counts. What is not known to be fine is not
    fine: without criteria, or with nothing to look at, a promise is never fulfilled. `word` is what it is worth that
    a person confirmed it.
    """
    weighing = _Weighing(
        promise, evidence, {gate.checkpoint: gate.allowed for gate in gates}, word if confirmed else None
    )
    missing = dict.fromkeys(each for each in promise.required_evidence if not weighing.has(each))
    blockers = dict.fromkeys(
        [
            *([verdict_words.ABORTED(why=aborted)] if aborted is not None else []),
            *_unshown(promise, weighing),
            *(text for condition in promise.done_when if (text := _unmet(promise, condition, weighing))),
        ]
    )
    if not promise.acceptance:
        blockers[verdict_words.NO_CRITERION()] = None
    elif not _demands(promise):
        blockers[verdict_words.NOTHING_CHECKED()] = None
    fulfilled = not missing and not blockers
    return Verdict(
        fulfilled,
        tuple(missing),
        tuple(blockers),
        tuple(dict.fromkeys(_unverified(promise, evidence))),
        min(weighing.rests_on, key=TRUST.index, default=None) if fulfilled else None,
    )


@dataclass(slots=True)
class _Weighing:
    """The evidence as far as it counts, with a note of what was relied on."""

    promise: CompletionPromise
    evidence: Sequence[Evidence]
    gates: dict[str, bool]
    """Checkpoint → whether its latest result allows."""
    confirmed: Trust | None
    """What the word of the person is worth who confirmed it, if one did."""
    rests_on: list[Trust] = field(default_factory=list)
    _by_id: dict[str, list[Evidence]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.evidence:
            self._by_id.setdefault(each.id, []).append(each)

    def has(self, evidence_id: str, least: Trust | None = None) -> bool:
        """Whether evidence is present. `least` is what the criterion asks for."""
        return self.has_any((evidence_id,), least)

    def has_any(self, ids: Iterable[str], least: Trust | None) -> bool:
        """Whether one of them is present; the most trusted is relied on."""
        found = [
            each.trust
            for name in ids
            for each in self._by_id.get(name, ())
            if not self._flaw(each, self._least(name, least))
        ]
        if found:
            self.rests_on.append(max(found, key=TRUST.index))
        return bool(found)

    def why_not(self, evidence_id: str, least: Trust | None = None) -> str:
        """Explain why evidence is not present: the fault of the last evidence with that id."""
        known = self._by_id.get(evidence_id)
        flaw = self._flaw(known[-1], self._least(evidence_id, least)) if known else verdict_words.IS_NOT_THERE()
        return verdict_words.EVIDENCE(name=evidence_id, why=flaw)

    def rely(self, trust: Trust) -> None:
        """Note something other than evidence that being done rests on."""
        self.rests_on.append(trust)

    def _least(self, evidence_id: str, least: Trust | None) -> Trust:
        if not self.promise.checks:
            return least or "attested"
        checks = [check for check in self.promise.checks if check.id == evidence_id]
        asked = [each for each in (least, *(check.min_trust for check in checks)) if each is not None]
        return max(asked or [_gives(check) for check in checks] or ["attested"], key=TRUST.index)

    @staticmethod
    def _flaw(evidence: Evidence, least: Trust) -> str:
        if not evidence.passed:
            return verdict_words.FAILED_BECAUSE(why=evidence.detail) if evidence.detail else verdict_words.FAILED()
        if not evidence.fresh:
            return verdict_words.STALE()
        if not evidence.overrules and TRUST.index(evidence.trust) < TRUST.index(least):
            return verdict_words.LITTLE_TRUST(trust=evidence.trust, least=least)
        return ""


def _gives(check: AnyCheck) -> Trust:
    """Return the trust that evidence of a check needs by default.

    An agent's own report needs `attested` like evidence without a check: claims count only where that is written.
    """
    if check.kind == "report" or (isinstance(check, ArtifactCheck) and check.accepted_by):
        return "attested"
    return _KIND_TRUST.get(check.kind, "observed")


def _unshown(promise: CompletionPromise, weighing: _Weighing) -> Iterator[str]:
    """Criteria that ask for evidence and have none."""
    for criterion in promise.acceptance:
        ids, least = criterion.evidence_required, criterion.min_trust
        if ids and not weighing.has_any(ids, least):
            reasons = [weighing.why_not(evidence_id, least) for evidence_id in ids]
            yield verdict_words.NOT_SHOWN(name=criterion.id, whys=join(reasons))


def _unmet(promise: CompletionPromise, condition: DoneCondition, weighing: _Weighing) -> str | None:
    """Explain why a condition of done does not hold. `_unshown` reports criteria without evidence."""
    target = condition.target
    match condition.type:
        case "acceptance-met":
            known = target in {None, _EVERY} or any(each.id == target for each in promise.acceptance)
            return None if known else verdict_words.UNKNOWN_CRITERION(name=target)
        case "gate-passed":
            return _gate_unmet(target, weighing)
        case "evidence-present":
            if not target:
                return verdict_words.WHICH_EVIDENCE()
            return None if weighing.has(target) else verdict_words.NO_EVIDENCE(why=weighing.why_not(target))
        case "user-confirmed" if weighing.confirmed is not None:
            weighing.rely(weighing.confirmed)
            return None
    return verdict_words.UNCONFIRMED()


def _gate_unmet(target: str | None, weighing: _Weighing) -> str | None:
    if not target:
        return verdict_words.WHICH_CHECKPOINT()
    allowed = weighing.gates.get(target)
    if allowed:
        weighing.rely("observed")
        return None
    unmet = verdict_words.NO_GATE_RESULT if allowed is None else verdict_words.GATE_DENIED
    return unmet(name=target)


def _demands(promise: CompletionPromise) -> bool:
    """Whether there is anything to look at before the promise counts as fulfilled."""
    return bool(promise.acceptance) and (
        bool(promise.required_evidence)
        or any(criterion.evidence_required for criterion in promise.acceptance)
        or any(condition.type != "acceptance-met" for condition in promise.done_when)
    )


def _unverified(promise: CompletionPromise, evidence: Sequence[Evidence]) -> Iterator[str]:
    proven = {each.id for each in evidence if each.passed and each.fresh and each.trust != "claimed"}
    for each in evidence:
        if each.passed and each.trust == "claimed" and each.id not in proven:
            yield each.id
    for criterion in promise.acceptance:
        if not criterion.evidence_required:
            yield f"criterion:{criterion.id}"


def derive_promise(node: Node, *, promise_id: str, score: float | None = None) -> CompletionPromise:
    """Derive the promise of a task without its own; every part of it is evidence of the engine.

    Before the turn there is no score, and only unconditional outputs are promised. After it the score makes
    others due.
    """
    wanted = [f"{OUTPUT}{output.name}" for output in due_outputs(node, score)]
    wanted += [] if due_outputs(node, None) else ["result"]
    wanted += ["score"] if node.score_required else []
    wanted += ["gates"] if node.gates else []
    return CompletionPromise.from_values(
        id=promise_id,
        objective=describe_objective(node),
        acceptance=tuple(
            AcceptanceCriterion.from_values(
                id=name, description=describe_evidence(name), evidence_required=(name,), min_trust="observed"
            )
            for name in wanted
        ),
        required_evidence=tuple(wanted),
    )


def describe_objective(node: Node) -> Message:
    """Return the objective of a task that has no promise of its own."""
    if node.name:
        return task_words.NAMED_TASK_DONE(task=node.task_id, name=node.name)
    return task_words.TASK_DONE(task=node.task_id)


def describe_evidence(evidence_id: str, otherwise: str = "") -> str:
    """Return what evidence that the engine sees itself shows. Of a check that was added later, return `otherwise`."""
    if evidence_id.startswith(OUTPUT):
        return task_words.OUTPUT(name=evidence_id.removeprefix(OUTPUT))
    return _SHOWS[evidence_id]() if evidence_id in _SHOWS else otherwise


def make_claim_promise(task_id: str) -> CompletionPromise:
    """Make the promise of a task in a foreign plan: its agent's claim is enough."""
    criterion = AcceptanceCriterion.from_values(
        id=RECEIPT, description="The agent says that it is done", evidence_required=(RECEIPT,), min_trust="claimed"
    )
    return CompletionPromise.from_values(
        id="", objective=f"Task {task_id} is done, as its agent says", acceptance=(criterion,)
    )


def make_receipt_evidence(*, passed: bool, by: str, at: str) -> Evidence:
    """Evidence from the receipt of an agent: a claim."""
    return Evidence(RECEIPT, passed, fresh=True, trust="claimed", by=by, at=at)


def merge_promises(nodes_promise: CompletionPromise, commands_promise: CompletionPromise) -> CompletionPromise:
    """Add to the node's promise what the promise of an agent's command requires.

    Nothing of the node's is taken away or loosened. A name that both use for different things means the node's;
    the command's gets another. A node's promise that nothing could fulfil stays one.
    """
    if not _demands(nodes_promise):
        return nodes_promise
    evidence = _names(_evidence_named(nodes_promise), _grouped(nodes_promise.checks), _grouped(commands_promise.checks))
    asked = [_with_evidence(each, evidence) for each in commands_promise.acceptance]
    criteria = _names(_criteria_named(nodes_promise), _grouped(nodes_promise.acceptance), _grouped(asked))
    done = [_with_target(each, criteria, evidence) for each in commands_promise.done_when]
    required = (evidence.get(each, each) for each in commands_promise.required_evidence)
    allowed, shut = _narrowed(nodes_promise.allowed_scope, commands_promise.allowed_scope)
    return nodes_promise.model_copy(
        update={
            "acceptance": _joined(nodes_promise.acceptance, (_renamed(each, criteria) for each in asked)),
            "checks": _joined(nodes_promise.checks, (_renamed(each, evidence) for each in commands_promise.checks)),
            "required_evidence": tuple(dict.fromkeys([*nodes_promise.required_evidence, *required])),
            "done_when": _joined(nodes_promise.done_when, done),
            "abort_when": _joined(nodes_promise.abort_when, commands_promise.abort_when),
            "allowed_scope": allowed,
            "disallowed_scope": _forbidden(nodes_promise.disallowed_scope, commands_promise.disallowed_scope, shut),
            "budget": _tighter(nodes_promise.budget, commands_promise.budget),
        }
    )


_Named = TypeVar("_Named", AcceptanceCriterion, AnyCheck)
_Part = TypeVar("_Part", bound=Part)


def _evidence_named(promise: CompletionPromise) -> set[str]:
    """Collect the evidence ids that a promise defines."""
    return {
        *promise.required_evidence,
        *(check.id for check in promise.checks),
        *(name for criterion in promise.acceptance for name in criterion.evidence_required),
        *(each.target for each in promise.done_when if each.type == "evidence-present" and each.target),
    }


def _criteria_named(promise: CompletionPromise) -> set[str]:
    """Collect the criteria that a promise names, undefined ones included."""
    return {
        *(criterion.id for criterion in promise.acceptance),
        *(each.target for each in promise.done_when if each.type == "acceptance-met" and each.target),
    }


def _grouped(parts: Iterable[_Named]) -> dict[str, list[_Named]]:
    groups: dict[str, list[_Named]] = {}
    for part in parts:
        groups.setdefault(part.id, []).append(part)
    return groups


def _names(taken: set[str], theirs: dict[str, list[_Named]], ours: dict[str, list[_Named]]) -> dict[str, str]:
    """Map each added name to its name beside the node's: the same, unless the node uses it for something else."""
    names: dict[str, str] = {}
    used = set(taken)
    for name, group in ours.items():
        new = name
        while new in used and theirs.get(new) != [part.model_copy(update={"id": new}) for part in group]:
            new = _ADDED + new
        used.add(new)
        names[name] = new
    return names


def _renamed(part: _Named, names: dict[str, str]) -> _Named:
    return part.model_copy(update={"id": names[part.id]})


def _with_evidence(criterion: AcceptanceCriterion, names: dict[str, str]) -> AcceptanceCriterion:
    ids = tuple(names.get(each, each) for each in criterion.evidence_required)
    return criterion.model_copy(update={"evidence_required": ids})


def _with_target(condition: DoneCondition, criteria: dict[str, str], evidence: dict[str, str]) -> DoneCondition:
    names = {"acceptance-met": criteria, "evidence-present": evidence}.get(condition.type, {})
    target = condition.target
    return condition.model_copy(update={"target": names.get(target, target) if target else target})


def _joined(theirs: Sequence[_Part], added: Iterable[_Part]) -> tuple[_Part, ...]:
    """Join both lists without duplicates."""
    parts = list(theirs)
    parts += [each for each in added if each not in theirs]
    return tuple(parts)


def _narrowed(theirs: Sequence[str], added: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List what both scopes certainly allow, and what else is disallowed: everything, when they share nothing.

    Exceptions (`!glob`) of either side stay, and come last so that nothing overrides them.
    """
    theirs, added = list(dict.fromkeys(theirs)), list(dict.fromkeys(added))
    if not theirs or not added or theirs == added:
        return tuple(theirs or added), ()
    pairs = [(one, other) for one in theirs for other in added]
    both = [narrow for one, other in pairs for narrow, wide in ((one, other), (other, one)) if _within(narrow, wide)]
    if not both:
        return tuple(theirs), ("**",)
    exceptions = [glob for glob in (*theirs, *added) if glob.startswith("!")]
    return tuple(dict.fromkeys([*both, *exceptions])), ()


def _forbidden(theirs: Sequence[str], added: Sequence[str], shut: Sequence[str]) -> tuple[str, ...]:
    """List what either side forbids.

    The last glob that matches decides, so exceptions (`!glob`) of what is added count for nothing: they would take
    back what the node forbids. Of a glob that comes twice, only the last place means anything.
    """
    every = [*theirs, *(glob for glob in added if not glob.startswith("!")), *shut]
    return tuple(reversed(dict.fromkeys(reversed(every))))


def _within(narrow: str, wide: str) -> bool:
    """Whether all that one glob allows is certainly allowed by the other."""
    if narrow.startswith("!") or wide.startswith("!"):
        return False
    # A glob that is the folder's name alone, without anything behind it, means folders of that name at any depth.
    inside = wide.endswith("/**") and narrow.rstrip("/").startswith(wide.removesuffix("**"))
    return wide in {narrow, "**"} or inside


def _tighter(theirs: Budget | None, added: Budget | None) -> Budget | None:
    if theirs is None or added is None:
        return theirs or added
    limits = {}
    for name in Budget.model_fields:
        known = [limit for limit in (getattr(theirs, name), getattr(added, name)) if limit is not None]
        limits[name] = min(known, default=None)
    return theirs.model_copy(update=limits)
