"""Collects what a proof is made from: the task's promise, what its attempt left, and the plan's branch."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.workspaces.preparation import PreparedTree
from agenttalk.adapters.workspaces.results import AttemptCommit, Author, MergeCandidate, TreeRefusal, WorkspaceAttempt
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.errors import Code, InputError
from agenttalk.contracts.promise import (
    AnyCheck,
    CompletionPromise,
    GitCheck,
    HumanCheck,
    RunCheck,
    TestsCheck,
)
from agenttalk.ports.agents import Job
from agenttalk.rules.checks import check_results, protection, runnable_checks, test_runners
from agenttalk.rules.checks.check_results import GitFacts, StoredOutput
from agenttalk.rules.checks.protection import Boundary, FileTree, Protection
from agenttalk.rules.core import scope
from agenttalk.rules.core.scope import Scope
from agenttalk.rules.proof import evidence, findings_json
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.proof.performance import OutputContent, Performance, WorkProof
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import ABOUT, join

_ATTEMPTS: Final = 32
"""Tries of one command, at most."""
BREACHES: Final = 20
"""How many faults are reported."""
_PRINTED: Final = 800
"""Characters of the output of a check that could not run."""
PREPARED: Final = "workspace.prepare"
"""The name of prepared lock files in a fingerprint."""


def checks_of(promise: CompletionPromise | None) -> Sequence[AnyCheck]:
    """Return the checks of a promise."""
    return promise.checks if promise else ()


def human_checks_of(promise: CompletionPromise | None) -> list[HumanCheck]:
    """Return the checks that are questions to people."""
    return [check for check in checks_of(promise) if isinstance(check, HumanCheck)]


def needs_baseline(check: AnyCheck, known: CheckResult | None) -> bool:
    """Return whether a check must still be run before the work; for tests, to know which exist."""
    if known is not None and known.fingerprint.check == evidence.to_relevant_json(check):
        return False
    return isinstance(check, TestsCheck) or (evidence.can_be_red(check) and check.red_first != "off")


def refuse_unable(checks: Sequence[AnyCheck], known: Mapping[str, CheckResult]) -> None:
    """Raise InputError when a check that has to fail before the work could not even run there."""
    for check in checks:
        before = known.get(check.id)
        why = runnable_checks.explain_unable(check, before) if before is not None and check.red_first != "off" else ""
        if before is not None and why:
            output = before.output.strip()[-_PRINTED:] or check_words.PRINTED_NOTHING()
            message = check_words.CANNOT_RUN_BEFORE(id=check.id, why=why)
            if before.reason != "not_isolated":
                message = check_words.CANNOT_RUN_HINT(what=message, run=getattr(check, "run", ""), said=output)
            raise InputError(Code.CHECK_CANNOT_RUN, message)


def may_keep(check: AnyCheck, result: CheckResult) -> bool:
    """Return whether a result may be kept: not when it depends on what is installed on the machine."""
    return evidence.is_cacheable(result) and not runnable_checks.explain_unable(check, result)


def inputs_of(job: Job | None, prepared: PreparedTree | None) -> dict[str, str]:
    """Return what a check's result rests on besides the tree: the task's inputs, and prepared lock files."""
    hashes = (
        {f"{content.input_name}/{content.path}": content.sha256 for content in job.inputs} if job is not None else {}
    )
    return {**hashes, **({PREPARED: prepared.key} if prepared is not None else {})}


def has_unknown_inputs(job: Job) -> bool:
    """Return whether a result depends on something that no fingerprint covers, so that it cannot be reused."""
    return job.repo is not None and bool(job.repo.link)


def attempt_of(job: Job) -> WorkspaceAttempt:
    """Return the attempt of a job, as a workspace knows it."""
    author = name_author(job.profile)
    title = job.title or next((line for line in job.command.prompt.splitlines() if line.strip()), "")
    return WorkspaceAttempt(job.task_id, job.command.command_id, job.attempt, title, author)


def name_author(profile: AgentProfile) -> Author:
    """Return the author of an agent's commits."""
    name = _identity(profile.name or "") or profile.agent_id
    return Author(name, _identity(profile.email or "") or f"{profile.agent_id}@agenttalk.invalid")


def _identity(text: str) -> str:
    """Return a name or an address in a form that git accepts."""
    return "".join(char for char in text if char.isprintable() and char not in "<>").strip(" .,:;\"'\\")


async def previous_of(space: PlanWorkspace, job: Job) -> str | None:
    """Find the commit of the previous attempt, if this one re-executes it or goes on where it was interrupted."""
    if job.attempt > 1:
        own = WorkspaceAttempt(job.task_id, job.command.command_id, job.attempt - 1)
        interrupted = await space.attempts.find_taken(own)
        if interrupted is not None:
            return interrupted.commit
    if job.command.reexecute is None or job.command.command_seq < 2:
        return None
    before = f"cmd_{job.task_id}_{job.command.command_seq - 1:03d}"
    commit = None
    for number in range(1, _ATTEMPTS):
        taken = await space.attempts.find_taken(WorkspaceAttempt(job.task_id, before, number))
        if taken is None:
            break
        commit = taken.commit
    return commit


def boundary_of(promise: CompletionPromise | None, protected: Protection) -> Boundary:
    """Return what an attempt may not change at all: its changes there are undone before the next one continues."""
    allowed = scope.make_scope(promise.allowed_scope, promise.disallowed_scope) if promise is not None else Scope()
    return Boundary(protected, allowed)


def files_of_checks(promise: CompletionPromise | None) -> dict[str, str]:
    """Return the files that checks bring along, with their hashes."""
    return {path: sha256 for check in checks_of(promise) for path, sha256 in files_of_check(check).items()}


def files_of_check(check: AnyCheck) -> dict[str, str]:
    """Return a check's own files, with their hashes."""
    known = check.files_sha256 or {}
    return {path: known[path] for path in check.files or () if path in known}


def lay_over(top: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a checkout that nothing else uses; remove what is in their way."""
    for path in files:
        here = top
        *above, name = path.split("/")
        for step in above:
            here /= step
            if here.is_symlink() or here.is_file():
                here.unlink()
        if (here / name).is_dir() and not (here / name).is_symlink():
            shutil.rmtree(here / name)
    with SafeFolder.open(top) as folder:
        for path, data in files.items():
            folder.write(path, data, mode=0o755, parents=True)


async def find_tampered(
    space: PlanWorkspace, protected: Protection, candidate: MergeCandidate, since: str, ours: Sequence[str]
) -> list[str]:
    """Find protected paths that differ from the baseline, and that no merge of ours changed since."""
    if candidate.onto == since:
        return []
    changed = set(protected.filter_paths(change.path for change in await space.trees.changes(since, candidate.tree)))
    for commit in ours if changed else ():
        changed -= {change.path for change in await space.trees.changes(f"{commit}^1", commit)}
    return [check_words.CHANGED_ON_BRANCH(path=scope.display_path(path)) for path in sorted(changed)]


async def find_changed_check_files(
    space: PlanWorkspace, job: Job, base: str, candidate: MergeCandidate, tree: FileTree
) -> tuple[str, ...]:
    """Find files of a task's checks that changed since the plan began, each with the tasks that changed it.

    Other tasks may change them when their scope names them, and so may the task itself.
    """
    own = protection.derive_protection(job.command.promise, tree)
    changes = await space.trees.changes(base, candidate.tree)
    held = {change.path for change in changes if change.path in own.opened or own.covers(change.path)}
    if not held:
        return ()
    changers: dict[str, list[str]] = {}
    merges = [
        (f"{commit}^1", commit, task)
        for commit, task in await space.list_arrivals(base, candidate.onto)
        if task is not None
    ]
    for before, after, task in (*merges, (candidate.onto, candidate.tree, job.task_id)):
        for path in held.intersection(change.path for change in await space.trees.changes(before, after)):
            changers.setdefault(path, []).append(task)
    lines = [f"{path} ({', '.join(dict.fromkeys(tasks))})" for path, tasks in sorted(changers.items())]
    return shorten_paths(lines)


def covers_of(promise: CompletionPromise | None) -> Sequence[str]:
    """Return the globs that checks claim to cover."""
    return list(dict.fromkeys(glob for check in checks_of(promise) for glob in check.covers or ()))


async def hash_covered(space: PlanWorkspace, tree: str, globs: Sequence[str]) -> dict[str, str]:
    """Hash what each glob matches in a tree."""
    return await space.trees.hash_covered(tree, {glob: scope.read_globs([glob]) for glob in globs})


def breach_of(promise: CompletionPromise | None, protected: Protection, taken: AttemptCommit) -> tuple[str, ...]:
    """Find what was changed outside the scope."""
    if promise is None:
        return ()
    allowed = scope.make_scope(promise.allowed_scope, promise.disallowed_scope)
    return allowed.find_breaches(change.path for change in taken.changes if not protected.covers(change.path))


async def find_strange_files(
    space: PlanWorkspace,
    promise: CompletionPromise | None,
    protected: Protection,
    tree: FileTree,
    candidate: MergeCandidate,
) -> list[str]:
    """Find what a candidate brings that would change how checks run: settings of runners, modules in their place."""
    changes = await space.trees.changes(candidate.onto, candidate.tree)
    faults = []
    for change in changes if protected.shared else ():
        if change.path.rpartition("/")[2] in test_runners.SHARED:
            before, after = [
                await space.trees.read(version, change.path) for version in (candidate.onto, candidate.tree)
            ]
            if test_runners.has_changed_settings(change.path, before, after):
                faults.append(check_words.SETTINGS_CHANGED(names=scope.display_path(change.path)))
    added = [change.path for change in changes if change.kind == "added"]
    shadows = protection.find_shadowing_files(promise, tree, added)
    return [*faults, *(check_words.SHADOWS_MODULE(path=scope.display_path(path)) for path in shadows)]


def shorten_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Return paths for messages, at most as many as people read."""
    return tuple(scope.display_path(path) for path in paths[:BREACHES])


def proof_of_refusal(taken: TreeRefusal) -> WorkProof:
    """Make the proof for a tree that cannot be taken."""
    return WorkProof(
        refused=join(
            ABOUT(subject=scope.display_path(reason.path), what=reason.why) for reason in taken.reasons[:BREACHES]
        )
    )


def proof_of_dropped(taken: AttemptCommit, candidate: MergeCandidate) -> WorkProof:
    """Make the proof with what does not count of an attempt: what was restored, and what is ignored."""
    restored = shorten_paths([change.path for change in candidate.restored])
    return WorkProof(restored=restored, left_out=shorten_paths(taken.left_out))


async def find_twins(space: PlanWorkspace, performance: Performance, candidate: MergeCandidate) -> list[str]:
    """Find outputs that differ from the file of that name in the tree: what is checked must be what is delivered."""
    faults: list[str] = []
    for output in performance.outputs:
        path = output_path_of(output)
        data = await space.trees.read(candidate.tree, path)
        if data is not None and wire.sha256(data) != output.sha256:
            faults.append(check_words.OTHER_THAN_IN_TREE(path=path))
    return faults


def output_path_of(made: OutputContent) -> str:
    """Return where checks find a file of an output: as in the folder of outputs, so none passes for another."""
    name = root_layout.path_segment(made.output_name)
    return made.path if made.path in {name, made.output_name} else f"{name}/{made.path}"


def refuse_planted(prepared: PreparedTree | None, candidate: MergeCandidate, protected: Protection) -> None:
    """Raise InputError when unchecked work let its preparation make something that is protected."""
    if prepared is None or prepared.tree != candidate.tree:
        return
    planted = [path for path in prepared.environment.paths if protected.covers(path)]
    if planted:
        message = check_words.PLANTED(names=", ".join(shorten_paths(planted)))
        raise InputError(Code.FILE_UNSAFE, message)


async def find_runner_paths(space: PlanWorkspace, tree: str, promise: CompletionPromise | None) -> frozenset[str]:
    """Find paths of a tree that are named like the programs of its checks: a project may be a test runner itself."""
    runs = [check for check in checks_of(promise) if isinstance(check, RunCheck | TestsCheck)]
    named = {
        f"{check.cwd}/{path}" if check.cwd else path
        for check in runs
        for path in check_results.list_shadowing_files(check)
    }
    return frozenset(named & (await space.trees.list_files(tree)).files) if named else frozenset()


async def find_standing(space: PlanWorkspace, tree: str, promise: CompletionPromise | None) -> tuple[str, ...]:
    """List the files of a tree from before the work that its checks protect."""
    base = await space.trees.list_files(await space.base())
    return await find_guarded(space, tree, protection.derive_protection(promise, base))


async def find_guarded(space: PlanWorkspace, tree: str, protected: Protection) -> tuple[str, ...]:
    """List files of a tree that must not change, even while checks run: what the plan names, then what checks name.

    All are watched; the first ones are mounts of their own.
    """
    found = await space.trees.find_protected(tree, protected)
    return await asyncio.to_thread(_order_guarded, found, protected)


def _order_guarded(found: Collection[str], protected: Protection) -> tuple[str, ...]:
    guarded = sorted(found)
    named = frozenset(protected.said.filter_paths(guarded))
    rest = sorted((path for path in guarded if path not in named), key=test_runners.is_test)
    return (*(path for path in guarded if path in named), *rest)


def git_facts(promise: CompletionPromise | None, taken: AttemptCommit, candidate: MergeCandidate) -> GitFacts | None:
    """Return the facts for checks of the kind git; None when there are none."""
    if promise is None or not any(isinstance(check, GitCheck) for check in promise.checks):
        return None
    return GitFacts(
        changed=[scope.display_path(change.path) for change in taken.changes],
        protected=[scope.display_path(change.path) for change in candidate.restored],
    )


def stored_outputs(job: Job, performance: Performance) -> dict[str, StoredOutput]:
    """Return the task's own outputs as they are stored. One with several files has the hash of all their hashes."""
    files: dict[str, list[str]] = {}
    for output in (made for made in performance.outputs if made.output_name in job.outputs):
        files.setdefault(output.output_name, []).append(output.sha256)
    hashes = {
        name: sha256s[0] if len(sha256s) == 1 else wire.sha256("\n".join(sorted(sha256s)).encode())
        for name, sha256s in files.items()
    }
    return {name: StoredOutput(job.agent_id, sha256, sha256) for name, sha256 in hashes.items()}


def report_of(performance: Performance) -> str | None:
    """Return the agent's final report as text."""
    result = performance.result
    return result if isinstance(result, str) or result is None else wire.write(result).decode()


def proof_of(results: Sequence[CheckResult]) -> WorkProof:
    """Make a proof from the results of checks."""
    findings = [findings_json.to_json(result) for result in results]
    evidence_found = tuple(result.to_evidence(fresh=True) for result in results)
    return WorkProof(evidence_found, tuple(findings), results=tuple(results))
