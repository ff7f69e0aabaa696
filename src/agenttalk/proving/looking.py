"""What a proof is made from: what a task promises, what its attempt left, and what the plan's branch holds."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from agenttalk.checking.checker import Facts
from agenttalk.contracts import places, wire
from agenttalk.contracts.promise import (
    AnyCheck,
    CompletionPromise,
    GitCheck,
    HumanCheck,
    RunCheck,
    TestsCheck,
)
from agenttalk.mailbox.fsio import Folder
from agenttalk.ports import (
    Job,
    Made,
    Performance,
    Proof,
)
from agenttalk.rules import checks, evidence, findings, scope, words_of_checks
from agenttalk.rules.checks import GitFacts, Stored
from agenttalk.rules.evidence import Result
from agenttalk.rules.promise_checks import RUNNER_FILES, own_files
from agenttalk.rules.scope import Globs
from agenttalk.workspaces.answers import Attempt, Author, Candidate, Taken
from agenttalk.workspaces.preparing import Prepared
from agenttalk.workspaces.workspace import NOTHING, Workspace

_ATTEMPTS: Final = 32
"""Tries of one command, at most."""
BREACHES: Final = 20
"""How many faults are told."""
PREPARED: Final = "workspace.prepare"
"""Under this name a fingerprint holds what was made of lock files."""


def checks_of(promise: CompletionPromise | None) -> Sequence[AnyCheck]:
    """The checks of a promise."""
    return promise.checks if promise else ()


def asks_people(promise: CompletionPromise | None) -> list[HumanCheck]:
    """The checks that are questions to people."""
    return [check for check in checks_of(promise) if isinstance(check, HumanCheck)]


def looked_at_before(check: AnyCheck, known: Result | None) -> bool:
    """Whether it matters how a check stands before the work (of tests, which there are), and nobody knows yet."""
    if known is not None and known.fingerprint.check == evidence.relevant(check):
        return False
    return isinstance(check, TestsCheck) or (isinstance(check, RunCheck) and check.red_first != "off")


def inputs_of(job: Job | None, prepared: Prepared | None) -> dict[str, str]:
    """What a check's result rests on beside the tree: what the task was given, and what was made of lock files."""
    found = {f"{each.input_name}/{each.path}": each.sha256 for each in job.inputs} if job is not None else {}
    return {**found, **({PREPARED: prepared.key} if prepared is not None else {})}


def rests_on_more(job: Job, facts: Facts) -> bool:
    """Whether a result says nothing of later, because it depends on what no fingerprint holds."""
    return bool(facts.retuned) or (job.repo is not None and bool(job.repo.link))


def attempt_of(job: Job) -> Attempt:
    """The attempt that a job is, as a workspace knows it."""
    profile = job.profile
    name = _identity(profile.name or "") or profile.agent_id
    author = Author(name, _identity(profile.email or "") or f"{profile.agent_id}@agenttalk.invalid")
    title = job.title or next((line for line in job.command.prompt.splitlines() if line.strip()), "")
    return Attempt(job.task_id, job.command.command_id, job.attempt, title, author)


def _identity(text: str) -> str:
    """A name or an address as git takes it."""
    return "".join(char for char in text if char.isprintable() and char not in "<>").strip(" .,:;\"'\\")


async def previous_of(space: Workspace, job: Job) -> str | None:
    """What the attempt before left, if this is to mend it."""
    if job.command.reexecute is None or job.command.command_seq < 2:
        return None
    before = f"cmd_{job.task_id}_{job.command.command_seq - 1:03d}"
    found = None
    for number in range(1, _ATTEMPTS):
        taken = await space.taken(Attempt(job.task_id, before, number))
        if taken is None:
            break
        found = taken.commit
    return found


def protected_by(promise: CompletionPromise | None) -> Globs:
    """What must be as it was when checks run."""
    texts: dict[str, None] = {}
    for check in checks_of(promise):
        texts |= dict.fromkeys((*(check.protected or ()), *own_files(check)))
        if isinstance(check, TestsCheck) and check.protect_config:
            texts |= dict.fromkeys(RUNNER_FILES)
    return scope.globs(list(texts)) if texts else NOTHING


def brought_along(promise: CompletionPromise | None) -> dict[str, str]:
    """The files that checks bring along."""
    return {path: sha256 for check in checks_of(promise) for path, sha256 in brought(check).items()}


def brought(check: AnyCheck) -> dict[str, str]:
    """A check's own files, by their hashes."""
    known = check.files_sha256 or {}
    return {path: known[path] for path in check.files or () if path in known}


def lay_over(top: Path, files: Mapping[str, bytes]) -> None:
    """Put files into a checkout that nobody else has; what is in their way there goes."""
    for path in files:
        here = top
        *above, name = path.split("/")
        for step in above:
            here /= step
            if here.is_symlink() or here.is_file():
                here.unlink()
        if (here / name).is_dir() and not (here / name).is_symlink():
            shutil.rmtree(here / name)
    with Folder.open(top) as folder:
        for path, data in files.items():
            folder.write(path, data, mode=0o755, parents=True)


async def merged_by(space: Workspace, job: Job, candidate: Candidate) -> str:
    """The commit that brought the work: an earlier one, if there was nothing left to merge."""
    before = await space.merged(job.command.command_id) if candidate.commit == candidate.onto else None
    return before or candidate.commit


async def tampered_with(space: Workspace, job: Job, candidate: Candidate, since: str, ours: Sequence[str]) -> list[str]:
    """Protected paths that are not as at the baseline, and that no merge of ours changed since."""
    if candidate.onto == since:
        return []
    protected = protected_by(job.command.promise)
    changed = set(protected.among(change.path for change in await space.changes(since, candidate.tree)))
    for commit in ours if changed else ():
        changed -= {change.path for change in await space.changes(f"{commit}^1", commit)}
    return [words_of_checks.CHANGED_ON_BRANCH(path=path) for path in sorted(changed)]


def covers_of(promise: CompletionPromise | None) -> Sequence[str]:
    """The globs that checks say they cover."""
    return list(dict.fromkeys(glob for check in checks_of(promise) for glob in check.covers or ()))


async def covered_in(space: Workspace, tree: str, globs: Sequence[str]) -> dict[str, str]:
    """What each glob matches in a tree, as a hash."""
    return await space.hashes(tree, {glob: scope.globs([glob]) for glob in globs})


def breach_of(promise: CompletionPromise | None, taken: Taken) -> tuple[str, ...]:
    """What was changed outside of the scope."""
    if promise is None:
        return ()
    allowed = scope.scope(promise.allowed_scope, promise.disallowed_scope)
    meant = set(protected_by(promise).among(change.path for change in taken.changes))
    return allowed.breaches(change.path for change in taken.changes if change.path not in meant)


async def retuned_in(space: Workspace, candidate: Candidate) -> tuple[str, ...]:
    """Files of the candidate whose settings for tests are not those of the branch."""
    found = []
    for change in await space.changes(candidate.onto, candidate.tree):
        if change.path.rpartition("/")[2] == checks.SHARED_CONFIGURATION:
            before, after = [await space.read(tree, change.path) for tree in (candidate.onto, candidate.tree)]
            found += [change.path] if checks.retuned(before, after) else []
    return tuple(found)


async def twins_in(space: Workspace, performance: Performance, candidate: Candidate) -> list[str]:
    """Outputs that also lie in the tree, and are another file there: what is checked must be what is delivered."""
    found = []
    known = (await space.covered(candidate.tree)).files if performance.outputs else {}
    for each in performance.outputs:
        path = place_of(each)
        data = await space.read(candidate.tree, path) if path in known else None
        if data is not None and wire.sha256(data) != each.sha256:
            found.append(words_of_checks.OTHER_THAN_IN_TREE(path=path))
    return found


def place_of(made: Made) -> str:
    """Where a file of an output lies for checks: as it lay in the folder of outputs, so none passes for another."""
    name = places.segment(made.output_name)
    return made.path if made.path in {name, made.output_name} else f"{name}/{made.path}"


async def guarded_in(space: Workspace, tree: str, promise: CompletionPromise | None) -> tuple[str, ...]:
    """Files of a tree that nobody may change, not even while checks run."""
    return tuple((await space.covered(tree, protected_by(promise))).files)


def git_facts(promise: CompletionPromise | None, taken: Taken, candidate: Candidate) -> GitFacts | None:
    """What checks of the kind git look at; None when there are none."""
    if promise is None or not any(isinstance(check, GitCheck) for check in promise.checks):
        return None
    return GitFacts(
        commits=(taken.commit,) if taken.changes else (),
        changed=[change.path for change in taken.changes],
        protected=[change.path for change in candidate.restored],
    )


def stored_outputs(job: Job, performance: Performance) -> dict[str, Stored]:
    """The task's own outputs as they are kept. One that has several files is known by the hashes of them all."""
    files: dict[str, list[str]] = {}
    for each in (made for made in performance.outputs if made.output_name in job.outputs):
        files.setdefault(each.output_name, []).append(each.sha256)
    hashes = {
        name: found[0] if len(found) == 1 else wire.sha256("\n".join(sorted(found)).encode())
        for name, found in files.items()
    }
    return {name: Stored(job.agent_id, sha256, sha256) for name, sha256 in hashes.items()}


def report_of(performance: Performance) -> str | None:
    """What an agent said at the end, as text."""
    said = performance.result
    return said if isinstance(said, str) or said is None else wire.write(said).decode()


def proof_of(results: Sequence[Result], *, restored: Sequence[str] = ()) -> Proof:
    """A proof from the results of checks."""
    told = [findings.told(each) for each in results]
    if restored:
        told.append({"restored": list(restored[:BREACHES])})
    evidence_found = tuple(each.evidence(fresh=True) for each in results)
    return Proof(evidence_found, tuple(told), results=tuple(results))
