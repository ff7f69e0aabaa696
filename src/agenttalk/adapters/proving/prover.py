"""Proving what an agent did: its tree is taken, merged as a candidate, and checked where the agent cannot reach it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from agenttalk.adapters.checking.checker import Checker, CheckFacts
from agenttalk.adapters.checking.command import CheckContext
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.proving import evidence_inputs as look
from agenttalk.adapters.workspaces.merge_turns import MergeTurns
from agenttalk.adapters.workspaces.preparation import PreparationRecipe, PreparationRun, PreparedTree
from agenttalk.adapters.workspaces.results import (
    AttemptCommit,
    CandidateConflict,
    MergeCandidate,
    SealedCheckout,
    TreeRefusal,
    WorkspaceAttempt,
)
from agenttalk.adapters.workspaces.user_folder import survey_folder
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.adapters.workspaces.workspace_settings import WorkspaceSettings
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.command import ValidationCriteria
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import write_time
from agenttalk.contracts.errors import Code, InputError
from agenttalk.contracts.plan import Workspace as Repository
from agenttalk.contracts.promise import (
    AnyCheck,
    CompletionPromise,
    HumanCheck,
    JsonCheck,
)
from agenttalk.ports import (
    NO_EXHIBIT,
    AcceptedWork,
    Baseline,
    Blobs,
    BranchTip,
    CheckResultStore,
    Clock,
    Confirmer,
    Exhibit,
    InputContent,
    Job,
    Performance,
    Shipment,
    ShipmentReport,
    WorkProof,
)
from agenttalk.rules.core import scope
from agenttalk.rules.proof import evidence, findings_json, protection, rework
from agenttalk.rules.proof.check_results import hash_shown
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint
from agenttalk.rules.proof.protection import FileTree, Protection
from agenttalk.rules.proof.staleness import EvidenceBasis
from agenttalk.rules.text import check_words, verdict_words

FOLDER: Final = "workspaces"
"""Under the root: the clones that agents work in, and the checkouts for checks."""
_SEALED: Final = "_outputs"
"""In there, what has no repository is checked; no plan's name begins like that."""
_TRIES: Final = 5
"""How often a candidate is made anew because others merged meanwhile."""
_SHOWN: Final = 48 * 1024
"""Bytes of what was changed that people are shown who decide about it."""
_KEPT: Final = 16
"""Trees that are remembered."""
DonePredicate = Callable[[WorkProof], bool]
_SAID: Final = 4000
"""Characters of what a preparation said, that are told when it failed."""


class ProofCheckout(NamedTuple):
    """A checkout for a check."""

    sealed: SealedCheckout
    isolated: bool = True
    """Whether whatever prepared it ran in a sandbox, if something did."""


CheckoutOpener = Callable[[], AbstractAsyncContextManager[ProofCheckout]]
_UNSEEN: Final = Baseline("")
_NONE: Final[Mapping[str, bytes]] = MappingProxyType({})


@dataclass(slots=True)
class WorkspaceProver:
    """Proves the work of all plans of a root. Implements the port of the same name."""

    root: Path
    checker: Checker
    context: CheckContext
    clock: Clock
    blobs: Callable[[str], Awaitable[Blobs]]
    """The contents of a board."""
    findings: CheckResultStore
    """What was found out before."""
    _spaces: dict[str, PlanWorkspace] = field(default_factory=dict)
    _turnstile: MergeTurns = field(default_factory=MergeTurns)
    _swept: bool = False
    _trees: dict[str, FileTree] = field(default_factory=dict)
    """The trees where plans began."""

    async def find_faults(self, criteria: ValidationCriteria, files: Mapping[str, bytes]) -> list[str]:
        """What a machine finds wrong with files; see the port."""
        found = rework.find_format_faults(criteria, files)
        if found or not (criteria.required_fields or criteria.json_schema):
            return found
        for path in files:
            asked: dict[str, Any] = {"id": path, "kind": "json", "path": path}
            asked |= {"required_fields": list(criteria.required_fields)} if criteria.required_fields else {}
            asked |= {"schema": criteria.json_schema} if criteria.json_schema else {}
            result = await self._made(JsonCheck.model_validate(asked), CheckFacts(), lambda: self._laid_out(files))
            if not result.passed:
                found.append(result.detail or result.reason)
        return found

    async def survey(self, repo: Repository) -> tuple[Sequence[str], Sequence[str]]:
        """Look at a repository before a plan begins there; see the port."""
        found = await asyncio.to_thread(survey_folder, Path(repo.repo), repo.base)
        return found.paths, () if repo.uncommitted == "take" else found.uncommitted

    async def begin(self, job: Job) -> Job:
        """Make ready for an attempt; see the port."""
        promise = job.command.promise
        if job.repo is None:
            await self._stood(job, "", None)
            return job
        space = await self._space(job)
        if rework.is_after_conflict(job.command):  # once is enough: nobody merges before it has
            await self._turnstile.hold(job.plan_id, job.lease)
        tip = await space.ensure()
        merged = await space.find_merge(job.command.command_id)  # and we died before that was written down
        await self._stood(job, await space.commit(f"{merged}^1") if merged else tip, space)
        prepared = await self._prepared(space, job, tip)
        _, held = await self._protection(space, promise, job.neighbours)
        clone = await space.begin(
            look.attempt_of(job),
            at=self.clock.now(),
            previous=await look.previous_of(space, job),
            protected=look.boundary_of(promise, held),
            prepared=prepared,
        )
        if prepared is not None and prepared.bound:
            await space.furnish(clone, prepared)
        ready = replace(job, cwd=str(clone.path.relative_to(self.root.absolute())), readonly=clone.readonly)
        if not clone.patch:
            return ready
        data = clone.patch.encode("utf-8", "surrogateescape")
        patch = InputContent(rework.PREVIOUS_INPUT, rework.PATCH, wire.sha256(data), len(data), data)
        return replace(ready, inputs=(*job.inputs, patch))

    async def prove(self, job: Job, performance: Performance, done: DonePredicate, confirm: Confirmer) -> WorkProof:
        """Check what was left, and merge it if that is enough; see the port."""
        if performance.misfits:
            return WorkProof(refused=verdict_words.MISFITS(names=", ".join(sorted(performance.misfits))))
        if job.repo is None:
            facts, results = await self._check_outputs(job, performance)
            ask = partial(confirm, exhibit=Exhibit(tuple(performance.outputs)))
            return look.proof_of([*results, *await self._confirmed(job, facts, facts.tree, results, done, ask)])
        space = await self._space(job)
        taken = await self._taken(space, job)
        if isinstance(taken, TreeRefusal):
            return look.proof_of_refusal(taken)
        promise = job.command.promise
        tree, protected = await self._protection(space, promise, job.neighbours)
        breach = look.breach_of(promise, protected, taken)
        if breach:
            return WorkProof(breach=look.shorten_paths(breach), hidden=any(path in taken.veiled for path in breach))
        base = await self.findings.find_baseline(job) or _UNSEEN
        since = base.onto or taken.onto
        for _ in range(_TRIES):
            candidate = await space.make_candidate(taken, at=self.clock.now(), protected=protected, since=since)
            if isinstance(candidate, CandidateConflict):
                return WorkProof(
                    conflict=f"{', '.join(look.shorten_paths(candidate.paths))}\n{scope.display_path(candidate.text)}"
                )
            ours, others = await space.split_commits(since, candidate.onto)
            foreign = tuple(others[: look.BREACHES])
            dropped = look.proof_of_dropped(taken, candidate)
            odd = await look.find_tampered(space, protected, candidate, since, ours)
            odd += await look.find_strange_files(space, promise, protected, tree, candidate)
            if odd := [*odd, *await look.find_twins(space, performance, candidate)]:
                return replace(dropped, refused="; ".join(odd[: look.BREACHES]), foreign=foreign)
            facts, results = await self._check_candidate(space, job, performance, taken, candidate, base, tree)
            exhibit = await self._exhibited(space, job, performance, candidate)
            ask = partial(confirm, exhibit=exhibit)
            results += await self._confirmed(job, facts, taken.tree, results, done, ask)
            proof = look.proof_of(results)
            rests = await look.find_changed_check_files(space, job, await space.base(), candidate, tree)
            proof = replace(
                proof,
                foreign=foreign,
                left=taken.commit,
                restored=dropped.restored,
                left_out=dropped.left_out,
                rests_on=rests,
            )
            if not done(proof):
                diff = exhibit.diff or await space.diff(candidate.onto, candidate.tree, limit=_SHOWN)
                return replace(proof, idle=candidate.commit == candidate.onto, diff=scope.display_path(diff))
            vouched = [f"{each.id} {each.trust}" for each in proof.evidence if each.passed and each.fresh]
            candidate = await space.vouch(candidate, taken, vouched, at=self.clock.now())
            if await self._lands(space, job, candidate):
                return replace(proof, commit=await look.merge_commit_of(space, job, candidate))
        return WorkProof(conflict=check_words.MERGED_MEANWHILE())

    async def _lands(self, space: PlanWorkspace, job: Job, candidate: MergeCandidate) -> bool:
        """Move the branch to a candidate; False when it is another one meanwhile, or somebody else has to go first."""
        if self._turnstile.is_open(job.plan_id, job.lease):
            return await space.advance(candidate)
        await self._turnstile.wait_turn(job.plan_id, job.lease)
        return False

    def release_attempt(self, job: Job) -> None:
        """Let others merge; see the port."""
        self._turnstile.let_go(job.plan_id, job.lease)

    async def examine(self, shipment: Shipment, checks: Sequence[tuple[AnyCheck, str]]) -> ShipmentReport:
        """Make checks on what is about to be shipped; see the port."""
        space = await self._opened(shipment.plan_id, shipment.repo) if shipment.repo is not None else None
        tip = await space.ensure() if space is not None else ""
        command = shipment.repo.prepare if shipment.repo is not None else None
        recipe = await self._recipe(command) if space is not None and command and checks else None
        prepared = await space.prepare(tip, recipe) if space is not None and recipe is not None else None
        blobs = await self.blobs(shipment.board)
        files = {path: await blobs.get(sha256) for path, sha256 in shipment.files.items()} if checks else {}
        laid = wire.sha256(wire.write(dict(sorted(shipment.files.items()))))
        told = []
        for check, where in checks:
            if where == "tip" and space is not None:
                result = await self._made(check, CheckFacts(tip), _checkout(space, tip, prepared))
            else:
                result = await self._made(check, CheckFacts(laid), lambda: self._laid_out(files))
            told.append(findings_json.to_json(result) | {"on": where})
        moved = space is not None and await space.ensure() != tip
        return ShipmentReport(
            tuple(told), tip, ("the plan's branch moved while the gates were looked at",) if moved else ()
        )

    async def _protection(
        self, space: PlanWorkspace, promise: CompletionPromise | None, others: Mapping[str, CompletionPromise]
    ) -> tuple[FileTree, Protection]:
        """The tree where a plan began, and what a task may not change in it."""
        base = await space.base()
        tree = self._trees.get(base)
        if tree is None:
            tree = FileTree.from_paths((await space.find_covered(base)).files)
            if len(self._trees) >= _KEPT:
                self._trees.clear()
            self._trees[base] = tree
        return tree, protection.derive_protection(promise, tree, others)

    async def _taken(self, space: PlanWorkspace, job: Job) -> AttemptCommit | TreeRefusal:
        """What an attempt left. If it was taken before an engine ended, that is it, whatever lies there now."""
        before = await space.find_taken(look.attempt_of(job)) if job.again else None
        return before or await space.take_work(look.attempt_of(job), at=self.clock.now())

    async def accept(self, left: AcceptedWork) -> str:
        """Merge what an attempt left; see the port."""
        space = await self._opened(left.plan_id, left.repo)
        taken = await space.find_taken(WorkspaceAttempt(left.task_id, left.command_id, left.attempt))
        if taken is None:
            raise InputError(Code.NAME_UNKNOWN, f"nothing is kept of the last attempt at {left.task_id}")
        _, protected = await self._protection(space, left.promise, left.neighbours)
        for _ in range(_TRIES):
            candidate = await space.make_candidate(taken, at=self.clock.now(), protected=protected)
            if isinstance(candidate, CandidateConflict):
                paths = ", ".join(look.shorten_paths(candidate.paths))
                raise InputError(Code.FILE_UNSAFE, f"it conflicts with what others did meanwhile: {paths}")
            if await space.advance(candidate):
                return candidate.commit
        raise InputError(Code.FILE_UNSAFE, "others merged again and again meanwhile")

    async def _check_candidate(
        self,
        space: PlanWorkspace,
        job: Job,
        performance: Performance,
        taken: AttemptCommit,
        candidate: MergeCandidate,
        base: Baseline,
        began: FileTree,
    ) -> tuple[CheckFacts, list[CheckResult]]:
        promise = job.command.promise
        tier = _tier(performance.sandbox)
        prepared = await self._prepared(space, job, candidate.tree, candidate.onto, tier)
        held = protection.derive_protection(promise, began)
        look.refuse_planted(prepared, candidate, held)
        facts = CheckFacts(
            tree=candidate.tree,
            inputs=look.inputs_of(job, prepared),
            files=look.files_of_checks(promise),
            covered=await look.hash_covered(space, candidate.tree, look.covers_of(promise)),
            git=look.git_facts(promise, taken, candidate),
            artifacts={**job.others, **look.stored_outputs(job, performance)},
            report=look.report_of(performance),
            protected=await look.find_guarded(space, candidate.tree, held),
            tier=tier,
            required=job.profile.isolated_only,
            standing=await look.find_runner_paths(space, await space.base(), promise),
        )
        return facts, await self._check(job, facts, base, _checkout(space, candidate.tree, prepared))

    async def _check_outputs(self, job: Job, performance: Performance) -> tuple[CheckFacts, list[CheckResult]]:
        """Without a repository the checkout holds the outputs and nothing else."""
        contents = {look.output_path_of(each): (each.sha256, each.data) for each in performance.outputs}
        tree = wire.sha256(wire.write({path: sha256 for path, (sha256, _) in contents.items()}))
        facts = CheckFacts(
            tree=tree,
            files=look.files_of_checks(job.command.promise),
            inputs=look.inputs_of(job, None),
            artifacts={**job.others, **look.stored_outputs(job, performance)},
            report=look.report_of(performance),
            tier=_tier(performance.sandbox),
            required=job.profile.isolated_only,
        )
        blobs = await self.blobs(job.board)
        files = {
            path: data if data is not None else await blobs.get(sha256) for path, (sha256, data) in contents.items()
        }
        base = await self.findings.find_baseline(job) or _UNSEEN
        return facts, await self._check(job, facts, base, lambda: self._laid_out(files))

    async def _exhibited(
        self, space: PlanWorkspace, job: Job, performance: Performance, candidate: MergeCandidate
    ) -> Exhibit:
        """What is shown to people who are to say something to work in a repository."""
        if not look.human_checks_of(job.command.promise):
            return NO_EXHIBIT
        diff = await space.diff(candidate.onto, candidate.tree, limit=_SHOWN)
        return Exhibit(tuple(performance.outputs), diff)

    async def _confirmed(
        self,
        job: Job,
        facts: CheckFacts,
        tree: str,
        results: Sequence[CheckResult],
        done: DonePredicate,
        confirm: Confirmer,
    ) -> list[CheckResult]:
        """What people say to the work, who are asked when nothing else is missing."""
        asked = look.human_checks_of(job.command.promise)
        if not asked:
            return []
        at = write_time(self.clock.now())
        supposed = [Evidence(check.id, True, True, "confirmed", "", at) for check in asked]
        proof = look.proof_of(results)
        asks = done(replace(proof, evidence=(*proof.evidence, *supposed)))
        found = []
        for check in asked:
            shown = hash_shown(
                check.question, {"tree": tree, **{name: each.found for name, each in facts.artifacts.items()}}
            )
            said = await confirm(check, shown) if asks else None
            about = replace(facts, confirmation=said, shown=shown)
            found.append(await self.checker.check(check, None, about, self.context))
        return found

    async def _check(self, job: Job, facts: CheckFacts, base: Baseline, checkout: CheckoutOpener) -> list[CheckResult]:
        results = []
        for check in look.checks_of(job.command.promise):
            if isinstance(check, HumanCheck):
                continue
            before = base.results.get(check.id)
            about = replace(facts, base=before.tests if before is not None else None)
            result = await self._checked(job, check, about, checkout)
            results.append(evidence.apply_redness(result, evidence.judge_baseline(check.red_first, check.kind, before)))
        return results

    async def _checked(self, job: Job, check: AnyCheck, facts: CheckFacts, checkout: CheckoutOpener) -> CheckResult:
        """What a check finds: what it found before, if nothing that it may rest on has changed."""
        key = None if look.has_unknown_inputs(job) else evidence.exact_key(await self.fingerprint(check, facts))
        known = await self.findings.find_result(job, key, check.id) if key is not None else None
        if known is not None:
            return known
        result = await self._made(check, facts, checkout, await self._own_files(job, check))
        if key is not None and key == evidence.exact_key(result.fingerprint) and look.may_keep(check, result):
            await self.findings.keep_result(job, key, result)
        return result

    async def find_head(self, plan_id: str, repo: Repository) -> str:
        """Where the branch of a plan stands; see the port."""
        return await (await self._opened(plan_id, repo)).head()

    async def find_tip(self, job: Job, globs: Sequence[str]) -> BranchTip:
        """Where the plan's branch stands; see the port."""
        space = await self._space(job)
        commit = await space.ensure()
        tree = await space.tree(commit)
        command = job.repo.prepare if job.repo is not None else None
        inputs = {look.PREPARED: await space.prepare_key(tree, command)} if command else {}
        return BranchTip(commit, EvidenceBasis(tree, await look.hash_covered(space, tree, globs), inputs=inputs))

    async def recheck(self, job: Job, check: AnyCheck, kept: Fingerprint, commit: str) -> CheckResult:
        """Make a check at a commit; see the port."""
        space = await self._space(job)
        tree = await space.tree(commit)
        tier = _tier(job.profile.tier)
        prepared = await self._prepared(space, job, tree, tier=tier)
        before = (await self.findings.find_baseline(job) or _UNSEEN).results.get(check.id)
        _, protected = await self._protection(space, job.command.promise, {})
        facts = CheckFacts(
            tree=tree,
            covered=await look.hash_covered(space, tree, check.covers or ()),
            files=check.files_sha256 or {},
            inputs={**kept.inputs, **look.inputs_of(None, prepared)},
            base=before.tests if before is not None else None,
            protected=await look.find_guarded(space, tree, protected),
            tier=tier,
            required=job.profile.isolated_only,
            standing=await look.find_runner_paths(space, await space.base(), job.command.promise),
        )
        result = await self._checked(job, check, facts, _checkout(space, tree, prepared))
        return evidence.apply_redness(result, evidence.judge_baseline(check.red_first, check.kind, before))

    async def list_arrivals(self, job: Job, since: str) -> Sequence[tuple[str, str | None]]:
        """What came onto the plan's branch; see the port."""
        return await (await self._space(job)).list_arrivals(since)

    async def fingerprint(self, check: AnyCheck, facts: CheckFacts) -> Fingerprint:
        """What a check's result would rest on."""
        return await self.checker.fingerprint(check, facts, self.context)

    async def _own_files(self, job: Job, check: AnyCheck) -> dict[str, bytes]:
        """A check's own files, as they were when the plan was submitted."""
        named = look.files_of_check(check)
        blobs = await self.blobs(job.board) if named else None
        return {path: await blobs.get(named[path]) for path in named} if blobs is not None else {}

    async def _made(
        self, check: AnyCheck, facts: CheckFacts, checkout: CheckoutOpener, own: Mapping[str, bytes] = _NONE
    ) -> CheckResult:
        """Make one check in a checkout of its own, so that no check finds what another left.

        The check's own files lie there in the place of whatever the tree has of those names.
        """
        async with AsyncExitStack() as stack:

            async def laid() -> tuple[ProofCheckout, SafeFolder]:
                await stack.aclose()  # a second run may have the place of the first
                found = await stack.enter_async_context(checkout())
                await asyncio.to_thread(look.lay_over, found.sealed.path, own)
                return found, stack.enter_context(SafeFolder.open(found.sealed.path))

            async def again() -> SafeFolder:
                return (await laid())[1]

            first, folder = await laid()
            sealed = first.sealed
            context = replace(
                self.context,
                readable=(*self.context.readable, *sealed.readonly),
                made=tuple(str(path.relative_to(sealed.path)) for path in sealed.made),
            )
            result = await self.checker.check(check, folder, facts, context, again=again)
        return result if first.isolated or result.isolated is None else replace(result, isolated=False)

    async def _prepared(
        self, space: PlanWorkspace, job: Job, tree: str, onto: str | None = None, tier: Tier = "plain"
    ) -> PreparedTree | None:
        """What the repository's own command makes beside its files, such as an environment."""
        command = job.repo.prepare if job.repo is not None else None
        if not command:
            return None
        recipe = await self._recipe(command, tier, required=job.profile.isolated_only)
        return await space.prepare(tree, recipe, onto=onto)

    async def _recipe(self, command: str, tier: Tier = "plain", *, required: bool = False) -> PreparationRecipe:
        """How a checkout is prepared: confined as checks are, and at least as the agent whose work it may be."""
        context = replace(self.context, least=tier, isolation="required" if required else self.context.isolation)

        async def run(folder: Path, command: str) -> PreparationRun:
            done = await self.checker.prepare(folder, command, context)
            said = done.tail[-_SAID:].strip()
            if done.ran.how == "finished" and done.ran.exit_code is not None:
                return PreparationRun(done.ran.exit_code, said)
            return PreparationRun(1, f"{said}\n{done.ran.error}".strip())

        return PreparationRecipe(command, run, await self.checker.isolates(context))

    async def _stood(self, job: Job, onto: str, space: PlanWorkspace | None) -> None:
        """See how checks stand before the work, once for a task. Raises InputError if one is green and must be red."""
        base = await self.findings.find_baseline(job)
        known = dict(base.results) if base is not None else {}
        onto = base.onto if base is not None else onto
        missing = [
            check for check in look.checks_of(job.command.promise) if look.needs_baseline(check, known.get(check.id))
        ]
        if missing or (base is None and space is not None and look.checks_of(job.command.promise)):
            prepared = await self._prepared(space, job, onto) if missing and space is not None else None
            facts = CheckFacts(
                tree=onto or "empty",
                files=look.files_of_checks(job.command.promise),
                inputs=look.inputs_of(None, prepared),
                required=job.profile.isolated_only,
                standing=await look.find_runner_paths(space, await space.base(), job.command.promise)
                if space
                else frozenset(),
            )
            for check in missing:
                make = _checkout(space, onto, prepared) if space is not None else (lambda: self._laid_out({}))
                known[check.id] = await self._checked(job, check, facts, make)
            look.refuse_unable(look.checks_of(job.command.promise), known)
            await self.findings.keep_baseline(job, Baseline(onto, known))
        for check in look.checks_of(job.command.promise):
            if evidence.judge_baseline(check.red_first, check.kind, known.get(check.id)) == "refuse":
                raise InputError(
                    Code.CHECK_ALREADY_GREEN,
                    f"the check {check.id!r} must fail before the work, and did not",
                    hint="the work is done already, or the check does not look at it",
                )

    @asynccontextmanager
    async def _laid_out(self, files: Mapping[str, bytes]) -> AsyncIterator[ProofCheckout]:
        """A folder with these files, which is gone afterwards. What a process that died left there goes first."""
        home = self.root.absolute() / FOLDER / _SEALED
        if not self._swept:
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
            self._swept = True
        home.parent.mkdir(mode=0o700, exist_ok=True)
        home.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="sealed-", dir=home, ignore_cleanup_errors=True) as name:
            with SafeFolder.open(Path(name)) as folder:
                for path, data in files.items():
                    folder.write(path, data, parents=True)
            yield ProofCheckout(SealedCheckout(Path(name)))

    async def _space(self, job: Job) -> PlanWorkspace:
        if job.repo is None:
            raise InputError(Code.NAME_UNKNOWN, f"{job.task_id} works on no repository")
        return await self._opened(job.plan_id, job.repo)

    async def _opened(self, plan_id: str, repo: Repository) -> PlanWorkspace:
        known = self._spaces.get(plan_id)
        if known is None:
            home = self.root.absolute() / FOLDER / plan_id
            home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # other users have no business in clones
            take = repo.uncommitted == "take"
            settings = WorkspaceSettings(Path(repo.repo), plan_id, home, repo.base, take, tuple(repo.link))
            known = await PlanWorkspace.open(settings)
            known = self._spaces.setdefault(plan_id, known)
        return known


def _checkout(space: PlanWorkspace, tree: str, prepared: PreparedTree | None) -> CheckoutOpener:
    """Checkouts of a tree, each with what was prepared for it."""

    @asynccontextmanager
    async def make() -> AsyncIterator[ProofCheckout]:
        async with space.open_sealed(tree, prepared=prepared) as sealed:
            yield ProofCheckout(sealed, prepared is None or prepared.isolated)

    return make


def _tier(said: str) -> Tier:
    """The sandbox in which a turn was, as far as one is known."""
    return "bubblewrap" if said == "bubblewrap" else "landlock" if said == "landlock" else "plain"
