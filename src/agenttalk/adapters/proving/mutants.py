"""Tries mutants of what an attempt changed: each in a sealed tree of its own, by a check of the same promise."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.adapters.proving import evidence_inputs as inputs
from agenttalk.adapters.proving.check_runner import CheckRunner
from agenttalk.adapters.proving.proof_checkouts import CheckoutOpener
from agenttalk.contracts.core import wire
from agenttalk.contracts.promise import MutantsCheck, RunCheck, TestsCheck
from agenttalk.ports.agents import Job
from agenttalk.ports.proof import CheckResultStore
from agenttalk.ports.storage import Clock
from agenttalk.rules.changes import mutation
from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.changes.mutation import Mutant, MutantRun, MutantTrial
from agenttalk.rules.proof import evidence
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint

_SECONDS: Final = 300.0
"""The time for all mutants, unless the check says otherwise."""
_TIMES: Final = 5
"""How much longer than without a fault a check may run on a mutant. A longer run means that it was noticed."""
_LEAST_SECONDS: Final = 10


class MutantProver:
    """Has checks notice mutants, for the prover."""

    def __init__(self, checks: CheckRunner, findings: CheckResultStore, clock: Clock) -> None:
        self._checks = checks
        self._findings = findings
        self._clock = clock

    async def prove(
        self,
        job: Job,
        files: Sequence[ChangedFile],
        facts: CheckFacts,
        checkout: CheckoutOpener,
        results: Sequence[CheckResult],
    ) -> list[CheckResult]:
        """Try the mutants that the checks of a task ask for. `results` are those of its other checks."""
        checks = [check for check in inputs.checks_of(job.command.promise) if isinstance(check, MutantsCheck)]
        return [await self._prove_one(job, check, files, facts, checkout, results) for check in checks]

    async def _prove_one(
        self,
        job: Job,
        check: MutantsCheck,
        files: Sequence[ChangedFile],
        facts: CheckFacts,
        checkout: CheckoutOpener,
        results: Sequence[CheckResult],
    ) -> CheckResult:
        started = self._clock.now()
        of = next((each for each in inputs.checks_of(job.command.promise) if each.id == check.of), None)
        passed = next((each for each in results if each.id == check.of and each.passed), None)
        if not isinstance(of, RunCheck | TestsCheck) or passed is None:
            return self._conclude(check, MutantTrial(0, (), of_passed=False), started, Fingerprint(), None)
        own = set(of.files or ())
        lines = {file.path: [each.number for each in file.added_lines] for file in files}
        told = wire.write({"of": evidence.to_relevant_json(of), "lines": lines})
        seen = {**passed.fingerprint.inputs, "work": wire.sha256(told)}
        fingerprint = replace(passed.fingerprint, check=evidence.to_relevant_json(check), inputs=seen)
        key = evidence.exact_key(fingerprint) if not inputs.has_unknown_inputs(job) else None
        known = await self._findings.find_result(job, key, check.id) if key is not None else None
        if known is not None:
            return known
        job.enter("checking", check.id)
        made = await asyncio.to_thread(mutation.make_mutants, [file for file in files if file.path not in own])
        chosen = mutation.choose_mutants(made, facts.tree, check.most)
        tester = _MutantTester(self._checks, self._clock, job, of, facts, checkout)
        trial = await tester.try_all(files, chosen, check.timeout or _SECONDS)
        result = self._conclude(check, trial, started, fingerprint, passed.isolated)
        if key is not None and trial.is_whole:
            await self._findings.keep_result(job, key, result)
        return result

    def _conclude(
        self,
        check: MutantsCheck,
        trial: MutantTrial,
        started: datetime,
        fingerprint: Fingerprint,
        isolated: bool | None,  # noqa: FBT001 - as it was found
    ) -> CheckResult:
        finding = mutation.judge_mutants(check, trial)
        return CheckResult(
            check.id,
            finding.passed,
            evidence.trust_of(check),
            finding.reason,
            finding.detail,
            started,
            self._clock.now(),
            fingerprint,
            isolated=isolated,
        )


class _MutantTester:
    """Runs one check on changed trees."""

    def __init__(
        self,
        checks: CheckRunner,
        clock: Clock,
        job: Job,
        of: RunCheck | TestsCheck,
        facts: CheckFacts,
        checkout: CheckoutOpener,
    ) -> None:
        self._checks = checks
        self._clock = clock
        self._job = job
        self._of = of.model_copy(update={"retries": 0})
        self._facts = facts
        self._checkout = checkout

    async def try_all(self, files: Sequence[ChangedFile], chosen: Sequence[Mutant], seconds: float) -> MutantTrial:
        """Try mutants until the time is over. First the check must pass where nothing but the text changed."""
        if not chosen:
            return MutantTrial(0, ())
        own = await self._checks.read_own_files(self._job, self._of)
        begun = self._clock.now()
        control = mutation.make_control(files, chosen, self._facts.tree)
        steady = await self._run({**{path: text.encode() for path, text in control.items()}, **own})
        if not steady.passed:
            return MutantTrial(len(chosen), (), steady=False)
        took = (self._clock.now() - begun).total_seconds()
        limit = max(_LEAST_SECONDS, round(took * _TIMES))
        runs: list[MutantRun] = []
        for mutant in chosen:
            left = seconds - (self._clock.now() - begun).total_seconds()
            if left <= 0:
                break
            result = await self._run({mutant.path: mutant.source.encode(), **own}, limit)
            if not result.passed and not evidence.is_about_work(result):
                return MutantTrial(len(chosen), (), of_passed=False)  # the machine failed, and says nothing
            runs.append(MutantRun(mutant, not result.passed))
        return MutantTrial(len(chosen), tuple(runs))

    async def _run(self, changed: Mapping[str, bytes], limit: int | None = None) -> CheckResult:
        longest = min(limit, self._of.timeout) if limit and self._of.timeout else limit or self._of.timeout
        check = self._of.model_copy(update={"timeout": longest})
        return await self._checks.run(check, self._facts, self._checkout, changed, watch=self._job.watch, job=self._job)
