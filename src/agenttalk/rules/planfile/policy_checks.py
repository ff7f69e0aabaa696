"""Checks a plan's review and release: each gate needs a judge, and no agent may judge its own work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.plan import Deliverable, GatePolicy, ReleasePolicy, ReviewPolicy
from agenttalk.contracts.planfile.model import GateSpec, PlanFile
from agenttalk.rules.proof.dag_review import VERDICTS
from agenttalk.rules.proof.release import NEVER_BY_DEFAULT, find_named_gate
from agenttalk.rules.text import plan_words

KINDS: Final = ("run", "tests", "file", "json", "http")
"""Kinds of checks that a release gate can be: those that the engine decides alone."""
UnknownDescriber = Callable[[str, str, Collection[str]], tuple[str, str]]
"""A kind of thing, an unknown name and the known names → message and hint."""


def list_required_gates(plan: PlanFile) -> tuple[str, ...]:
    """List the gates that a release of the plan needs: those that its policies name, or else all that it describes."""
    named = plan.policies.release_gates_required
    return named or (tuple(plan.release.gates) if plan.release else ())


def make_release_policy(plan: PlanFile) -> ReleasePolicy | None:
    """Make the release policy of a plan. None if nothing is released."""
    spec = plan.release
    if spec is None and not plan.policies.release_gates_required:
        return None
    gates = {name: _gate(plan, gate) for name, gate in spec.gates.items()} if spec else {}
    shipped = [
        Deliverable(name=output.name, from_task_id=task.id)
        for task in plan.tasks
        for output in task.outputs
        if (output.name in spec.deliverables if spec and spec.deliverables else output.deliverable)
    ]
    return ReleasePolicy(gates=gates, deliverables=tuple(shipped), accepted_by=spec.accepted_by if spec else ())


def _gate(plan: PlanFile, gate: GateSpec) -> GatePolicy:
    if gate.validator is not None:
        return GatePolicy(validator=gate.validator)
    return GatePolicy(check=gate.check, on=gate.on or ("tip" if plan.workspace else "artifacts"))


def make_review_policy(plan: PlanFile) -> ReviewPolicy | None:
    """Make the policy for the review of the DAG. None if the plan has no review."""
    return ReviewPolicy.read(plan.review.as_json()) if plan.review else None


def list_judges(plan: PlanFile) -> Iterator[str]:
    """Yield the agents that review, validate or accept."""
    if plan.review:
        yield from plan.review.reviewers
        if plan.review.coordinator:
            yield plan.review.coordinator
    if plan.release:
        yield from plan.release.accepted_by
        yield from (gate.validator for gate in plan.release.gates.values() if gate.validator)


def check(plan: PlanFile, agents: Collection[str], unknown: UnknownDescriber) -> Iterator[Problem]:
    """Find all problems of a plan's review and release."""
    yield from _timeouts(plan)
    yield from _review(plan, agents, unknown)
    policy = make_release_policy(plan)
    if policy is not None:
        yield from _required(plan)
        yield from _shipped(plan, policy, unknown)
        yield from _gates(plan, policy, agents, unknown)


def _timeouts(plan: PlanFile) -> Iterator[Problem]:
    timeouts = plan.policies.timeouts
    where = "policies.timeouts.{}.default_decision"
    gate = timeouts.release_gate if timeouts else None
    if gate and (gate.default_decision or "").upper() == NEVER_BY_DEFAULT:
        message = plan_words.PROBLEMS["no_default_release"]()
        yield Problem(Code.FIELD_VALUE, where.format("release_gate"), message, plan_words.HINTS["write_reject"]())
    review = timeouts.dag_review if timeouts else None
    if review and review.default_decision not in {None, *VERDICTS}:
        hint = plan_words.HINTS["options"](names=", ".join(VERDICTS))
        yield Problem(Code.FIELD_VALUE, where.format("dag_review"), plan_words.PROBLEMS["no_review_decision"](), hint)


def _review(plan: PlanFile, agents: Collection[str], unknown: UnknownDescriber) -> Iterator[Problem]:
    review = plan.review
    if review is None:
        return
    if not review.reviewers:
        yield Problem(
            Code.FIELD_MISSING,
            "review.reviewers",
            plan_words.PROBLEMS["no_reviewer"](),
            plan_words.HINTS["name_agents"](),
        )
    named = [(f"review.reviewers[{at}]", name) for at, name in enumerate(review.reviewers)]
    yield from _twice(named, "reviewer")
    for where, name in [*named, *([("review.coordinator", review.coordinator)] if review.coordinator else [])]:
        if name not in agents:
            yield Problem(Code.DAG_AGENT_UNKNOWN, where, *unknown("agent", name, agents))
        elif name == plan.policies.planner:
            message = plan_words.PROBLEMS["planner_reviews"](name=name)
            yield Problem(Code.JUDGE_NOT_TRUSTED, where, message, plan_words.HINTS["other_agent"]())


def _twice(named: Sequence[tuple[str, str]], what: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for where, name in named:
        if name in seen:
            yield Problem(Code.NAME_TAKEN, where, f"the {what} {name!r} is named twice", "name it once")
        seen.add(name)


def _required(plan: PlanFile) -> Iterator[Problem]:
    gates = plan.release.gates if plan.release else {}
    named = [(f"policies.release_gates_required[{at}]", gate) for at, gate in enumerate(list_required_gates(plan))]
    yield from _twice(named, "gate")
    for where, name in named:
        if name not in gates:
            message = f"nothing says how the gate {name!r} gets its result"
            hint = f"write release: {{gates: {{{name}: {{kind: run, run: COMMAND}}}}}}, or {{validator: AGENT}}"
            yield Problem(Code.FIELD_MISSING, where, message, hint)


def _shipped(plan: PlanFile, policy: ReleasePolicy, unknown: UnknownDescriber) -> Iterator[Problem]:
    names = {output.name for task in plan.tasks for output in task.outputs}
    for at, name in enumerate(plan.release.deliverables if plan.release else ()):
        if name not in names:
            yield Problem(Code.NAME_UNKNOWN, f"release.deliverables[{at}]", *unknown("output", name, names))
    if not policy.deliverables:
        hint = plan_words.HINTS["mark_outputs"]()
        yield Problem(Code.FIELD_MISSING, "release.deliverables", plan_words.PROBLEMS["nothing_to_ship"](), hint)


def _gates(
    plan: PlanFile, policy: ReleasePolicy, agents: Collection[str], unknown: UnknownDescriber
) -> Iterator[Problem]:
    makers = _makers(plan, policy)
    for at, name in enumerate(policy.accepted_by):
        yield from _judge(f"release.accepted_by[{at}]", name, makers, agents, unknown)
    for gate, spec in plan.release.gates.items() if plan.release else ():
        where = f"release.gates.{gate}"
        if (spec.check is None) == (spec.validator is None):
            hint = plan_words.HINTS["write_gate"]()
            yield Problem(Code.FIELD_VALUE, where, plan_words.PROBLEMS["check_or_validator"](), hint)
        elif spec.check is not None and spec.check.kind not in KINDS:
            message: str = plan_words.PROBLEMS["no_release_check"](kind=spec.check.kind)
            yield Problem(
                Code.FIELD_VALUE, f"{where}.kind", message, plan_words.HINTS["options"](names=", ".join(KINDS))
            )
        if spec.on == "tip" and plan.workspace is None:
            yield Problem(
                Code.FIELD_VALUE,
                f"{where}.on",
                plan_words.PROBLEMS["no_repository"](),
                plan_words.HINTS["on_artifacts"](),
            )
        if spec.validator is not None:
            yield from _judge(f"{where}.validator", spec.validator, makers, agents, unknown)
            if not _delivers(plan, spec.validator, gate):
                missing = f"no task of {spec.validator!r} delivers a result of the gate {gate!r}"
                wanted = f"give one the output {gate}_gate_result.json"
                yield Problem(Code.FIELD_VALUE, f"{where}.validator", missing, wanted)


def _judge(
    where: str, name: str, makers: dict[str, str], agents: Collection[str], unknown: UnknownDescriber
) -> Iterator[Problem]:
    if name not in agents:
        yield Problem(Code.DAG_AGENT_UNKNOWN, where, *unknown("agent", name, agents))
    elif name in makers:
        message = plan_words.PROBLEMS["maker_judges"](name=name, output=makers[name])
        yield Problem(Code.JUDGE_NOT_TRUSTED, where, message, plan_words.HINTS["other_agent"]())


def _makers(plan: PlanFile, policy: ReleasePolicy) -> dict[str, str]:
    """Map each agent that makes a shipped deliverable to its name."""
    tasks = {task.id: task.agent for task in plan.tasks}
    return {str(tasks[item.from_task_id]): item.name for item in policy.deliverables if item.from_task_id in tasks}


def _delivers(plan: PlanFile, validator: str, gate: str) -> bool:
    names = [output.name for task in plan.tasks if task.agent == validator for output in task.outputs]
    return any(find_named_gate(name) in {"", gate} for name in names)
