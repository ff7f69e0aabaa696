"""Runs the checks of a task in checkouts that the agent cannot reach, and remembers their results."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from agenttalk.adapters.checking.checker import Checker, CheckFacts
from agenttalk.adapters.checking.command import CheckContext
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.proving import evidence_inputs as inputs
from agenttalk.adapters.proving.proof_checkouts import CheckoutOpener, FileCheckouts, ProofCheckout, open_tree
from agenttalk.adapters.proving.verified_checks import VerifiedChecks
from agenttalk.adapters.workspaces.git import FOLDER
from agenttalk.adapters.workspaces.preparation import PreparationRecipe, PreparationRun, PreparedTree
from agenttalk.adapters.workspaces.results import SealedCheckout
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.core.base import write_time
from agenttalk.contracts.errors import Code, InputError
from agenttalk.contracts.promise import AnyCheck, HumanCheck, MutantsCheck
from agenttalk.ports.agents import Job, JobMonitor
from agenttalk.ports.proof import Baseline, CheckResultStore, Confirmer
from agenttalk.ports.storage import Blobs, Clock
from agenttalk.rules.checks import suite_results
from agenttalk.rules.checks.check_results import hash_shown
from agenttalk.rules.core.turn_times import TurnPart
from agenttalk.rules.proof import evidence
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.proof.performance import WorkProof
from agenttalk.rules.text import check_words

_OUTPUTS: Final = "_outputs"
"""Below FOLDER: checkouts of work without a repository. The name of a plan cannot begin with an underscore."""
_LONGEST_OUTPUT: Final = 4000
"""Characters of a preparation's output that its failure shows."""
_NO_FILES: Final[Mapping[str, bytes]] = MappingProxyType({})
NO_BASELINE: Final = Baseline("")
DonePredicate = Callable[[WorkProof], bool]


class CheckRunner:
    """Runs checks for the prover."""

    def __init__(
        self,
        root: Path,
        checker: Checker,
        context: CheckContext,
        clock: Clock,
        blobs: Callable[[str], Awaitable[Blobs]],
        findings: CheckResultStore,
        verified: VerifiedChecks | None = None,
    ) -> None:
        """`verified` has verifiers make the checks that run a program of the work; without it they run here."""
        self._verified = verified
        self._outputs = root.absolute() / FOLDER / _OUTPUTS
        self._checker = checker
        self._context = context
        self._clock = clock
        self._blobs = blobs
        self._findings = findings
        self._swept = False
        self._flights: dict[tuple[str, str], asyncio.Future[bool]] = {}
        """Checks that are looked up or run, by board and key: whether that came to its end."""

    async def run_all(self, job: Job, facts: CheckFacts, base: Baseline, checkout: CheckoutOpener) -> list[CheckResult]:
        """Run all checks of a task but its questions to people, and those that put faults into its work."""
        others = HumanCheck | MutantsCheck
        checks = [check for check in inputs.checks_of(job.command.promise) if not isinstance(check, others)]
        return [await self.run_with_baseline(job, check, facts, base, checkout) for check in checks]

    async def run_with_baseline(
        self, job: Job, check: AnyCheck, facts: CheckFacts, base: Baseline, checkout: CheckoutOpener
    ) -> CheckResult:
        """Run a check, and compare it with its result before the work."""
        job.enter("checking", check.id)
        before = base.results.get(check.id)
        facts = replace(
            facts,
            base=before.tests if before is not None else None,
            base_source=suite_results.find_settled_source(before),
            crossed=before.crossed if before is not None else None,
        )
        result = await self._run_cached(job, check, facts, checkout, "checks")
        found = evidence.apply_redness(result, evidence.judge_baseline(check, before))
        return replace(found, hidden=getattr(check, "hidden", False))

    async def _run_cached(
        self, job: Job, check: AnyCheck, facts: CheckFacts, checkout: CheckoutOpener, part: TurnPart
    ) -> CheckResult:
        """Return the stored result of a check if nothing that it may depend on has changed; else run the check."""
        key = None
        if self._verified is not None and evidence.runs_work(check):
            facts = replace(facts, place=self._verified.place)

        def note() -> None:
            job.times.note(part, self._clock.now())

        if not inputs.has_unknown_inputs(job):
            key = evidence.exact_key(await self._checker.fingerprint(check, facts, self._context))
        if key is None:
            own = await self.read_own_files(job, check)
            return await self._keep_pictures(job, await self.run(check, facts, checkout, own, note, job.watch, job))
        flight = (job.board, key)
        ended = False
        while not ended and (running := self._flights.get(flight)) is not None:
            ended = await asyncio.shield(running)
        return await self._find_or_run(job, check, facts, checkout, flight, note)

    async def _find_or_run(
        self,
        job: Job,
        check: AnyCheck,
        facts: CheckFacts,
        checkout: CheckoutOpener,
        flight: tuple[str, str],
        note: Callable[[], None],
    ) -> CheckResult:
        """Return the stored result of a check, or run it and keep its result. Other tasks that need it wait for that.

        The store is read only once they wait: a read that began before could miss a result that is stored meanwhile.
        """
        key = flight[1]
        ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._flights.setdefault(flight, ended)
        try:
            known = await self._findings.find_result(job, key, check.id)
            if known is not None:
                note()
                ended.set_result(True)
                return known
            own = await self.read_own_files(job, check)
            made = await self.run(check, facts, checkout, own, note, job.watch, job, key)
            result = await self._keep_pictures(job, made)
            if key == evidence.exact_key(result.fingerprint) and inputs.may_keep(check, result):
                await self._findings.keep_result(job, key, result)
            ended.set_result(True)
            return result
        finally:
            if not ended.done():
                ended.set_result(False)  # it was stopped: a task that waits has to run it
            if self._flights.get(flight) is ended:
                del self._flights[flight]

    async def _keep_pictures(self, job: Job, result: CheckResult) -> CheckResult:
        """Store the pictures of a result before anything refers to them."""
        if not result.pictures:
            return result
        blobs = await self._blobs(job.board)
        for picture in result.pictures:
            if picture.data is not None:
                await blobs.put(picture.data)
        return replace(result, pictures=tuple(replace(picture, data=None) for picture in result.pictures))

    async def run(
        self,
        check: AnyCheck,
        facts: CheckFacts,
        checkout: CheckoutOpener,
        own: Mapping[str, bytes] = _NO_FILES,
        note: Callable[[], None] = lambda: None,
        watch: JobMonitor | None = None,
        job: Job | None = None,
        key: str = "",
    ) -> CheckResult:
        """Run one check in a checkout of its own, so that no check sees what another left.

        The check's own files replace files of the same names in the tree. `note` is called when it begins and ends, and
        `watch` gets how far it has come. `job` is whose work it is about; `key` is where its result may be kept.
        """
        if self._verified is not None and evidence.runs_work(check):
            note()
            result = await self._verified.check(check, facts, checkout, own, job, key)
            note()
            return result
        layered = await self._checker.isolates(self._context)
        async with AsyncExitStack() as stack:

            async def lay_out() -> tuple[ProofCheckout, SafeFolder]:
                await stack.aclose()  # a second run may need the folder of the first
                opened = await stack.enter_async_context(checkout(layered))
                await asyncio.to_thread(inputs.lay_over, opened.sealed.path, own)
                return opened, stack.enter_context(SafeFolder.open(opened.sealed.path))

            async def lay_out_again() -> SafeFolder:
                _, folder = await lay_out()
                return folder

            first, folder = await lay_out()
            sealed = first.sealed
            context = replace(
                self._context,
                readable=(*self._context.readable, *sealed.readonly),
                made=tuple(str(path.relative_to(sealed.path)) for path in sealed.made),
                namespace=sealed.namespace,
                place=sealed.place,
                progress=watch.count_tests if watch is not None else self._context.progress,
            )
            note()
            result = await self._checker.check(check, folder, facts, context, again=lay_out_again)
            note()
        return result if first.isolated or result.isolated is None else replace(result, isolated=False)

    async def read_own_files(self, job: Job, check: AnyCheck) -> dict[str, bytes]:
        """Read a check's own files as they were when the plan was submitted."""
        hashes = inputs.files_of_check(check)
        blobs = await self._blobs(job.board) if hashes else None
        return {path: await blobs.get(sha256) for path, sha256 in hashes.items()} if blobs is not None else {}

    async def ask_people(
        self,
        job: Job,
        facts: CheckFacts,
        changes: str,
        results: Sequence[CheckResult],
        done: DonePredicate,
        confirm: Confirmer,
    ) -> list[CheckResult]:
        """Ask the questions of a task to people, but only if their approval is all that is missing.

        An approval is about the hash of the `changes` and of the artifacts that the person saw.
        """
        questions = inputs.human_checks_of(job.command.promise)
        if not questions:
            return []
        is_worth_asking = self.is_worth_asking(job, results, done)
        artifacts = {name: artifact.found for name, artifact in facts.artifacts.items()}
        answers = []
        for check in questions:
            shown = hash_shown(check.question, {"tree": changes, **artifacts})
            confirmation = await confirm(check, shown) if is_worth_asking else None
            about = replace(facts, confirmation=confirmation, shown=shown)
            answers.append(await self._checker.check(check, None, about, self._context))
        return answers

    def is_worth_asking(self, job: Job, results: Sequence[CheckResult], done: DonePredicate) -> bool:
        """Return whether approvals are all that is missing."""
        at = write_time(self._clock.now())
        questions = inputs.human_checks_of(job.command.promise)
        approvals = [Evidence(check.id, True, True, "confirmed", "", at) for check in questions]
        proof = inputs.proof_of(results)
        return done(replace(proof, evidence=(*proof.evidence, *approvals)))

    async def record_baseline(self, job: Job, onto: str, space: PlanWorkspace | None) -> None:
        """Run the checks before the work, once for a task. Raises InputError if one passes that must fail."""
        base = await self._findings.find_baseline(job)
        known = dict(base.results) if base is not None else {}
        onto = base.onto if base is not None else onto
        checks = inputs.checks_of(job.command.promise)
        missing = [check for check in checks if inputs.needs_baseline(check, known.get(check.id))]
        if missing or (base is None and space is not None and checks):
            prepared = await self.prepare(space, job, onto) if missing and space is not None else None
            standing: frozenset[str] = frozenset()
            judged: tuple[str, ...] = ()
            if space is not None:
                standing = await inputs.find_runner_paths(space, await space.base(), job.command.promise)
                judged = await inputs.find_standing(space, onto, job.command.promise)
            facts = CheckFacts(
                tree=onto or "empty",
                files=inputs.files_of_checks(job.command.promise),
                inputs=inputs.inputs_of(None, prepared),
                required=job.profile.isolated_only,
                place=await space.checkouts.hash_place() if space is not None else "",
                standing=standing,
                before_work=True,
                judged=judged,
            )
            checkout: CheckoutOpener = self.open_files(_NO_FILES)
            if space is not None:
                checkout = open_tree(space, onto, prepared)
            for check in missing:
                job.enter("baseline", check.id)
                known[check.id] = await self._run_cached(job, check, facts, checkout, "baseline")
            inputs.refuse_unable(checks, known)
            await self._findings.keep_baseline(job, Baseline(onto, known))
        for check in checks:
            if evidence.judge_baseline(check, known.get(check.id)) == "refuse":
                raise InputError(
                    Code.CHECK_ALREADY_GREEN,
                    check_words.GREEN_BEFORE(id=check.id),
                    hint=check_words.GREEN_HINT(),
                )

    async def shares_trees(self) -> bool:
        """Return whether checks that need no preparation use trees that share their files."""
        return self._verified is None and await self._checker.isolates(self._context)

    def refuse_local_needs(self, job: Job) -> None:
        """Raise InputError where verifiers make the checks, and these need what is on the engine's machine alone."""
        if self._verified is None or job.repo is None or not inputs.checks_of(job.command.promise):
            return
        named = [("workspace.prepare", job.repo.prepare), ("workspace.link", job.repo.link)]
        if what := ", ".join(name for name, given in named if given):
            raise InputError(Code.CHECK_CANNOT_RUN, check_words.NOT_FOR_VERIFIERS(what=what))

    async def prepare(
        self, space: PlanWorkspace, job: Job, tree: str, onto: str | None = None, tier: Tier = "plain"
    ) -> PreparedTree | None:
        """Run the repository's own preparation, which makes an environment for example; None without one."""
        command = job.repo.prepare if job.repo is not None else None
        if not command:
            return None
        job.enter("preparing", command)
        recipe = await self.make_recipe(command, tier, required=job.profile.isolated_only)
        return await space.checkouts.environments.prepare(tree, recipe, onto=onto)

    async def make_recipe(self, command: str, tier: Tier = "plain", *, required: bool = False) -> PreparationRecipe:
        """Make the recipe of a preparation: confined as checks are, and at least as the agent whose work it may be."""
        isolation = "required" if required else self._context.isolation
        context = replace(self._context, least=tier, isolation=isolation)

        async def run(folder: Path, command: str) -> PreparationRun:
            done = await self._checker.prepare(folder, command, context)
            output = done.tail[-_LONGEST_OUTPUT:].strip()
            if done.ran.how == "finished" and done.ran.exit_code is not None:
                return PreparationRun(done.ran.exit_code, output)
            return PreparationRun(1, f"{output}\n{done.ran.error}".strip())

        return PreparationRecipe(command, run, await self._checker.isolates(context))

    def open_files(self, files: Mapping[str, bytes]) -> CheckoutOpener:
        """Return checkouts that hold these files and nothing else."""
        return FileCheckouts(files, self._lay_out)

    @asynccontextmanager
    async def _lay_out(self, files: Mapping[str, bytes]) -> AsyncIterator[ProofCheckout]:
        """Write files into a fresh folder, which is removed afterwards."""
        home = self._outputs
        if not self._swept:  # what a process that died left there
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
            self._swept = True
        home.parent.mkdir(mode=0o700, exist_ok=True)
        home.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="sealed-", dir=home, ignore_cleanup_errors=True) as name:
            with SafeFolder.open(Path(name)) as folder:
                for path, data in files.items():
                    folder.write(path, data, parents=True)
            yield ProofCheckout(SealedCheckout(Path(name)))
