"""Proves what an agent did: commits its tree, merges it as a candidate and checks it out of the agent's reach."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from agenttalk.adapters.checking.checker import Checker, CheckFacts
from agenttalk.adapters.checking.command import CheckContext
from agenttalk.adapters.proving import evidence_inputs as inputs
from agenttalk.adapters.proving.check_runner import NO_BASELINE, CheckRunner, DonePredicate, open_tree
from agenttalk.adapters.proving.merge_train import MergeTrain, TrainBase, TrainPlace
from agenttalk.adapters.proving.plan_workspaces import PlanWorkspaces
from agenttalk.adapters.workspaces.results import (
    AttemptCommit,
    CandidateConflict,
    MergeCandidate,
    TreeRefusal,
    WorkspaceAttempt,
)
from agenttalk.adapters.workspaces.user_folder import survey_folder
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.command import ValidationCriteria
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, Code, InputError
from agenttalk.contracts.plan import Workspace as Repository
from agenttalk.contracts.promise import AnyCheck, CompletionPromise, HumanCheck, JsonCheck
from agenttalk.ports.agents import InputContent, Job
from agenttalk.ports.proof import (
    NO_EXHIBIT,
    AcceptedWork,
    Baseline,
    BranchTip,
    CheckResultStore,
    Confirmer,
    Exhibit,
    Shipment,
    ShipmentReport,
)
from agenttalk.ports.storage import Blobs, Clock
from agenttalk.rules.core import scope
from agenttalk.rules.proof import findings_json, protection, rework
from agenttalk.rules.proof.check_results import Confirmation
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint
from agenttalk.rules.proof.performance import Performance, WorkProof
from agenttalk.rules.proof.protection import FileTree, Protection
from agenttalk.rules.proof.staleness import EvidenceBasis
from agenttalk.rules.text import verdict_words

_SHOWN: Final = 48 * 1024
"""Bytes of a diff that people see who decide about it."""


class _PersonQuestion(Exception):  # noqa: N818 - it is not an error
    """A person has to be asked about a candidate before it can go on."""

    def __init__(self, check: HumanCheck, shown: str, exhibit: Exhibit) -> None:
        super().__init__(check.id)
        self.check = check
        self.shown = shown
        self.exhibit = exhibit


@dataclass(frozen=True, slots=True)
class _Trial:
    """What came of checking a candidate."""

    proof: WorkProof
    candidate: MergeCandidate | None = None
    """The candidate, if it fulfils the promise."""
    question: _PersonQuestion | None = None
    """What a person has to be asked first; then nothing is decided."""


@dataclass(frozen=True, slots=True)
class _AttemptWork:
    """What an attempt left, and what is needed to check it."""

    space: PlanWorkspace
    job: Job
    performance: Performance
    taken: AttemptCommit
    tree: FileTree
    """The tree where the plan began."""
    protected: Protection
    base: Baseline
    since: str
    """The tip where the first attempt of the task began."""
    done: DonePredicate
    confirm: Confirmer
    answers: dict[tuple[str, str], Confirmation] = field(default_factory=dict)
    """Check and hash of what was shown → a person's answer."""

    @property
    def promise(self) -> CompletionPromise | None:
        """The promise of the task."""
        return self.job.command.promise

    async def ask(self, question: _PersonQuestion) -> None:
        """Ask a person, and remember the answer."""
        answer = await self.confirm(question.check, question.shown, exhibit=question.exhibit)
        self.answers[question.check.id, question.shown] = answer


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
    ) -> None:
        """`blobs` opens the contents of a board; `findings` stores results of checks."""
        self._root = root
        self._clock = clock
        self._blobs = blobs
        self._findings = findings
        self._workspaces = PlanWorkspaces(root)
        self._trains: dict[str, MergeTrain] = {}
        self._checks = CheckRunner(root, checker, context, clock, blobs, findings)

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
        space = await self._workspaces.open_for(job)
        if rework.is_after_conflict(job.command):  # it must not conflict again: others merge after it
            await self._train_of(space).hold(job.lease)
        tip = await space.ensure()
        # The work may be merged already: by a process that died before it recorded that.
        merged = await space.find_merge(job.command.command_id)
        await self._checks.record_baseline(job, await space.trees.resolve(f"{merged}^1") if merged else tip, space)
        prepared = await self._checks.prepare(space, job, tip)
        _, held = await self._workspaces.read_protection(space, promise, job.neighbours)
        clone = await space.attempts.begin(
            inputs.attempt_of(job),
            at=self._clock.now(),
            previous=await inputs.previous_of(space, job),
            protected=inputs.boundary_of(promise, held),
            prepared=prepared,
        )
        if prepared is not None and prepared.bound:
            await space.attempts.furnish(clone, prepared)
        ready = replace(job, cwd=str(clone.path.relative_to(self._root.absolute())), readonly=clone.readonly)
        if not clone.patch:
            return ready
        data = clone.patch.encode("utf-8", "surrogateescape")
        patch = InputContent(rework.PREVIOUS_INPUT, rework.PATCH, wire.sha256(data), len(data), data)
        return replace(ready, inputs=(*job.inputs, patch))

    async def prove(self, job: Job, performance: Performance, done: DonePredicate, confirm: Confirmer) -> WorkProof:
        """Check what an attempt left, and merge it if it is done; see the port."""
        if performance.misfits:
            return WorkProof(refused=verdict_words.MISFITS(names=", ".join(sorted(performance.misfits))))
        if job.repo is None:
            facts, results = await self._check_outputs(job, performance)
            ask = partial(confirm, exhibit=Exhibit(tuple(performance.outputs)))
            return inputs.proof_of(
                [*results, *await self._checks.ask_people(job, facts, facts.tree, results, done, ask)]
            )
        space = await self._workspaces.open_for(job)
        taken = await self._take_work(space, job)
        if isinstance(taken, TreeRefusal):
            return inputs.proof_of_refusal(taken)
        promise = job.command.promise
        tree, protected = await self._workspaces.read_protection(space, promise, job.neighbours)
        breach = inputs.breach_of(promise, protected, taken)
        if breach:
            return WorkProof(breach=inputs.shorten_paths(breach), hidden=any(path in taken.veiled for path in breach))
        base = await self._findings.find_baseline(job) or NO_BASELINE
        since = base.onto or taken.onto
        work = _AttemptWork(space, job, performance, taken, tree, protected, base, since, done, confirm)
        return await self._prove_merge(work)

    async def _prove_merge(self, work: _AttemptWork) -> WorkProof:
        """Check an attempt as a member of the plan's merge train, and merge it if it is done.

        A person is asked before it joins, so that nobody behind it waits for the answer. If its own changes become
        others in the train, it leaves it, the person is asked about them, and it joins again.
        """
        lease, train = work.job.lease, self._train_of(work.space)
        if inputs.human_checks_of(work.promise) and (refused := await self._ask_before(work)) is not None:
            return refused
        while True:
            with train.join(lease) as place:
                outcome = await self._ride(work, place)
            if isinstance(outcome, WorkProof):
                return outcome
            await work.ask(outcome)

    async def _ask_before(self, work: _AttemptWork) -> WorkProof | None:
        """Check an attempt alone at the tip, and have people confirm it. Returns a proof if it is not done."""
        while True:
            tip = await work.space.ensure()
            trial = await self._try_on(work, TrainBase(0, tip, tip))
            if trial.question is None:
                return None if trial.candidate is not None else trial.proof
            await work.ask(trial.question)

    async def _ride(self, work: _AttemptWork, place: TrainPlace) -> WorkProof | _PersonQuestion:
        """Build, check and land in a train. Returns the question when a person has to be asked first."""
        while True:
            base = await place.find_base()
            try:
                trial = await place.unless_outdated(self._try_on(work, base, partial(place.offer, base)), base)
            except AgentTalkError:
                if await place.fail(base):
                    raise
                continue  # the cause may be what others bring, who have not landed
            if trial is None:
                continue
            if trial.question is not None:
                return trial.question
            if trial.candidate is None:
                if await place.fail(base):
                    return trial.proof
            elif (proof := await self._land(work, trial, trial.candidate, place)) is not None:
                return proof

    async def _land(
        self, work: _AttemptWork, trial: _Trial, candidate: MergeCandidate, place: TrainPlace
    ) -> WorkProof | None:
        """Merge a candidate that passed, when it is its turn. Returns None when it has to be built again."""
        landed = await place.land(partial(self._advance, work, candidate, trial.proof))
        if landed is None:
            return None
        before = None
        if candidate.commit == candidate.onto:  # nothing was left to merge: an earlier engine may have merged it
            before = await work.space.find_merge(work.job.command.command_id)
        return replace(trial.proof, commit=before or landed)

    async def _try_on(
        self, work: _AttemptWork, base: TrainBase, offer: Callable[[str], None] = lambda _: None
    ) -> _Trial:
        """Build an attempt's candidate on a base, `offer` its commit, and check it."""
        candidate = await work.space.make_candidate(
            work.taken, at=self._clock.now(), protected=work.protected, since=work.since, onto=base.commit
        )
        if isinstance(candidate, CandidateConflict):
            paths = ", ".join(inputs.shorten_paths(candidate.paths))
            return _Trial(WorkProof(conflict=f"{paths}\n{scope.display_path(candidate.text)}"))
        offer(candidate.commit)
        space, job, performance, taken = work.space, work.job, work.performance, work.taken
        ours, others = await space.split_commits(work.since, candidate.onto)
        foreign = tuple(others[: inputs.BREACHES])
        dropped = inputs.proof_of_dropped(taken, candidate)
        odd = await inputs.find_tampered(space, work.protected, candidate, work.since, ours)
        odd += await inputs.find_strange_files(space, work.promise, work.protected, work.tree, candidate)
        if odd := [*odd, *await inputs.find_twins(space, performance, candidate)]:
            return _Trial(replace(dropped, refused="; ".join(odd[: inputs.BREACHES]), foreign=foreign))
        facts, results = await self._check_candidate(work, base, candidate)
        exhibit = await self._make_exhibit(space, job, performance, candidate)
        try:
            results += await self._ask_people(work, facts, candidate, results, exhibit)
        except _PersonQuestion as question:
            return _Trial(inputs.proof_of(results), question=question)
        rests = await inputs.find_changed_check_files(space, job, await space.base(), candidate, work.tree)
        proof = replace(
            inputs.proof_of(results),
            foreign=foreign,
            left=taken.commit,
            restored=dropped.restored,
            left_out=dropped.left_out,
            rests_on=rests,
        )
        if work.done(proof):
            return _Trial(proof, candidate)
        diff = exhibit.diff or await space.trees.diff(candidate.onto, candidate.tree, limit=_SHOWN)
        return _Trial(replace(proof, idle=candidate.commit == candidate.onto, diff=scope.display_path(diff)))

    async def _ask_people(
        self,
        work: _AttemptWork,
        facts: CheckFacts,
        candidate: MergeCandidate,
        results: list[CheckResult],
        exhibit: Exhibit,
    ) -> list[CheckResult]:
        """Return the answers of people about the changes of a candidate. Raises the first question without one."""
        if not inputs.human_checks_of(work.promise):
            return []
        before, after = candidate.onto, candidate.tree
        if candidate.commit == candidate.onto:  # merged before, by an engine that died then
            merged = await work.space.find_merge(work.job.command.command_id)
            before, after = (f"{merged}^1", merged) if merged else (before, after)
        changes = await work.space.trees.hash_own_changes(before, after)

        async def confirm(check: HumanCheck, shown: str, *, exhibit: Exhibit = exhibit) -> Confirmation:
            answer = work.answers.get((check.id, shown))
            if answer is None:
                raise _PersonQuestion(check, shown, exhibit)
            return answer

        return await self._checks.ask_people(work.job, facts, changes, results, work.done, confirm)

    async def _advance(self, work: _AttemptWork, candidate: MergeCandidate, proof: WorkProof, tip: str) -> str | None:
        """Move the branch from its tip to the tree of a candidate; None when somebody else has moved it."""
        vouched = [f"{item.id} {item.trust}" for item in proof.evidence if item.passed and item.fresh]
        candidate = await work.space.vouch(candidate, work.taken, vouched, at=self._clock.now(), onto=tip)
        return candidate.commit if await work.space.advance(candidate) else None

    def _train_of(self, space: PlanWorkspace) -> MergeTrain:
        """Return the merge train of a plan."""
        return self._trains.setdefault(space.plan, MergeTrain(space.ensure))

    def release_attempt(self, job: Job) -> None:
        """Let other attempts merge; see the port."""
        train = self._trains.get(job.plan_id)
        if train is not None:
            train.let_go(job.lease)

    async def examine(self, shipment: Shipment, checks: Sequence[tuple[AnyCheck, str]]) -> ShipmentReport:
        """Run checks on a shipment; see the port."""
        space = await self._workspaces.open(shipment.plan_id, shipment.repo) if shipment.repo is not None else None
        tip = await space.ensure() if space is not None else ""
        command = shipment.repo.prepare if shipment.repo is not None else None
        recipe = await self._checks.make_recipe(command) if space is not None and command and checks else None
        prepared = await space.checkouts.prepare(tip, recipe) if space is not None and recipe is not None else None
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
        moved = space is not None and await space.ensure() != tip
        return ShipmentReport(
            tuple(reports), tip, ("the plan's branch moved while the gates were checked",) if moved else ()
        )

    async def _take_work(self, space: PlanWorkspace, job: Job) -> AttemptCommit | TreeRefusal:
        """Take what an attempt left. If an earlier engine took it, that counts, even if the clone has changed since."""
        before = await space.attempts.find_taken(inputs.attempt_of(job)) if job.again else None
        return before or await space.attempts.take_work(inputs.attempt_of(job), at=self._clock.now())

    async def accept(self, left: AcceptedWork) -> str:
        """Merge what an attempt left, as a person decided; see the port."""
        space = await self._workspaces.open(left.plan_id, left.repo)
        taken = await space.attempts.find_taken(WorkspaceAttempt(left.task_id, left.command_id, left.attempt))
        if taken is None:
            raise InputError(Code.NAME_UNKNOWN, f"nothing is kept of the last attempt at {left.task_id}")
        _, protected = await self._workspaces.read_protection(space, left.promise, left.neighbours)
        while True:
            candidate = await space.make_candidate(taken, at=self._clock.now(), protected=protected)
            if isinstance(candidate, CandidateConflict):
                paths = ", ".join(inputs.shorten_paths(candidate.paths))
                raise InputError(Code.FILE_UNSAFE, f"it conflicts with what other tasks merged meanwhile: {paths}")
            if await space.advance(candidate):
                return candidate.commit

    async def _check_candidate(
        self, work: _AttemptWork, base: TrainBase, candidate: MergeCandidate
    ) -> tuple[CheckFacts, list[CheckResult]]:
        """Run the checks of a candidate. The tree of another candidate is unchecked work: it is never prepared."""
        space, job, performance, promise = work.space, work.job, work.performance, work.promise
        tier = _tier(performance.sandbox)
        prepared = await self._checks.prepare(space, job, candidate.tree, base.tip, tier)
        held = protection.derive_protection(promise, work.tree)
        inputs.refuse_planted(prepared, candidate, held)
        facts = CheckFacts(
            tree=candidate.tree,
            inputs=inputs.inputs_of(job, prepared),
            files=inputs.files_of_checks(promise),
            covered=await inputs.hash_covered(space, candidate.tree, inputs.covers_of(promise)),
            git=inputs.git_facts(promise, work.taken, candidate),
            artifacts={**job.others, **inputs.stored_outputs(job, performance)},
            report=inputs.report_of(performance),
            protected=await inputs.find_guarded(space, candidate.tree, held),
            tier=tier,
            required=job.profile.isolated_only,
            standing=await inputs.find_runner_paths(space, await space.base(), promise),
        )
        return facts, await self._checks.run_all(job, facts, work.base, open_tree(space, candidate.tree, prepared))

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
            tier=_tier(performance.sandbox),
            required=job.profile.isolated_only,
        )
        blobs = await self._blobs(job.board)
        files = {
            path: output.data if output.data is not None else await blobs.get(output.sha256)
            for path, output in outputs.items()
        }
        base = await self._findings.find_baseline(job) or NO_BASELINE
        return facts, await self._checks.run_all(job, facts, base, self._checks.open_files(files))

    async def _make_exhibit(
        self, space: PlanWorkspace, job: Job, performance: Performance, candidate: MergeCandidate
    ) -> Exhibit:
        """Make what people see who have to confirm work in a repository."""
        if not inputs.human_checks_of(job.command.promise):
            return NO_EXHIBIT
        diff = await space.trees.diff(candidate.onto, candidate.tree, limit=_SHOWN)
        return Exhibit(tuple(performance.outputs), diff)

    async def find_head(self, plan_id: str, repo: Repository) -> str:
        """Find the tip of a plan's branch; see the port."""
        return await (await self._workspaces.open(plan_id, repo)).head()

    async def find_tip(self, job: Job, globs: Sequence[str]) -> BranchTip:
        """Find the tip of a plan's branch, with what evidence can rest on there; see the port."""
        space = await self._workspaces.open_for(job)
        commit = await space.ensure()
        tree = await space.trees.tree_of(commit)
        command = job.repo.prepare if job.repo is not None else None
        prepared = {inputs.PREPARED: await space.checkouts.prepare_key(tree, command)} if command else {}
        covered = await inputs.hash_covered(space, tree, globs)
        return BranchTip(commit, EvidenceBasis(tree, covered, inputs=prepared))

    async def recheck(self, job: Job, check: AnyCheck, kept: Fingerprint, commit: str) -> CheckResult:
        """Run a check at a commit; see the port."""
        space = await self._workspaces.open_for(job)
        tree = await space.trees.tree_of(commit)
        tier = _tier(job.profile.tier)
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
            standing=await inputs.find_runner_paths(space, await space.base(), job.command.promise),
        )
        return await self._checks.run_with_baseline(job, check, facts, base, open_tree(space, tree, prepared))

    async def list_arrivals(self, job: Job, since: str) -> Sequence[tuple[str, str | None]]:
        """List the commits on the plan's branch; see the port."""
        return await (await self._workspaces.open_for(job)).list_arrivals(since)


def _tier(sandbox: str) -> Tier:
    """Return the tier of a turn's sandbox; "plain" for an unknown one."""
    return "bubblewrap" if sandbox == "bubblewrap" else "landlock" if sandbox == "landlock" else "plain"
