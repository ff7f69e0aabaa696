"""Proves what an agent did: commits its tree, merges it as a candidate and checks it out of the agent's reach."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from agenttalk.adapters.checking.checker import Checker, CheckFacts
from agenttalk.adapters.checking.command import CheckContext
from agenttalk.adapters.proving import evidence_inputs as inputs
from agenttalk.adapters.proving.candidates import AttemptWork, CandidateProver, Lander, tier_of
from agenttalk.adapters.proving.check_runner import NO_BASELINE, CheckRunner, DonePredicate
from agenttalk.adapters.proving.mutants import MutantProver
from agenttalk.adapters.proving.plan_tips import PlanTips
from agenttalk.adapters.proving.plan_workspaces import PlanWorkspaces
from agenttalk.adapters.proving.proof_checkouts import open_tree
from agenttalk.adapters.proving.remote_work import RemoteWork
from agenttalk.adapters.proving.verified_checks import VerifiedChecks
from agenttalk.adapters.workspaces.results import (
    AttemptCommit,
    CandidateConflict,
    TreeRefusal,
    WorkspaceAttempt,
)
from agenttalk.adapters.workspaces.user_folder import survey_folder
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.command import ValidationCriteria
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, InputError
from agenttalk.contracts.plan import Workspace as Repository
from agenttalk.contracts.promise import AnyCheck, CompletionPromise, JsonCheck
from agenttalk.ports.agents import InputContent, Job
from agenttalk.ports.proof import (
    AcceptedWork,
    BranchTip,
    CheckResultStore,
    Confirmer,
    Exhibit,
    Shipment,
    ShipmentReport,
    TipStore,
)
from agenttalk.ports.storage import Blobs, Clock
from agenttalk.ports.transport import BaseStore
from agenttalk.rules.checks import hidden_checks
from agenttalk.rules.fleet import verification
from agenttalk.rules.proof import findings_json, rework
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint
from agenttalk.rules.proof.performance import Performance, SubmittedWork, TipMove, WorkProof
from agenttalk.rules.proof.staleness import EvidenceBasis
from agenttalk.rules.text import check_words, verdict_words

_SHOWN: Final = 48 * 1024
"""Bytes of a diff that people see who decide about it."""


class PlanStore(TipStore, BaseStore, Protocol):
    """Where branches stand, and what attempts elsewhere build on."""


class WorkspaceProver:
    """Proves the work of all plans of a root. Implements `Prover`."""

    def __init__(
        self,
        root: Path,
        checker: Checker,
        context: CheckContext,
        clock: Clock,
        blobs: Callable[[str], Awaitable[Blobs]],
        findings: CheckResultStore,
        tips: PlanStore,
        verified: VerifiedChecks | None = None,
    ) -> None:
        """`blobs` opens the contents of a board; `findings` stores results of checks, `tips` where branches stand.

        `verified` has verifiers make checks; without it they run here.
        """
        self._root = root
        self._clock = clock
        self._blobs = blobs
        self._findings = findings
        self._workspaces = PlanWorkspaces(root)
        self._checks = CheckRunner(root, checker, context, clock, blobs, findings, verified)
        self._tips = PlanTips(tips, clock)
        self.transport = RemoteWork(self._workspaces, tips, blobs, clock)
        mutants = MutantProver(self._checks, findings, clock)
        self._candidates = CandidateProver(self._checks, mutants, self._tips, clock)

    async def find_faults(self, criteria: ValidationCriteria, files: Mapping[str, bytes]) -> list[str]:
        """Find what is wrong with files; see the port."""
        faults = rework.find_format_faults(criteria, files)
        if faults or not (criteria.required_fields or criteria.json_schema):
            return faults
        for path in files:
            fields: dict[str, Any] = {"id": path, "kind": "json", "path": path}
            fields |= {"required_fields": list(criteria.required_fields)} if criteria.required_fields else {}
            fields |= {"schema": criteria.json_schema} if criteria.json_schema else {}
            check = JsonCheck.model_validate(fields)
            result = await self._checks.run(check, CheckFacts(), self._checks.open_files(files))
            if not result.passed:
                faults.append(result.detail or result.reason)
        return faults

    async def survey(self, repo: Repository) -> tuple[Sequence[str], Sequence[str]]:
        """Survey a repository before a plan begins there; see the port."""
        survey = await asyncio.to_thread(survey_folder, Path(repo.repo), repo.base)
        return survey.paths, () if repo.uncommitted == "take" else survey.uncommitted

    async def begin(self, job: Job) -> Job:
        """Prepare an attempt; see the port."""
        promise = job.command.promise
        if job.repo is None:
            await self._checks.record_baseline(job, "", None)
            return job
        self._checks.refuse_local_needs(job)
        job.enter("preparing")
        space = await self._workspaces.open_for(job)
        if rework.is_after_conflict(job.command):  # it must not conflict again: others merge after it
            job.enter("in_line")
            await self._candidates.hold(space, job.lease)
        tip = await self._tips.settle(space)
        # The work may be merged already: the store may come from an older backup than the repository.
        merged = await space.find_merge(job.command.command_id, tip)
        before = await space.trees.resolve(f"{merged}^1") if merged else tip
        await _refuse_visible(space, promise, await space.base())
        prepared = await self._checks.prepare(space, job, tip)
        _, held = await self._workspaces.read_protection(space, promise, job.neighbours)
        if job.profile.is_elsewhere:
            base, patch = await self.transport.begin(space, job, tip, inputs.boundary_of(promise, held))
            await self._checks.record_baseline(job, before, space)
            return _with_patch(replace(job, base=base), patch)
        job.enter("cloning")
        cloning = asyncio.ensure_future(
            space.attempts.begin(
                inputs.attempt_of(job),
                at=self._clock.now(),
                onto=tip,
                previous=await inputs.previous_of(space, job),
                protected=inputs.boundary_of(promise, held),
                prepared=prepared,
                shared=prepared is None and bool(inputs.checks_of(promise)) and await self._checks.shares_trees(),
            )
        )
        try:  # the agent waits for both: they go on side by side
            await self._checks.record_baseline(job, before, space)
        except BaseException:
            cloning.cancel()
            await asyncio.gather(cloning, return_exceptions=True)
            await space.attempts.drop(inputs.attempt_of(job))
            raise
        clone = await cloning
        if prepared is not None and prepared.bound:
            job.enter("preparing", prepared.recipe.command)
            await space.attempts.furnish(clone, prepared)
        ready = replace(job, cwd=str(clone.path.relative_to(self._root.absolute())), readonly=clone.readonly)
        return _with_patch(ready, clone.patch)

    async def prove(
        self, job: Job, performance: Performance, done: DonePredicate, confirm: Confirmer, land: Lander
    ) -> WorkProof:
        """Check what an attempt left, and merge it if it is done; see the port."""
        if performance.misfits:
            return WorkProof(refused=verdict_words.MISFITS(names=", ".join(sorted(performance.misfits))))
        if job.repo is None:
            ask = partial(confirm, exhibit=Exhibit(tuple(performance.outputs)))
            facts, results = await self._check_until_settled(job, performance, ask)
            return inputs.proof_of(
                [*results, *await self._checks.ask_people(job, facts, facts.tree, results, done, ask)]
            )
        space = await self._workspaces.open_for(job)
        taken = await self._take_work(space, job, performance.submitted)
        if isinstance(taken, TreeRefusal):
            return inputs.proof_of_refusal(taken)
        promise = job.command.promise
        tree, protected = await self._workspaces.read_protection(space, promise, job.neighbours)
        breach = inputs.breach_of(promise, protected, taken)
        if breach:
            return WorkProof(breach=inputs.shorten_paths(breach), hidden=any(path in taken.veiled for path in breach))
        base = await self._findings.find_baseline(job) or NO_BASELINE
        since = base.onto or taken.onto
        work = AttemptWork(space, job, performance, taken, tree, protected, base, since, done, confirm, land)
        return await self._candidates.prove(work)

    def release_attempt(self, job: Job) -> None:
        """Let other attempts merge; see the port."""
        self._candidates.let_go(job.plan_id, job.lease)

    def end_plan(self, plan_id: str) -> None:
        """Free what is kept for a plan; see the port."""
        self._candidates.end_plan(plan_id, partial(self._workspaces.release, plan_id))

    async def close(self) -> None:
        """Free what is kept for all plans; see the port."""
        await self._candidates.finish_cleaning()
        await self._workspaces.release()

    async def examine(self, shipment: Shipment, checks: Sequence[tuple[AnyCheck, str]]) -> ShipmentReport:
        """Run checks on a shipment; see the port."""
        space = await self._workspaces.open(shipment.plan_id, shipment.repo) if shipment.repo is not None else None
        tip = await self._tips.settle(space) if space is not None else ""
        command = shipment.repo.prepare if shipment.repo is not None else None
        recipe = await self._checks.make_recipe(command) if space is not None and command and checks else None
        prepared = (
            await space.checkouts.environments.prepare(tip, recipe)
            if space is not None and recipe is not None
            else None
        )
        blobs = await self._blobs(shipment.board)
        files = {path: await blobs.get(sha256) for path, sha256 in shipment.files.items()} if checks else {}
        files_hash = wire.sha256(wire.write(dict(sorted(shipment.files.items()))))
        reports = []
        for check, where in checks:
            if where == "tip" and space is not None:
                result = await self._checks.run(check, CheckFacts(tip), open_tree(space, tip, prepared))
            else:
                result = await self._checks.run(check, CheckFacts(files_hash), self._checks.open_files(files))
            reports.append(findings_json.to_json(result) | {"on": where})
        moved = space is not None and await self._tips.settle(space) != tip
        return ShipmentReport(
            tuple(reports), tip, ("the plan's branch moved while the gates were checked",) if moved else ()
        )

    async def _take_work(
        self, space: PlanWorkspace, job: Job, submitted: SubmittedWork | None
    ) -> AttemptCommit | TreeRefusal:
        """Take what an attempt left. If an earlier engine took it, that counts, even if the clone has changed since."""
        if submitted is not None:  # it comes from the store, which does not change
            return await self.transport.take(space, job, submitted)
        before = await space.attempts.find_taken(inputs.attempt_of(job)) if job.again else None
        return before or await space.attempts.take_work(inputs.attempt_of(job), at=self._clock.now())

    async def keep_work(self, job: Job) -> bool:
        """Keep what an interrupted attempt left; see the port."""
        if job.repo is None or job.profile.is_elsewhere:
            return False
        space = await self._workspaces.open_for(job)
        taken = await space.attempts.take_work(inputs.attempt_of(job), at=self._clock.now())
        return not isinstance(taken, TreeRefusal) and bool(taken.changes)

    async def accept(self, left: AcceptedWork, land: Callable[[TipMove], Awaitable[bool]]) -> None:
        """Merge what an attempt left, as a person decided; see the port."""
        space = await self._workspaces.open(left.plan_id, left.repo)
        taken = await space.attempts.find_taken(WorkspaceAttempt(left.task_id, left.command_id, left.attempt))
        if taken is None:
            raise InputError(Code.NAME_UNKNOWN, f"nothing is kept of the last attempt at {left.task_id}")
        _, protected = await self._workspaces.read_protection(space, left.promise, left.neighbours)
        while True:
            tip = await self._tips.settle(space)
            candidate = await space.make_candidate(taken, at=self._clock.now(), protected=protected, onto=tip)
            if isinstance(candidate, CandidateConflict):
                paths = ", ".join(inputs.shorten_paths(candidate.paths))
                raise InputError(Code.FILE_UNSAFE, f"it conflicts with what other tasks merged meanwhile: {paths}")
            if await land(await self._tips.pack_move(space, tip, candidate.commit)):
                await self._tips.settle(space)
                self._candidates.in_background(space.attempts.drop(taken.attempt))
                return

    async def _check_until_settled(
        self, job: Job, performance: Performance, ask: Confirmer
    ) -> tuple[CheckFacts, list[CheckResult]]:
        """Check work without a repository; again as long as verifiers disagree and a person wants that."""
        while True:
            facts, results = await self._check_outputs(job, performance)
            disputed = [(each, verification.make_question(each)) for each in results]
            for result, question in disputed:
                if question is not None and not (await ask(question, verification.hash_seals(result))).approved:
                    return facts, results
            if not any(question for _, question in disputed):
                return facts, results

    async def _check_outputs(self, job: Job, performance: Performance) -> tuple[CheckFacts, list[CheckResult]]:
        """Check work without a repository: the checkout holds the outputs and nothing else."""
        outputs = {inputs.output_path_of(output): output for output in performance.outputs}
        tree = wire.sha256(wire.write({path: output.sha256 for path, output in outputs.items()}))
        facts = CheckFacts(
            tree=tree,
            files=inputs.files_of_checks(job.command.promise),
            inputs=inputs.inputs_of(job, None),
            artifacts={**job.others, **inputs.stored_outputs(job, performance)},
            report=inputs.report_of(performance),
            tier=tier_of(performance.sandbox),
            required=job.profile.isolated_only,
        )
        blobs = await self._blobs(job.board)
        files = {
            path: output.data if output.data is not None else await blobs.get(output.sha256)
            for path, output in outputs.items()
        }
        base = await self._findings.find_baseline(job) or NO_BASELINE
        return facts, await self._checks.run_all(job, facts, base, self._checks.open_files(files))

    async def find_head(self, plan_id: str, repo: Repository) -> str:
        """Find the tip of a plan's branch; see the port."""
        return await (await self._workspaces.open(plan_id, repo)).head()

    async def settle(self, plan_id: str, repo: Repository) -> str:
        """Bring the branch in a plan's repository to its tip; see the port."""
        return await self._tips.settle(await self._workspaces.open(plan_id, repo))

    async def find_tip(self, job: Job, globs: Sequence[str], commit: str = "") -> BranchTip:
        """Find the tip of a plan's branch, with what evidence can rest on there; see the port."""
        space = await self._workspaces.open_for(job)
        commit = commit or await self._tips.settle(space)
        tree = await space.trees.tree_of(commit)
        command = job.repo.prepare if job.repo is not None else None
        prepared = {inputs.PREPARED: await space.checkouts.environments.prepare_key(tree, command)} if command else {}
        covered = await inputs.hash_covered(space, tree, globs)
        return BranchTip(commit, EvidenceBasis(tree, covered, inputs=prepared))

    async def recheck(self, job: Job, check: AnyCheck, kept: Fingerprint, commit: str) -> CheckResult:
        """Run a check at a commit; see the port."""
        space = await self._workspaces.open_for(job)
        tree = await space.trees.tree_of(commit)
        tier = tier_of(job.profile.tier)
        prepared = await self._checks.prepare(space, job, tree, tier=tier)
        base = await self._findings.find_baseline(job) or NO_BASELINE
        _, protected = await self._workspaces.read_protection(space, job.command.promise, {})
        facts = CheckFacts(
            tree=tree,
            covered=await inputs.hash_covered(space, tree, check.covers or ()),
            files=check.files_sha256 or {},
            inputs={**kept.inputs, **inputs.inputs_of(None, prepared)},
            protected=await inputs.find_guarded(space, tree, protected),
            tier=tier,
            required=job.profile.isolated_only,
            place=await space.checkouts.hash_place(),
            standing=await inputs.find_runner_paths(space, await space.base(), job.command.promise),
        )
        return await self._checks.run_with_baseline(job, check, facts, base, open_tree(space, tree, prepared, commit))

    async def list_arrivals(self, job: Job, since: str, tip: str) -> Sequence[tuple[str, str | None]]:
        """List the commits on the plan's branch; see the port."""
        return await (await self._workspaces.open_for(job)).list_arrivals(since, tip)


def _with_patch(job: Job, patch: str) -> Job:
    """Return a job with the previous attempt as an input, if there is such a patch."""
    if not patch:
        return job
    data = patch.encode("utf-8", "surrogateescape")
    content = InputContent(rework.PREVIOUS_INPUT, rework.PATCH, wire.sha256(data), len(data), data)
    return replace(job, inputs=(*job.inputs, content))


async def _refuse_visible(space: PlanWorkspace, promise: CompletionPromise | None, base: str) -> None:
    """Raise InputError when a file of a hidden check lies where the agent works."""
    for check in inputs.checks_of(promise):
        for path in hidden_checks.list_files(check) if hidden_checks.is_hidden(check) else ():
            if await space.trees.read(base, path) is not None:
                raise InputError(Code.CHECK_CANNOT_RUN, check_words.HIDDEN_IN_TREE(path=path, id=check.id))
