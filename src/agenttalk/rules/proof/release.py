"""Decide whether a plan's results may be shipped. No word of an agent approves, and anything missing rejects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import ContractError, JsonError
from agenttalk.contracts.validation import ReleaseGateResult
from agenttalk.rules.text import verdict_words
from agenttalk.rules.text.message import ABOUT

if TYPE_CHECKING:
    from agenttalk.contracts.plan import ReleasePolicy
    from agenttalk.contracts.validation import GateDecision
    from agenttalk.rules.core.task_states import State

ENGINE: Final = "engine"
VALIDATION: Final = "artifact_validation_result"
"""What the name of an output begins with that is a validator's result."""
_AFTER = re.compile(r"release_gate_result[_.-](?P<gate>.+?)(\.json)?\Z")
_BEFORE = re.compile(r"(?P<gate>.+)_gate_result(\.json)?\Z")
_ANY: Final = "release_gate_result"
NEVER_BY_DEFAULT: Final = "APPROVE"
"""Decisions that a release gate cannot have by default."""


@dataclass(frozen=True, slots=True)
class DeliverableState:
    """The state of a deliverable in one of the tasks that make it."""

    name: str
    task_id: str
    state: State
    fresh: bool = True
    """Whether what shows that the task is done still holds."""
    needed: bool = True
    """Whether that task had to make it: not when it is optional, or no branch called for the task."""
    producer: str = ""
    sha256: str = ""
    """Hash of what was made; empty if nothing was."""
    promise_id: str = ""
    refused_by: tuple[str, ...] = ()
    accepted_by: tuple[str, ...] = ()
    isolated: bool = True
    """Whether its agent and the checks of its work ran in a sandbox."""


@dataclass(frozen=True, slots=True)
class GateFinding:
    """A result of a gate, wherever it comes from."""

    gate: str
    decision: GateDecision
    subjects: frozenset[str]
    """Hashes of what it is about."""
    by: str
    """Who made it, as the engine knows: itself, or the agent of the task that delivered it."""
    ref: str
    """Hash of the result itself."""
    fresh: bool = True
    detail: str = ""
    isolated: bool | None = None
    """Whether the engine's own check ran in a sandbox; None if it is not its own, or starts nothing."""


@dataclass(frozen=True, slots=True)
class ReleaseDecision:
    """Whether it is released, with every reason that stands against it."""

    approved: bool
    reasons: tuple[str, ...]
    shipped: tuple[DeliverableState, ...]
    evidence: tuple[GateFinding, ...]
    """Results that it rests on."""

    @property
    def decision(self) -> Literal["APPROVE", "REJECT"]:
        """In one word."""
        return "APPROVE" if self.approved else "REJECT"


def find_named_gate(output_name: str) -> str | None:
    """Find the gate that an output's name means; empty if only its content tells, None if it is not one."""
    if output_name.removesuffix(".json") == _ANY:
        return ""
    found = _AFTER.match(output_name) or _BEFORE.match(output_name)
    return found["gate"] if found else None


def is_for_engine(output_name: str) -> bool:
    """Whether an output is a judgement that the engine itself reads, so that it needs no other receiver."""
    return output_name.startswith(VALIDATION) or find_named_gate(output_name) is not None


def read_gate_result(
    output_name: str, data: bytes, *, by: str, fresh: bool, agents: Sequence[str]
) -> GateFinding | str:
    """Read a gate's result that a task of agent `by` delivered, or return why it is not one."""
    try:
        document = ReleaseGateResult.from_bytes(data)
    except (JsonError, ContractError) as error:
        return verdict_words.RELEASE["unreadable"](output=output_name, by=by, why=error.message)
    named = find_named_gate(output_name) or ""
    gate = document.gate or named
    if not gate or (named and gate != named):
        return verdict_words.RELEASE["other_gate"](output=output_name, by=by, gate=document.gate or "")
    if document.produced_by != by and document.produced_by in agents:
        return verdict_words.RELEASE["other_maker"](output=output_name, by=by, who=document.produced_by)
    return GateFinding(gate, document.decision, frozenset({document.subject.sha256}), by, wire.sha256(data), fresh)


def decide(
    policy: ReleasePolicy,
    required: Sequence[str],
    made: Sequence[DeliverableState],
    results: Sequence[GateFinding],
    *,
    faults: Sequence[str] = (),
) -> ReleaseDecision:
    """Approve, or reject with every reason. `faults` are what went wrong while results were obtained."""
    names = dict.fromkeys(each.name for each in policy.deliverables)
    shipped = tuple(each for each in made if each.sha256 and each.state == "COMPLETED" and each.name in names)
    needed = dict.fromkeys(required)
    reasons = dict.fromkeys(
        [
            *faults,
            *(text for name in names for text in _not_accepted(policy, name, made)),
            *([] if shipped else [verdict_words.RELEASE["nothing"]()]),
            *(text for gate in needed for text in _not_passed(policy, gate, shipped, results)),
        ]
    )
    hashes = {each.sha256 for each in shipped}
    evidence = tuple(each for each in results if each.gate in needed and each.subjects & hashes)
    return ReleaseDecision(not reasons, tuple(reasons), shipped, evidence)


def _not_accepted(policy: ReleasePolicy, name: str, made: Sequence[DeliverableState]) -> Iterator[str]:
    """Explain why a deliverable is not accepted. One of its tasks must have made it; each that did must hold."""
    makers = [each for each in made if each.name == name]
    there = [each for each in makers if each.sha256 and each.state == "COMPLETED"]
    if not there:
        missing = [each for each in makers if each.needed] if makers else [None]
        for lacking in missing:
            made_by = (
                verdict_words.RELEASE["task_is"](task=lacking.task_id, state=lacking.state)
                if lacking
                else verdict_words.RELEASE["no_maker"]()
            )
            yield verdict_words.RELEASE["absent"](name=name, why=made_by)
    for each in there:
        if not each.fresh:
            yield verdict_words.RELEASE["stale"](name=name, task=each.task_id)
        for who in each.refused_by:
            yield verdict_words.RELEASE["refused"](name=name, who=who)
        for who in policy.accepted_by:
            if who == each.producer:
                yield verdict_words.RELEASE["own_maker"](name=name, who=who)
            elif who not in each.accepted_by:
                yield verdict_words.RELEASE["not_accepted"](name=name, who=who)


def _not_passed(
    policy: ReleasePolicy, gate: str, shipped: Sequence[DeliverableState], results: Sequence[GateFinding]
) -> Iterator[str]:
    """Explain why a required gate is not passed."""
    given = [each for each in results if each.gate == gate]
    if gate not in policy.gates:
        yield verdict_words.RELEASE["gate_unknown"](gate=gate)
        return
    if not given:
        yield verdict_words.RELEASE["gate_open"](gate=gate)
        return
    trusted = []
    for each in given:
        doubt = _doubt(policy, gate, each, shipped)
        if doubt:
            yield verdict_words.RELEASE["gate_doubt"](gate=gate, why=doubt)
        else:
            trusted.append(each)
    for artifact in shipped:
        yield from _not_covered(gate, artifact, trusted)


def _doubt(policy: ReleasePolicy, gate: str, result: GateFinding, shipped: Sequence[DeliverableState]) -> str:
    """Explain why a result does not come from the required source; empty if it does."""
    wanted = policy.gates[gate].validator or ENGINE
    if result.by != wanted:
        return verdict_words.RELEASE["not_by"](by=result.by, who=_whose(wanted))
    own = [each.name for each in shipped if each.producer == result.by]
    return verdict_words.RELEASE["own_judge"](by=result.by, name=own[0]) if own else ""


def _whose(wanted: str) -> str:
    return verdict_words.RELEASE["engine_check"]() if wanted == ENGINE else wanted


def _not_covered(gate: str, artifact: DeliverableState, trusted: Sequence[GateFinding]) -> Iterator[str]:
    about = [each for each in trusted if artifact.sha256 in each.subjects]
    what = f"{artifact.name!r} ({artifact.sha256})"
    if not about:
        lacking = verdict_words.RELEASE["gate_elsewhere"] if trusted else verdict_words.RELEASE["gate_no_result"]
        yield lacking(gate=gate, what=what)
    for each in about:
        if each.decision != "PASS":
            says = verdict_words.RELEASE["gate_says"](gate=gate, decision=each.decision, what=what)
            yield ABOUT(subject=says, what=each.detail) if each.detail else says
    passed = [each for each in about if each.decision == "PASS"]
    if passed and not any(each.fresh for each in passed):
        yield verdict_words.RELEASE["gate_stale"](gate=gate, what=what)
