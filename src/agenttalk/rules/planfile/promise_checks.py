"""Whether a promise that is written in a plan file would prove anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from fnmatch import fnmatchcase
from typing import Final, get_args

from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.planfile.model import TaskSpec
from agenttalk.contracts.promise import (
    ArtifactCheck,
    Checkpoint,
    CompletionPromise,
    ForgeCheck,
    HumanCheck,
    OtherCheck,
    ReportCheck,
)
from agenttalk.rules.commands import promises
from agenttalk.rules.proof import protection
from agenttalk.rules.toolchain import forge_checks

BUDGETS: Final = ("token", "time", "tool-calls", "cost")
_MAX_STEPS: Final = 64
_SPECIAL: Final = frozenset("*?[")

PromiseFinding = tuple[bool, Problem]
"""Whether it refuses the plan, and what it is."""
UnknownDescriber = Callable[[str, str, Collection[str]], tuple[str, str]]
"""What something is, its name, and the names that there are → message and hint."""


def check(
    task: TaskSpec, *, names: Collection[str], agents: Collection[str], unknown: UnknownDescriber
) -> Iterator[PromiseFinding]:
    """Everything that is to be said of a task's promise. `names` are all outputs of the plan, `agents` its agents."""
    promise = task.promise
    if promise is None:
        return
    for issue in promises.validate(promise).issues:
        hint = "" if issue.severity == "hard-deny" else f"{issue.severity}: it is said again when the plan is submitted"
        problem = Problem(Code.PROMISE_INVALID, issue.field, issue.message, hint)
        yield issue.severity == "hard-deny", problem
    yield from _criteria(promise)
    yield from _conditions(promise)
    yield from _checks(promise)
    yield from _artifacts(task, promise, names, agents, unknown)
    for problem in _overlaps(promise):
        yield True, problem


def is_inside(glob: str, outer: str) -> bool:
    """Whether everything that one glob can match lies inside the other. Where that cannot be told, it does not."""
    if glob[:1] in {"", "!"} or outer[:1] in {"", "!"}:
        return False
    steps, around = _steps(glob), _steps(outer)
    if max(len(steps), len(around)) > _MAX_STEPS:
        return False
    end = len(around)
    reached = _next({0}, around)
    for step in steps:
        if end in reached:
            return True  # a folder on the way is inside, and so is all that lies in it
        stay = {at for at in reached if around[at] == "**"}
        reached = _next(stay | {at + 1 for at in reached - stay if _covers(around[at], step)}, around)
    return end in reached


def _next(places: set[int], around: list[str]) -> set[int]:
    """Where matching can go on: `**` may also stand for nothing."""
    found = set(places)
    for at, step in enumerate(around):
        if at in found and step == "**":
            found.add(at + 1)
    return found


def _steps(glob: str) -> list[str]:
    """The parts of a glob as git reads it: without a slash it means any depth, with one at the end all below."""
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
    # A star of the inner part stands for anything, which only a star of the outer one can take in.
    return outer == step or (_SPECIAL.isdisjoint(outer.replace("*", "")) and fnmatchcase(step, outer))


def _criteria(promise: CompletionPromise) -> Iterator[PromiseFinding]:
    checks = {each.id: each for each in promise.checks}
    human = any(isinstance(each, HumanCheck) for each in promise.checks)
    for at, criterion in enumerate(promise.acceptance):
        where = f"acceptance[{at}].evidenceRequired"
        wanted = criterion.evidence_required
        if not wanted and not human:
            message = f"nothing would show the criterion {criterion.id!r}"
            yield True, Problem(Code.CRITERION_UNPROVEN, where, message, "name a check, or add one of kind human")
        reports = [checks[name] for name in wanted if isinstance(checks.get(name), ReportCheck)]
        accepted = criterion.min_trust == "claimed" or all(each.min_trust == "claimed" for each in reports)
        if wanted and len(reports) == len(wanted) and not accepted:
            message = f"the criterion {criterion.id!r} rests only on what the agent says of itself"
            hint = "name a check that looks for itself, or write minTrust: claimed"
            yield True, Problem(Code.CRITERION_UNPROVEN, where, message, hint)
        yield from _unmade(where, wanted, checks)
    yield from _unmade("requiredEvidence", promise.required_evidence, checks)


def _unmade(where: str, wanted: Collection[str], checks: Collection[str]) -> Iterator[PromiseFinding]:
    for at, name in enumerate(wanted):
        if name not in checks:
            near = find_nearest(name, list(checks)) if len(checks) <= 50 else None
            hint = f"did you mean {near!r}?" if near else "add a check of that id"
            message = f"no check makes the evidence {name!r}, so somebody has to hand it in"
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
            message = "no task comes to the checkpoint 'pre-ship': it is that of the whole plan"
            yield False, Problem(Code.PLAN_DOUBTFUL, where, message, "ask for post-act or pre-verify")
        elif done.type == "evidence-present" and not done.target:
            yield _odd_target(where, "evidence", str(done.target), [each.id for each in promise.checks])
    for at, abort in enumerate(promise.abort_when):
        if abort.type == "budget-exhausted" and abort.target not in {None, "*", *BUDGETS}:
            yield _odd_target(f"abortWhen[{at}].target", "budget", str(abort.target), BUDGETS)


def _odd_target(where: str, what: str, name: str, known: Collection[str]) -> PromiseFinding:
    near = find_nearest(name, list(known))
    hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(sorted(known)) or 'none'}"
    return True, Problem(Code.PROMISE_INVALID, where, f"there is no {what} {name!r}", hint)


def _checks(promise: CompletionPromise) -> Iterator[PromiseFinding]:
    counts = Counter(each.id for each in promise.checks)
    seen: set[str] = set()
    for at, each in enumerate(promise.checks):
        if counts[each.id] > 1 and each.id in seen:
            message = f"there is another check {each.id!r}"
            yield True, Problem(Code.NAME_TAKEN, f"checks[{at}].id", message, "give each check an id of its own")
        seen.add(each.id)
        if isinstance(each, OtherCheck):
            message = f"checks of kind {each.kind!r} are not built in; an extension has to bring them"
            yield False, Problem(Code.PLAN_DOUBTFUL, f"checks[{at}].kind", message, "look for a typing mistake")
        if isinstance(each, ForgeCheck):
            for name, why in forge_checks.find_faults(each):
                yield True, Problem(Code.PROMISE_INVALID, f"checks[{at}].{name}", why, "see docs/reference/checks.md")


def _artifacts(
    task: TaskSpec,
    promise: CompletionPromise,
    names: Collection[str],
    agents: Collection[str],
    unknown: UnknownDescriber,
) -> Iterator[PromiseFinding]:
    own = {output.name for output in task.outputs}
    for at, each in enumerate(promise.checks):
        if not isinstance(each, ArtifactCheck):
            continue
        if each.output not in names:
            yield True, Problem(Code.NAME_UNKNOWN, f"checks[{at}].output", *unknown("output", each.output, names))
        if each.accepted_by is not None and each.output in own:
            message = f"{each.output!r} is accepted only after task {task.id!r} is done, and that waits for it"
            hint = "leave accepted_by out here, and check it in a later task"
            yield True, Problem(Code.CHECK_CIRCULAR, f"checks[{at}].accepted_by", message, hint)
        elif each.accepted_by is not None and each.accepted_by not in agents:
            where = f"checks[{at}].accepted_by"
            yield True, Problem(Code.DAG_AGENT_UNKNOWN, where, *unknown("agent", each.accepted_by, agents))


def _overlaps(promise: CompletionPromise) -> Iterator[Problem]:
    guards = [
        (glob, each.id)
        for each in promise.checks
        for glob in (*(each.protected or ()), *protection.list_own_files(each))
    ]
    for each in promise.checks:
        if protection.holds_configuration(each):
            guards += [(glob, each.id) for glob in protection.list_configuration(each)]
    for at, glob in enumerate(promise.allowed_scope):
        guard = next(((outer, name) for outer, name in guards if is_inside(glob, outer)), None)
        if guard:
            message = f"all of {glob!r} is protected by {guard[0]!r} of the check {guard[1]!r}"
            hint = "allow something else, or protect less (protected, protect_config: false)"
            yield Problem(Code.SCOPE_PROTECTED_OVERLAP, f"allowedScope[{at}]", message, hint)
