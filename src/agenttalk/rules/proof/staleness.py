"""Whether what was proven still holds: what a change touches, whose merge broke a check, and who fixes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.plan import PlanManifest
from agenttalk.contracts.promise import AcceptanceCriterion, AnyCheck, CompletionPromise
from agenttalk.rules.core.task_states import State
from agenttalk.rules.proof import done, evidence
from agenttalk.rules.proof.evidence import Fingerprint


def needs_final_check(dag: TaskDag, manifest: PlanManifest) -> bool:
    """Whether a plan looks once more at what was proven before it ends: not if nothing is proven or released."""
    if manifest.workspace is not None or manifest.policies.release_gates_required:
        return True
    return any(node.promise is not None and bool(node.promise.checks) for node in dag.nodes)


@dataclass(frozen=True, slots=True)
class EvidenceBasis:
    """What evidence can rest on, as it is now."""

    tree: str
    """Hash of the tree at the tip of the plan's branch."""
    covered: Mapping[str, str] = field(default_factory=dict)
    """Glob → hash of what it matches there."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The check's own files → hashes."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Other files that a check may rest on, e.g. lock files → hashes."""


def find_changes(kept: Fingerprint, check: AnyCheck, now: EvidenceBasis) -> tuple[str, ...]:
    """List in words what the evidence covers and has changed since; empty means that it is fresh.

    An address is asked again only if the check says what it covers. The other kinds are about the work of one turn and
    judgements of it, which stay as they were. What is not known any more has changed.
    """
    lasts = evidence.depends_on_tree(check)
    if not lasts and (check.kind != "http" or not check.covers):
        return ()
    found = [] if evidence.to_relevant_json(check) == dict(kept.check) else ["the check itself"]
    if check.covers:
        found += [glob for glob in check.covers if not _same(kept.covered, now.covered, glob)]
    elif kept.tree != now.tree:
        found.append("the tree")
    found += [path for path in kept.files if not _same(kept.files, now.files, path)]
    found += [name for name in kept.inputs if not _same(kept.inputs, now.inputs, name)]
    return tuple(dict.fromkeys(found))


def _same(before: Mapping[str, str], now: Mapping[str, str], name: str) -> bool:
    return before.get(name) is not None and before.get(name) == now.get(name)


@dataclass(frozen=True, slots=True)
class CommitProbe:
    """Look at this commit next."""

    commit: str


@dataclass(frozen=True, slots=True)
class BreakingCommit:
    """The first commit at which a check is red."""

    commit: str | None
    """None when nothing was merged since it was green: then no merge is the cause."""
    unsure: bool = False
    """Whether commits before it could not be checked."""


def search_breaking_commit(commits: Sequence[str], seen: Mapping[str, bool | None]) -> CommitProbe | BreakingCommit:
    """Search the commits since a check was green, the oldest first, for the one that broke it; at the last it is red.

    `seen` says how the check stands at those that were checked: None where that is unknown. Ends after at most as
    many looks as there are commits; where it turned red only once, after the logarithm of that.
    """
    if not commits:
        return BreakingCommit(None)
    green, red = -1, len(commits) - 1
    while True:
        between = [at for at in range(green + 1, red) if seen.get(commits[at], False) is not None]
        if not between:
            return BreakingCommit(commits[red], unsure=red - green > 1)
        middle = between[len(between) // 2]
        if commits[middle] not in seen:
            return CommitProbe(commits[middle])
        if seen[commits[middle]]:
            green = middle
        else:
            red = middle


def choose_mender(merged: str | None, owner: str, keeper: str, states: Mapping[str, State]) -> str:
    """Choose who repairs a broken check: whose merge broke it, else the check's owner.

    `keeper` is whose evidence is red, which is done: the owner, or a task that has to keep the owner's check.
    """
    return next((each for each in (merged, owner) if each is not None and states.get(each) == "COMPLETED"), keeper)


@dataclass(frozen=True, slots=True)
class InheritedCheck:
    """A check of one task that another one broke, and has to keep from then on."""

    owner: str
    """The task whose check it is."""
    check: AnyCheck

    @property
    def id(self) -> str:
        """Its name in the promise of the task that has to keep it."""
        return f"{self.owner}/{self.check.id}"


def add_inherited_checks(promise: CompletionPromise, checks: Sequence[InheritedCheck]) -> CompletionPromise:
    """Add checks of others to a promise. They need not fail first, as they are known to have failed."""
    if not checks:
        return promise
    added = CompletionPromise.model_construct(  # of parts that are valid
        id=promise.id,
        objective=promise.objective,
        acceptance=tuple(
            AcceptanceCriterion.model_construct(
                id=f"kept:{each.id}",
                description=f"{each.owner} stays as it was proven ({each.check.id})",
                evidence_required=(each.id,),
                min_trust=None,
            )
            for each in checks
        ),
        checks=tuple(each.check.model_copy(update={"id": each.id, "red_first": "off"}) for each in checks),
        done_when=(),
        abort_when=(),
    )
    return done.merge_promises(promise, added)
