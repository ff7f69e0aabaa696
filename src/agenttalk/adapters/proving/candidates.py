"""Checks what attempts left as merge candidates, and merges those that are done.

Attempts of one plan that are ready at the same time form a train (`merge_train.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.adapters.proving import evidence_inputs as inputs
from agenttalk.adapters.proving.check_runner import CheckRunner, DonePredicate
from agenttalk.adapters.proving.merge_train import MergeTrain, TrainBase, TrainPlace
from agenttalk.adapters.proving.mutants import MutantProver
from agenttalk.adapters.proving.plan_tips import PlanTips
from agenttalk.adapters.proving.proof_checkouts import open_tree
from agenttalk.adapters.workspaces.results import AttemptCommit, CandidateConflict, MergeCandidate
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.contracts.promise import CompletionPromise, HumanCheck, MutantsCheck, RunCheck, TestsCheck
from agenttalk.ports.agents import Job
from agenttalk.ports.proof import NO_EXHIBIT, Baseline, Confirmer, Exhibit
from agenttalk.ports.storage import Clock
from agenttalk.rules.changes import suspicion_review
from agenttalk.rules.changes.suspicions import find_suspicions, may_hold_answers
from agenttalk.rules.checks import protection
from agenttalk.rules.checks.check_results import hash_shown
from agenttalk.rules.checks.protection import FileTree, Protection
from agenttalk.rules.core import scope
from agenttalk.rules.core.scope import Globs
from agenttalk.rules.fleet import verification
from agenttalk.rules.proof.evidence import CheckResult, Confirmation
from agenttalk.rules.proof.performance import Performance, WorkProof
from agenttalk.rules.text.message import join

LOG = logging.getLogger(__name__)
NOTHING_HELD: Final = Globs()
"""In a plan, protected files are put back before the search for suspicious lines."""
Lander = Callable[[WorkProof], Awaitable[bool]]
"""Writes that work is done, with the new tip; False if the tip was moved meanwhile."""
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
    """The result of checking a candidate."""

    proof: WorkProof
    candidate: MergeCandidate | None = None
    """The candidate, if it fulfils the promise."""
    question: _PersonQuestion | None = None
    """What a person has to be asked first; then nothing is decided."""


@dataclass(frozen=True, slots=True)
class AttemptWork:
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
    land: Lander
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


class CandidateProver:
    """Checks and merges candidates, for the prover."""

    def __init__(self, checks: CheckRunner, mutants: MutantProver, tips: PlanTips, clock: Clock) -> None:
        self._checks = checks
        self._mutants = mutants
        self._tips = tips
        self._clock = clock
        self._trains: dict[str, MergeTrain] = {}
        """By plan."""
        self._cleaning: set[asyncio.Future[None]] = set()
        self._dropping: dict[str, set[asyncio.Future[None]]] = {}
        """Plan → its clones that are being removed or set aside."""

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Clean up while others go on. What fails is left for `gc`."""

        async def clean() -> None:
            try:
                await work
            except AgentTalkError as error:
                LOG.warning("%s", error.message, extra={"action": "workspaces.clean"})

        task = asyncio.ensure_future(clean())
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)
        return task

    def end_plan(self, plan_id: str, release: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Free what is kept for a plan, once its last landing is over and its clone is set aside."""

        async def free() -> None:
            if (train := self._trains.get(plan_id)) is not None:
                await train.wait_landing()
            await asyncio.gather(*self._dropping.pop(plan_id, ()))
            await release()

        self.in_background(free())

    async def finish_cleaning(self) -> None:
        """Wait until everything that goes on in the background has ended."""
        while self._cleaning:
            await asyncio.wait(self._cleaning)

    async def hold(self, space: PlanWorkspace, lease: str) -> None:
        """Have no other attempt merge until this one is over; see `MergeTrain.hold`."""
        await self._train_of(space).hold(lease)

    def let_go(self, plan_id: str, lease: str) -> None:
        """Let other attempts merge again."""
        train = self._trains.get(plan_id)
        if train is not None:
            train.let_go(lease)

    def _train_of(self, space: PlanWorkspace) -> MergeTrain:
        """Return the merge train of a plan."""
        return self._trains.setdefault(space.plan, MergeTrain(partial(self._tips.settle, space)))

    async def prove(self, work: AttemptWork) -> WorkProof:
        """Check an attempt as a member of the plan's merge train, and merge it if it is done.

        A person is asked before it joins, so that no task behind it waits for the answer. If its own changes become
        others in the train, it leaves it, the person is asked about them, and it joins again.
        """
        lease, train = work.job.lease, self._train_of(work.space)
        if inputs.human_checks_of(work.promise) and (refused := await self._ask_before(work)) is not None:
            return refused
        while True:
            work.job.enter("checking")
            with train.join(lease) as place:
                outcome = await self._ride(work, place)
            if isinstance(outcome, WorkProof):
                return outcome
            await work.ask(outcome)

    async def _ask_before(self, work: AttemptWork) -> WorkProof | None:
        """Check an attempt alone at the tip, and have people confirm it. Returns a proof if it is not done."""
        while True:
            tip = await self._tips.settle(work.space)
            trial = await self._try_on(work, TrainBase(0, tip, tip))
            if trial.question is None:
                return None if trial.candidate is not None else trial.proof
            await work.ask(trial.question)

    async def _ride(self, work: AttemptWork, place: TrainPlace) -> WorkProof | _PersonQuestion:
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
        self, work: AttemptWork, trial: _Trial, candidate: MergeCandidate, place: TrainPlace
    ) -> WorkProof | None:
        """Land a candidate that passed, when it is its turn. Returns None when it has to be built again."""
        work.job.enter("in_line")
        landed: list[WorkProof] = []
        if await place.land(partial(self._advance, work, trial.proof, candidate, landed)) is None:
            return None
        return landed[0]

    async def _try_on(
        self, work: AttemptWork, base: TrainBase, offer: Callable[[str], None] = lambda _: None
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
            return _Trial(replace(dropped, refused=join(odd[: inputs.BREACHES]), foreign=foreign))
        facts, results = await self._check_candidate(work, base, candidate)
        exhibit = await self._make_exhibit(space, job, performance, candidate)
        try:
            results = self._settle_verifiers(work, results)
            results = await self._judge_suspicions(work, candidate, results)
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
        work: AttemptWork,
        facts: CheckFacts,
        candidate: MergeCandidate,
        results: list[CheckResult],
        exhibit: Exhibit,
    ) -> list[CheckResult]:
        """Return the answers of people about the changes of a candidate. Raises the first question without one."""
        if not inputs.human_checks_of(work.promise):
            return []
        changes = await work.space.trees.hash_own_changes(*await self._find_ends(work, candidate))

        async def confirm(check: HumanCheck, shown: str, *, exhibit: Exhibit = exhibit) -> Confirmation:
            answer = work.answers.get((check.id, shown))
            if answer is None:
                raise _PersonQuestion(check, shown, exhibit)
            return answer

        return await self._checks.ask_people(work.job, facts, changes, results, work.done, confirm)

    @staticmethod
    async def _find_ends(work: AttemptWork, candidate: MergeCandidate) -> tuple[str, str]:
        """Find where the changes of a candidate begin and end: elsewhere, if they were merged before."""
        if candidate.commit == candidate.onto:  # by an engine that died then
            merged = await work.space.find_merge(work.job.command.command_id, candidate.onto)
            if merged:
                return f"{merged}^1", merged
        return candidate.onto, candidate.tree

    @staticmethod
    def _settle_verifiers(work: AttemptWork, results: list[CheckResult]) -> list[CheckResult]:
        """Have a person decide about verifiers that disagree: the check is made again, or it has failed.

        Raises the question. Once a person wants no other check, what was found later does not count either.
        """
        settled: list[CheckResult] = []
        for result in results:
            name = verification.name_question(result.id)
            refused = any(not answer.approved for (check, _), answer in work.answers.items() if check == name)
            question = verification.make_question(result)
            if question is not None and not refused:
                shown = verification.hash_seals(result)
                raise _PersonQuestion(question, shown, Exhibit(tuple(work.performance.outputs)))
            settled.append(verification.refuse_result(result) if refused else result)
        return settled

    async def _judge_suspicions(
        self, work: AttemptWork, candidate: MergeCandidate, results: list[CheckResult]
    ) -> list[CheckResult]:
        """Judge results again with the suspicious lines of a candidate. Raises the question to a person.

        The person is asked only if the approval, with those of other questions, is all that is missing.
        """
        promise, trees = work.promise, work.space.trees
        if promise is None or not any(isinstance(check, RunCheck | TestsCheck) for check in promise.checks):
            return results
        before, after = await self._find_ends(work, candidate)
        files = await trees.read_changes(before, after)
        tests = await trees.read_tests(before) if may_hold_answers(files) else ()
        seen = await asyncio.to_thread(find_suspicions, files, NOTHING_HELD, tests)
        question = suspicion_review.make_question(promise, seen)
        answer, shown = None, ""
        if question is not None:
            changes = await trees.hash_own_changes(before, after)
            shown = hash_shown(question.question, {"tree": changes, "lines": suspicion_review.hash_lines(seen)})
            answer = work.answers.get((question.id, shown))
            if answer is None and self._checks.is_worth_asking(work.job, results, work.done):
                diff = await trees.diff(before, after, limit=_SHOWN)
                raise _PersonQuestion(question, shown, Exhibit(tuple(work.performance.outputs), diff))
        checks = {check.id: check for check in promise.checks}
        return [
            suspicion_review.judge_result(result, checks[result.id], promise, seen, answer, shown) for result in results
        ]

    async def _advance(
        self, work: AttemptWork, proof: WorkProof, candidate: MergeCandidate, landed: list[WorkProof], tip: str
    ) -> str | None:
        """Have it written that work is done, and the tip moved to the tree of its candidate.

        Returns the new tip, or None when another party has moved the tip. The branch follows after that is committed;
        if it cannot, the next reader of the tip moves it.
        """
        space = work.space
        work.job.enter("merging")
        vouched = [f"{item.id} {item.trust}" for item in proof.evidence if item.passed and item.fresh]
        candidate = await space.vouch(candidate, work.taken, vouched, at=self._clock.now(), onto=tip)
        commit = candidate.commit
        if commit == tip:  # nothing was left to merge: it may have been merged before
            commit = await space.find_merge(work.job.command.command_id, tip) or tip
        if await self._tips.settle(space) != tip:
            return None
        proof = replace(proof, commit=commit, move=await self._tips.pack_move(space, tip, candidate.commit))
        if not await work.land(proof):
            return None
        landed.append(proof)
        drop = self.in_background(space.attempts.drop(work.taken.attempt, keep=True))  # its work is kept, and merged
        dropping = self._dropping.setdefault(space.plan, set())
        dropping.add(drop)
        drop.add_done_callback(dropping.discard)
        try:
            await self._tips.settle(space)
        except AgentTalkError as error:
            LOG.warning("%s", error.message, extra={"action": "branch.follow"})
        return candidate.commit

    async def _check_candidate(
        self, work: AttemptWork, base: TrainBase, candidate: MergeCandidate
    ) -> tuple[CheckFacts, list[CheckResult]]:
        """Run the checks of a candidate. The tree of another candidate is unchecked work: it is never prepared."""
        space, job, performance, promise = work.space, work.job, work.performance, work.promise
        tier = tier_of(performance.sandbox)
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
            place=await space.checkouts.hash_place(),
            standing=await inputs.find_runner_paths(space, await space.base(), promise),
            changed=tuple(change.path for change in work.taken.changes),
        )
        opener = open_tree(space, candidate.tree, prepared, candidate.commit)
        results = await self._checks.run_all(job, facts, work.base, opener)
        if promise is not None and any(isinstance(check, MutantsCheck) for check in promise.checks):
            files = await space.trees.read_changes(*await self._find_ends(work, candidate))
            results += await self._mutants.prove(job, files, facts, opener, results)
        return facts, results

    async def _make_exhibit(
        self, space: PlanWorkspace, job: Job, performance: Performance, candidate: MergeCandidate
    ) -> Exhibit:
        """Make what people see who have to confirm work in a repository."""
        if not inputs.human_checks_of(job.command.promise):
            return NO_EXHIBIT
        diff = await space.trees.diff(candidate.onto, candidate.tree, limit=_SHOWN)
        return Exhibit(tuple(performance.outputs), diff)


def tier_of(sandbox: str) -> Tier:
    """Return the tier of a turn's sandbox; "plain" for an unknown one."""
    return "bubblewrap" if sandbox == "bubblewrap" else "landlock" if sandbox == "landlock" else "plain"
