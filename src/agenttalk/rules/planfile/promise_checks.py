"""Checks whether the promises of a plan file would prove anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from fnmatch import fnmatchcase
from typing import Final, get_args

from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.planfile.model import TaskSpec
from agenttalk.contracts.promise import (
    AnyCheck,
    ArtifactCheck,
    CasesCheck,
    Checkpoint,
    CompletionPromise,
    ForgeCheck,
    HumanCheck,
    MutantsCheck,
    OtherCheck,
    ReportCheck,
    RunCheck,
    ServedCheck,
    TestsCheck,
)
from agenttalk.rules.checks import case_results, protection, service_results
from agenttalk.rules.commands import promises
from agenttalk.rules.text import plan_words
from agenttalk.rules.toolchain import forge_checks

_UNKNOWN: Final = {
    "criterion": plan_words.PROBLEMS["unknown_criterion"],
    "checkpoint": plan_words.PROBLEMS["unknown_checkpoint"],
    "evidence": plan_words.PROBLEMS["unknown_evidence"],
    "budget": plan_words.PROBLEMS["unknown_budget"],
}
"""Kind of target → the sentence about an unknown one."""

BUDGETS: Final = ("token", "time", "tool-calls", "cost")
_MAX_STEPS: Final = 64
_SPECIAL: Final = frozenset("*?[")

PromiseFinding = tuple[bool, Problem]
"""Whether a problem refuses the plan, and the problem."""
UnknownDescriber = Callable[[str, str, Collection[str]], tuple[str, str]]
"""A kind of thing, an unknown name and the known names → message and hint."""


def check(
    task: TaskSpec, *, names: Collection[str], agents: Collection[str], unknown: UnknownDescriber
) -> Iterator[PromiseFinding]:
    """Find the problems of a task's promise. `names` are all outputs of the plan, `agents` its agents."""
    promise = task.promise
    if promise is None:
        return
    for issue in promises.validate(promise).issues:
        hint = "" if issue.severity == "hard-deny" else f"{issue.severity}: submitting the plan reports it again"
        problem = Problem(Code.PROMISE_INVALID, issue.field, issue.message, hint)
        yield issue.severity == "hard-deny", problem
    yield from _criteria(promise)
    yield from _conditions(promise)
    yield from _checks(promise)
    yield from _artifacts(task, promise, names, agents, unknown)
    for problem in _overlaps(promise):
        yield True, problem


def is_inside(glob: str, outer: str) -> bool:
    """Whether another glob matches everything that one glob can match. False if that is not certain."""
    if glob[:1] in {"", "!"} or outer[:1] in {"", "!"}:
        return False
    steps, around = _steps(glob), _steps(outer)
    if max(len(steps), len(around)) > _MAX_STEPS:
        return False
    end = len(around)
    reached = _next({0}, around)
    for step in steps:
        if end in reached:
            return True  # the outer glob matches a folder on the way, and so everything in it
        stay = {at for at in reached if around[at] == "**"}
        reached = _next(stay | {at + 1 for at in reached - stay if _covers(around[at], step)}, around)
    return end in reached


def _next(places: set[int], around: list[str]) -> set[int]:
    """Add the places behind each `**`, which may also stand for no part."""
    reached = set(places)
    for at, step in enumerate(around):
        if at in reached and step == "**":
            reached.add(at + 1)
    return reached


def _steps(glob: str) -> list[str]:
    """Split a glob as git reads it: without a slash it matches at any depth, with one at the end everything below."""
    anchored = "/" in glob.rstrip("/")
    steps = [step for step in glob.split("/") if step not in {"", "."}]
    if glob.endswith("/"):
        steps.append("**")
    return steps if anchored else ["**", *steps]


def _covers(outer: str, step: str) -> bool:
    if step == "**":
        return False
    if _SPECIAL.isdisjoint(step):
        return fnmatchcase(step, outer)
    # A star of the inner part matches anything, which only a star of the outer part covers.
    return outer == step or (_SPECIAL.isdisjoint(outer.replace("*", "")) and fnmatchcase(step, outer))


def _criteria(promise: CompletionPromise) -> Iterator[PromiseFinding]:
    checks = {check.id: check for check in promise.checks}
    human = any(isinstance(check, HumanCheck) for check in promise.checks)
    for at, criterion in enumerate(promise.acceptance):
        where = f"acceptance[{at}].evidenceRequired"
        wanted = criterion.evidence_required
        if not wanted and not human:
            message = plan_words.PROBLEMS["unshown"](name=criterion.id)
            yield True, Problem(Code.CRITERION_UNPROVEN, where, message, plan_words.HINTS["name_check"]())
        reports = [checks[name] for name in wanted if isinstance(checks.get(name), ReportCheck)]
        accepted = criterion.min_trust == "claimed" or all(report.min_trust == "claimed" for report in reports)
        if wanted and len(reports) == len(wanted) and not accepted:
            message = plan_words.PROBLEMS["only_reports"](name=criterion.id)
            hint = plan_words.HINTS["engine_check"]()
            yield True, Problem(Code.CRITERION_UNPROVEN, where, message, hint)
        yield from _unmade(where, wanted, checks)
    yield from _unmade("requiredEvidence", promise.required_evidence, checks)


def _unmade(where: str, wanted: Collection[str], checks: Collection[str]) -> Iterator[PromiseFinding]:
    for at, name in enumerate(wanted):
        if name not in checks:
            near = find_nearest(name, list(checks)) if len(checks) <= 50 else None
            hint = plan_words.HINTS["near"](name=near) if near else plan_words.HINTS["add_check"]()
            message = plan_words.PROBLEMS["unmade"](name=name)
            yield False, Problem(Code.PLAN_DOUBTFUL, f"{where}[{at}]", message, hint)


def _conditions(promise: CompletionPromise) -> Iterator[PromiseFinding]:
    criteria = {criterion.id for criterion in promise.acceptance}
    places: tuple[str, ...] = get_args(Checkpoint)
    for at, done in enumerate(promise.done_when):
        where = f"doneWhen[{at}].target"
        if done.type == "acceptance-met" and done.target not in {None, "*", *criteria}:
            yield _odd_target(where, "criterion", str(done.target), criteria)
        elif done.type == "gate-passed" and done.target not in places:
            yield _odd_target(where, "checkpoint", str(done.target), places)
        elif done.type == "gate-passed" and done.target == "pre-ship":
            message = plan_words.PROBLEMS["pre_ship"]()
            yield False, Problem(Code.PLAN_DOUBTFUL, where, message, plan_words.HINTS["other_checkpoint"]())
        elif done.type == "evidence-present" and not done.target:
            yield _odd_target(where, "evidence", str(done.target), [check.id for check in promise.checks])
    for at, abort in enumerate(promise.abort_when):
        if abort.type == "budget-exhausted" and abort.target not in {None, "*", *BUDGETS}:
            yield _odd_target(f"abortWhen[{at}].target", "budget", str(abort.target), BUDGETS)


def _odd_target(where: str, what: str, name: str, known: Collection[str]) -> PromiseFinding:
    near = find_nearest(name, list(known))
    options = plan_words.HINTS["options"](names=", ".join(sorted(known)) or "none")
    hint = plan_words.HINTS["near"](name=near) if near else options
    return True, Problem(Code.PROMISE_INVALID, where, _UNKNOWN[what](name=name), hint)


def _checks(promise: CompletionPromise) -> Iterator[PromiseFinding]:
    counts = Counter(check.id for check in promise.checks)
    seen: set[str] = set()
    for at, check in enumerate(promise.checks):
        if counts[check.id] > 1 and check.id in seen:
            message = plan_words.PROBLEMS["check_twice"](name=check.id)
            yield True, Problem(Code.NAME_TAKEN, f"checks[{at}].id", message, plan_words.HINTS["own_check_id"]())
        seen.add(check.id)
        if isinstance(check, OtherCheck):
            message = plan_words.PROBLEMS["other_kind"](kind=check.kind)
            yield False, Problem(Code.PLAN_DOUBTFUL, f"checks[{at}].kind", message, plan_words.HINTS["spelling"]())
        if isinstance(check, MutantsCheck):
            yield from _mutants(f"checks[{at}].of", check, promise)
        for name, why in _find_own_faults(check):
            yield True, Problem(Code.PROMISE_INVALID, f"checks[{at}].{name}", why, plan_words.HINTS["see_checks"]())


def _find_own_faults(check: AnyCheck) -> Iterator[tuple[str, str]]:
    """Find what a check would refuse by itself: the field, and why."""
    if isinstance(check, ServedCheck):
        yield from service_results.find_faults(check)
    if isinstance(check, CasesCheck):
        yield from case_results.find_faults(check)
    if isinstance(check, ForgeCheck):
        yield from forge_checks.find_faults(check)


def _mutants(where: str, check: MutantsCheck, promise: CompletionPromise) -> Iterator[PromiseFinding]:
    """Find what is wrong with the check that has to notice mutants."""
    known = [each.id for each in promise.checks if isinstance(each, RunCheck | TestsCheck)]
    if check.of not in known:
        near = find_nearest(check.of, known)
        hint = plan_words.HINTS["near"](name=near) if near else plan_words.HINTS["run_check"]()
        yield True, Problem(Code.NAME_UNKNOWN, where, plan_words.PROBLEMS["unnoticed"](name=check.of), hint)


def _artifacts(
    task: TaskSpec,
    promise: CompletionPromise,
    names: Collection[str],
    agents: Collection[str],
    unknown: UnknownDescriber,
) -> Iterator[PromiseFinding]:
    own = {output.name for output in task.outputs}
    for at, check in enumerate(promise.checks):
        if not isinstance(check, ArtifactCheck):
            continue
        if check.output not in names:
            yield True, Problem(Code.NAME_UNKNOWN, f"checks[{at}].output", *unknown("output", check.output, names))
        if check.accepted_by is not None and check.output in own:
            message = plan_words.PROBLEMS["accepted_late"](name=check.output, task=task.id)
            hint = plan_words.HINTS["later_check"]()
            yield True, Problem(Code.CHECK_CIRCULAR, f"checks[{at}].accepted_by", message, hint)
        elif check.accepted_by is not None and check.accepted_by not in agents:
            where = f"checks[{at}].accepted_by"
            yield True, Problem(Code.DAG_AGENT_UNKNOWN, where, *unknown("agent", check.accepted_by, agents))


def _overlaps(promise: CompletionPromise) -> Iterator[Problem]:
    guards = [
        (glob, check.id)
        for check in promise.checks
        for glob in (*(check.protected or ()), *protection.list_own_files(check))
    ]
    for check in promise.checks:
        if protection.holds_configuration(check):
            guards += [(glob, check.id) for glob in protection.list_configuration(check)]
    for at, glob in enumerate(promise.allowed_scope):
        guard = next(((outer, name) for outer, name in guards if is_inside(glob, outer)), None)
        if guard:
            message = plan_words.PROBLEMS["all_protected"](glob=glob, outer=guard[0], check=guard[1])
            hint = plan_words.HINTS["allow_other"]()
            yield Problem(Code.SCOPE_PROTECTED_OVERLAP, f"allowedScope[{at}]", message, hint)
