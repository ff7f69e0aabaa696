"""Makes checks: reads or runs something, and returns the result."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from agenttalk.adapters import http_client
from agenttalk.adapters.checking import command as commands
from agenttalk.adapters.checking import report_files, schema_check, served_checks
from agenttalk.adapters.checking.boundary_run import BoundaryRefusedError, BoundaryRun, hash_programs, is_shown
from agenttalk.adapters.checking.case_runs import CaseRuns
from agenttalk.adapters.checking.command import CheckContext, CommandOutcome, CommandRunner, ShellCommand
from agenttalk.adapters.checking.home_view import hash_identity
from agenttalk.adapters.checking.served_checks import ServedChecks
from agenttalk.adapters.checking.suite_run import SuiteRun, hash_harness
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MissingError
from agenttalk.contracts.promise import (
    AnyCheck,
    ArtifactCheck,
    BrowserCheck,
    CasesCheck,
    FileCheck,
    ForgeCheck,
    GitCheck,
    HttpCheck,
    HumanCheck,
    JsonCheck,
    ReportCheck,
    RunCheck,
    ServiceCheck,
    TestsCheck,
    Trust,
)
from agenttalk.ports.agents import Driver, ProgramTurn
from agenttalk.ports.folders import Folder
from agenttalk.ports.storage import Clock, Ids
from agenttalk.rules.checks import check_results, suite_results, test_runners
from agenttalk.rules.checks.check_results import FileFacts, GitFacts, ProgramExit, StoredOutput
from agenttalk.rules.checks.suite_results import SuiteFacts, SuiteJudgement
from agenttalk.rules.proof import evidence
from agenttalk.rules.proof.evidence import (
    CheckFinding,
    CheckResult,
    Confirmation,
    Fingerprint,
    ResultSource,
    Screenshot,
)
from agenttalk.rules.suites import canaries, crossing, junit, runner_calls
from agenttalk.rules.suites.channel import SuiteSession
from agenttalk.rules.suites.crossing import CrossedTests
from agenttalk.rules.suites.outcomes import Outcomes
from agenttalk.rules.suites.runner_calls import RunnerCall
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import LISTED, join, join_names

CheckoutFactory = Callable[[], Awaitable[Folder]]
"""Makes another checkout of the same tree."""
AskForge = Callable[[ForgeCheck], Awaitable[CheckFinding]]
"""Reads at a forge whether a check's condition holds."""

_LARGEST: Final = 1 << 42
"""Largest file of which only size and hash are needed."""
_SCHEMA_SECONDS: Final = 60.0
_PREPARE_SECONDS: Final = 1800.0
_CANARY_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class CheckFacts:
    """What the engine knows that a check needs. A missing fact never counts as success."""

    tree: str = ""
    """Hash of the tree in the checkout."""
    covered: Mapping[str, str] = field(default_factory=dict)
    """Glob of `covers` → hash of what it matches."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The check's own files → hashes from when the promise was made."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Inputs of the task and lock files → hashes."""
    base: Outcomes | None = None
    """Tests of the check at the baseline."""
    base_source: ResultSource = ""
    """How its results came there, if that was seen."""
    before_work: bool = False
    """Whether the tree is that from before the work."""
    judged: tuple[str, ...] | None = None
    """Files of the checkout that no work has changed, where these are not simply the protected ones."""
    crossed: CrossedTests | None = None
    """How the tests ended over the boundary before the work, if that was seen."""
    changed: tuple[str, ...] = ()
    """Paths that the work changed."""
    git: GitFacts | None = None
    artifacts: Mapping[str, StoredOutput] = field(default_factory=dict)
    """Output → what is stored."""
    report: str | None = None
    """The agent's report."""
    confirmation: Confirmation | None = None
    """A person's answer to the check's question."""
    shown: str = ""
    """Hash of what the person would see now (`check_results.hash_shown`)."""
    protected: tuple[str, ...] = ()
    """Files of the checkout that must not change, not even while the check runs."""
    tier: Tier = "plain"
    """The sandbox in which the work was made. What the work starts gets no more freedom."""
    required: bool = False
    """Whether nothing runs without a sandbox, even if the operator allows it for all checks."""
    place: str = ""
    """Hash of what git answers in its place."""
    standing: frozenset[str] = frozenset()
    """Paths that are named like test runners and existed before the work: they are the project itself."""


@dataclass(frozen=True, slots=True)
class _CheckOutcome:
    """The result of a check, before it becomes evidence."""

    finding: CheckFinding
    done: CommandOutcome | None = None
    tests: Outcomes | None = None
    flaky: tuple[str, ...] = ()
    by: str = evidence.ENGINE
    trust: Trust | None = None
    """Its trust, where that does not follow from the check."""
    pictures: tuple[Screenshot, ...] = ()
    source: ResultSource = ""
    crossed: CrossedTests | None = None


@dataclass(frozen=True, slots=True)
class _SuiteOutcome:
    """One run of a command, judged."""

    done: CommandOutcome
    judged: SuiteJudgement
    crossed: CrossedTests | None = None


@dataclass(frozen=True, slots=True)
class _CommandSite:
    """Where a command runs, and what is known about it."""

    checkout: Folder
    facts: CheckFacts
    context: CheckContext
    again: CheckoutFactory | None


class _RemoteChecks:
    """Makes checks that ask servers: an address, or the forge."""

    def __init__(self, resolve: http_client.Resolve, forge: AskForge | None) -> None:
        self._resolve = resolve
        self._forge = forge

    async def make(self, check: HttpCheck | ForgeCheck, context: CheckContext) -> CheckFinding:
        """Ask, and judge the answer."""
        if isinstance(check, HttpCheck):
            return await self._ask_address(check, context)
        if self._forge is None:
            return CheckFinding(False, "facts_missing", check_words.NO_FORGE())
        return await self._forge(check)

    async def _ask_address(self, check: HttpCheck, context: CheckContext) -> CheckFinding:
        limits = context.limits
        asking = http_client.HttpRequest(
            context.allowed,
            check.timeout or limits.answer_seconds,
            limits.answer_bytes,
            follow=not 300 <= check.status < 400,
        )
        answer = await http_client.send_request(check.url, asking, resolve=self._resolve)
        return answer if isinstance(answer, CheckFinding) else check_results.judge_http(check, answer)


class Checker:
    """Makes checks. One object serves the whole engine."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        ids: Ids,
        *,
        resolve: http_client.Resolve = http_client.resolve_host,
        forge: AskForge | None = None,
    ) -> None:
        """`forge` makes checks of kind forge; without it none passes."""
        self._driver = driver
        self._clock = clock
        self._ids = ids
        self._remote = _RemoteChecks(resolve, forge)
        self._runner = CommandRunner(driver, ids)
        self._served = ServedChecks(self._runner, driver, ids)
        self._cases = CaseRuns(self._runner)

    async def check(
        self,
        check: AnyCheck,
        checkout: Folder | None,
        facts: CheckFacts,
        context: CheckContext,
        *,
        again: CheckoutFactory | None = None,
    ) -> CheckResult:
        """Make a check in a sealed checkout that nothing else uses meanwhile.

        Never raises for what it finds: everything that goes wrong is a check that did not pass, with its reason.
        `again` makes a fresh checkout for each further run of what failed. Without it nothing is run again, because a
        run can change its checkout. When `reason` is `stuck`, processes of the check may still be running.
        """
        started = self._clock.now()
        fingerprint = Fingerprint()
        try:
            fingerprint = await self.fingerprint(check, facts, context)
            outcome = await self._find(check, checkout, facts, context, again)
        except AgentTalkError as error:
            outcome = _CheckOutcome(_finding_of_error(error))
        except Exception as error:  # noqa: BLE001 - a check that breaks has not passed
            outcome = _CheckOutcome(
                CheckFinding(False, "fault", check_words.CHECK_BROKE(kind=type(error).__name__, error=error))
            )
        done = outcome.done
        return CheckResult(
            check.id,
            outcome.finding.passed,
            outcome.trust or evidence.trust_of(check),
            outcome.finding.reason,
            outcome.finding.detail,
            started,
            self._clock.now(),
            fingerprint,
            exit_code=done.ran.exit_code if done else None,
            output=done.tail if done else "",
            output_sha256=done.sha256 if done else "",
            output_bytes=done.size if done else 0,
            tests=outcome.tests,
            flaky=outcome.flaky,
            isolated=done.isolated if done else None,
            source=outcome.source,
            crossed=outcome.crossed,
            by=outcome.by,
            pictures=outcome.pictures,
        )

    async def isolates(self, context: CheckContext) -> bool:
        """Return whether commands run in a sandbox here."""
        return await self._runner.isolates(context)

    async def prepare(self, folder: Path, run: str, context: CheckContext) -> CommandOutcome:
        """Run a command line that prepares a folder for checks, confined as they are. No process of it survives."""
        allowed = replace(context, network=context.prepare_network, progress=None)
        return await self._runner.run(ShellCommand(run, folder, folder, None, _PREPARE_SECONDS), allowed)

    async def fingerprint(self, check: AnyCheck, facts: CheckFacts, context: CheckContext) -> Fingerprint:
        """Compute what a check's result would rest on; `evidence.cache_key` says whether the result is known."""
        runs = evidence.can_be_red(check)
        reports = isinstance(check, RunCheck | TestsCheck)
        return Fingerprint(
            evidence.to_relevant_json(check),
            facts.tree,
            {glob: facts.covered[glob] for glob in check.covers or () if glob in facts.covered},
            {path: facts.files[path] for path in check.files or () if path in facts.files},
            dict(facts.inputs),
            ("sh", "-c", _command_of(check)) if runs else (),
            isolated=await self._runner.isolates(_demanding(context, facts)) if runs else None,
            network=runs and context.network,
            base=evidence.hash_known_tests(facts.base) if reports else "",
            harness=_describe_harness(check, facts),
            place=hash_identity(facts.place) if runs else "",
        )

    async def _find(
        self,
        check: AnyCheck,
        checkout: Folder | None,
        facts: CheckFacts,
        context: CheckContext,
        again: CheckoutFactory | None,
    ) -> _CheckOutcome:
        if isinstance(check, HttpCheck | ForgeCheck):
            return _CheckOutcome(await self._remote.make(check, context))
        if not isinstance(
            check, RunCheck | TestsCheck | FileCheck | JsonCheck | ServiceCheck | BrowserCheck | CasesCheck
        ):
            return _check_known_facts(check, facts)
        if checkout is None:
            return _CheckOutcome(CheckFinding(False, "facts_missing", check_words.NO_CHECKOUT()))
        match check:
            case RunCheck():
                return await self._command(check, _CommandSite(checkout, facts, context, again))
            case TestsCheck():
                return await self._suite(check, _CommandSite(checkout, facts, context, again))
            case ServiceCheck() | BrowserCheck() | CasesCheck():
                return await self._served_work(check, _CommandSite(checkout, facts, context, again))
            case FileCheck():
                return _CheckOutcome(
                    check_results.judge_file(check, await asyncio.to_thread(_look_at_file, check, checkout, context))
                )
            case JsonCheck():
                return _CheckOutcome(await self._document(check, checkout, context))

    async def _command(self, check: RunCheck, sealed: _CommandSite) -> _CheckOutcome:
        made = await self._judged(check, sealed.checkout, sealed)
        left = check.retries
        while (
            left and sealed.again is not None and check_results.is_worth_another_run(made.judged.finding, made.done.ran)
        ):
            left -= 1
            made = await self._judged(check, await sealed.again(), sealed)
        judged = made.judged
        flaky = (check.id,) if judged.finding.passed and left < check.retries else ()
        outcome = _CheckOutcome(
            judged.finding, made.done, judged.tests, flaky, source=judged.source, crossed=made.crossed
        )
        return await self._compare(check, sealed, outcome)

    async def _suite(self, check: TestsCheck, sealed: _CommandSite) -> _CheckOutcome:
        made = await self._judged(check, sealed.checkout, sealed)
        done, judged = made.done, made.judged
        finding, ran, tests, source = judged.finding, done.ran, judged.tests, judged.source
        flaky: frozenset[str] = frozenset()
        left = check.retries
        while (
            left and sealed.again is not None and tests is not None and check_results.is_worth_another_run(finding, ran)
        ):
            left -= 1
            made = await self._judged(check, await sealed.again(), sealed)
            done, judged = made.done, made.judged
            finding = judged.finding
            if judged.tests is None or finding.reason not in {"", "tests_failed"}:
                break
            tests, recovered = suite_results.merge_rerun(tests, judged.tests)
            flaky |= recovered
            ran = ProgramExit("finished", 1 if tests.failed or tests.beyond else 0)
            finding = suite_results.judge_merged(check, ran, tests, sealed.facts.base)
        outcome = _CheckOutcome(finding, done, tests, tuple(sorted(flaky)), source=source, crossed=made.crossed)
        return await self._compare(check, sealed, outcome)

    async def _compare(
        self, check: RunCheck | TestsCheck, sealed: _CommandSite, outcome: _CheckOutcome
    ) -> _CheckOutcome:
        """Run a check that has passed once more, at another place and in another order, if it asks for that."""
        if not check.twice or not outcome.finding.passed:
            return outcome
        if sealed.again is None:
            return replace(outcome, finding=CheckFinding(False, "facts_missing", check_words.NO_SECOND_CHECKOUT()))
        checkout = await sealed.again()
        context = commands.move_elsewhere(sealed.context, checkout.path)
        second = await self._judged(check, checkout, replace(sealed, context=context))
        finding = suite_results.judge_difference(outcome.finding, outcome.tests, second.judged)
        return replace(outcome, finding=finding)

    async def _judged(self, check: RunCheck | TestsCheck, checkout: Folder, sealed: _CommandSite) -> _SuiteOutcome:
        """Run a command once, and judge it; its tests over the boundary, where they are to be."""
        refusal = await self._explain_boundary(check, sealed)
        if check.boundary == "process":
            if refusal:
                return _refuse(refusal)
            return await self._judged_across(check, checkout, sealed)
        made = await self._judged_here(check, checkout, sealed)
        facts = sealed.facts
        if refusal or not (facts.before_work or (made.judged.finding.passed and made.judged.tests is not None)):
            return made
        return await self._add_crossing(check, checkout, sealed, made)

    async def _explain_boundary(self, check: RunCheck | TestsCheck, sealed: _CommandSite) -> str:
        """Explain why a command is not run over the boundary; empty if it is."""
        if check.boundary == "off" or not crossing.runs_over_boundary(check.run):
            return check_words.BOUNDARY_OTHER_RUNNER(run=check.run[:80])
        if not any(is_shown(path) and test_runners.is_test(path) for path in _held(check, sealed.facts)):
            return check_words.BOUNDARY_NO_TESTS()
        if await self._runner.tier(_demanding(sealed.context, sealed.facts)) != "bubblewrap":
            return check_words.BOUNDARY_NO_SANDBOX()
        return ""

    async def _judged_across(
        self, check: RunCheck | TestsCheck, checkout: Folder, sealed: _CommandSite
    ) -> _SuiteOutcome:
        """Run a suite over the boundary alone, and judge what the judge's runner says."""
        path = check.junit if isinstance(check, TestsCheck) else None
        limit = sealed.context.limits.report_bytes
        command = await self._make_command(check, checkout, sealed)
        context, held = _demanding(sealed.context, sealed.facts), _held(check, sealed.facts)
        try:
            brought = check.files or ()
            async with BoundaryRun.open(self._runner, command, checkout, context, held, brought=brought) as run:
                async with SuiteRun.open(sealed.context) as suite:
                    done = await self._runner.run(suite.prepare(run.prepare(command)), context)
                    sessions = suite.read_sessions()
                report = None
                if path is not None and done.ran.how == "finished":
                    written = await asyncio.to_thread(run.read_report, path, limit)
                    report = junit.parse(written) if written is not None else None
                crossed = await asyncio.to_thread(run.read_tests, limit)
        except BoundaryRefusedError as error:
            return _refuse(str(error))
        facts = sealed.facts
        seen = SuiteFacts(done.ran, sessions, report, facts.base, facts.base_source, facts.before_work)
        judged = suite_results.judge_suite(check, seen)
        if crossed is None or not crossed.passed:
            why = check_words.BOUNDARY_WORKER_ENDED(why=run.fault) if run.fault else check_words.BOUNDARY_SILENT()
            if judged.finding.passed or run.fault:
                judged = replace(judged, finding=CheckFinding(False, "boundary", why))
        return _SuiteOutcome(done, _count_crossed(judged, crossed), crossed)

    async def _add_crossing(
        self, check: RunCheck | TestsCheck, checkout: Folder, sealed: _CommandSite, made: _SuiteOutcome
    ) -> _SuiteOutcome:
        """Run tests of a suite again over the boundary: all before the work, and afterwards those that were chosen."""
        facts = sealed.facts
        held = _held(check, facts)
        chosen = None
        if not facts.before_work:
            allowed = await asyncio.to_thread(
                _find_allowed, check.run, checkout, held, sealed.context.limits.read_bytes
            )
            chosen = crossing.choose_tests(facts.crossed, allowed, facts.base)
            is_of_work = check.made_by_work and await asyncio.to_thread(_names_own_files, check.run, checkout, held)
            if not (chosen.crossed or (chosen.allowed and not is_of_work)):
                return replace(made, judged=_count_crossed(made.judged, CrossedTests()))
        command = await self._make_command(check, checkout, sealed)
        context = _demanding(sealed.context, facts)
        try:
            brought = check.files or ()
            async with BoundaryRun.open(self._runner, command, checkout, context, held, chosen, brought) as run:
                await self._runner.run(run.prepare(command), replace(context, progress=None))
                crossed = await asyncio.to_thread(run.read_tests, sealed.context.limits.report_bytes)
        except BoundaryRefusedError:
            return made
        if facts.before_work:
            unseen = run.fault and not (crossed and crossed.passed)
            return replace(made, crossed=None if unseen else crossed)
        failure = crossing.explain_failure(chosen or crossing.CandidateTests(), crossed)
        judged = _count_crossed(made.judged, crossed)
        if failure:
            detail = check_words.BOUNDARY_WORKER_ENDED(why=run.fault) if run.fault else failure
            judged = replace(judged, finding=CheckFinding(False, "boundary", detail))
        return replace(made, judged=judged, crossed=crossed)

    async def _judged_here(self, check: RunCheck | TestsCheck, checkout: Folder, sealed: _CommandSite) -> _SuiteOutcome:
        """Run a command in one process with the work. A report is read when no process of the run is left."""
        path = check.junit if isinstance(check, TestsCheck) else None
        if path is not None:
            await asyncio.to_thread(report_files.remove_reports, path, checkout)
        if isinstance(check, TestsCheck) or test_runners.runs_tests(check.run):
            async with SuiteRun.open(sealed.context) as suite:
                done = await self._once(check, checkout, sealed, suite)
                sessions = suite.read_sessions()
        else:
            done, sessions = await self._once(check, checkout, sealed), ()
        report = None
        if path is not None and done.ran.how == "finished":
            report = await asyncio.to_thread(
                report_files.read_reports, path, checkout, sealed.context.limits.report_bytes
            )
        facts = sealed.facts
        seen = SuiteFacts(done.ran, sessions, report, facts.base, facts.base_source, facts.before_work)
        judged = suite_results.judge_suite(check, seen)
        if judged.finding.passed and judged.source == "channel":
            judged = replace(
                judged, finding=await self._try_canaries(check, checkout, sealed, sessions, judged.finding, done.place)
            )
        return _SuiteOutcome(done, judged)

    async def _try_canaries(
        self,
        check: RunCheck | TestsCheck,
        checkout: Folder,
        sealed: _CommandSite,
        sessions: Sequence[SuiteSession],
        finding: CheckFinding,
        place: Path | None,
    ) -> CheckFinding:
        """Try whether the runner still tells right from wrong beside the changed modules that the suite has loaded."""
        modules = _choose_modules(place or checkout.path, sessions, sealed.facts.changed)
        call = runner_calls.find_call(check.run)
        if call is None or call.runner not in runner_calls.PYTHON_RUNNERS or not modules:
            return finding
        paths = sessions[0].paths
        if await self._run_canaries(check, call, checkout, sealed, modules, paths):
            return replace(finding, detail=join([finding.detail, check_words.CANARIES_HELD()], LISTED))
        if await self._run_canaries(check, call, checkout, sealed, (), paths):
            return CheckFinding(False, "harness_tampered", check_words.CANARIES_LOST(names=join_names(modules)))
        return replace(finding, detail=join([finding.detail, check_words.CANARIES_UNABLE()], LISTED))

    async def _run_canaries(
        self,
        check: RunCheck | TestsCheck,
        call: RunnerCall,
        checkout: Folder,
        sealed: _CommandSite,
        modules: Sequence[str],
        paths: Sequence[str],
    ) -> bool:
        """Run canaries in a session of their own; whether each ended as it must."""
        async with SuiteRun.open(sealed.context) as suite:
            module = f"test_{secrets.token_hex(6)}"
            made = canaries.make_canaries(call.runner, module, _draw_numbers(), modules, paths)
            (suite.folder / f"{module}.py").write_text(made.text, encoding="utf-8")
            settings = suite.folder / f"{module}.ini"
            settings.write_text("[pytest]\n", encoding="utf-8")
            run = canaries.make_command(call, str(suite.folder), module, str(settings))
            env = {name: value for name, value in (check.env or {}).items() if name != "PYTEST_ADDOPTS"}
            env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they need none, and those of a project may need its settings
            trial = check.model_copy(update={"run": run, "env": env, "timeout": _CANARY_SECONDS})
            context = replace(sealed.context, progress=None)
            done = await self._once(trial, checkout, replace(sealed, context=context), suite)
            return done.ran.how == "finished" and made.holds(suite.read_sessions(), done.ran.exit_code)

    async def _once(
        self, check: RunCheck | TestsCheck, checkout: Folder, sealed: _CommandSite, suite: SuiteRun | None = None
    ) -> CommandOutcome:
        command = await self._make_command(check, checkout, sealed)
        command = suite.prepare(command) if suite is not None else command
        return await self._runner.run(command, _demanding(sealed.context, sealed.facts))

    async def _make_command(self, check: RunCheck | TestsCheck, checkout: Folder, sealed: _CommandSite) -> ShellCommand:
        await asyncio.to_thread(_own_files, check, checkout, sealed.facts)
        await asyncio.to_thread(_unshadowed, check, checkout, sealed.facts.standing)
        cwd = _folder_of(check, checkout)
        facts, context = sealed.facts, sealed.context
        return ShellCommand(
            check.run,
            checkout.path,
            cwd,
            check.env,
            check.timeout or context.limits.seconds,
            kept=_present(checkout, (*facts.protected, *(check.files or ()))),
            made=_present(checkout, context.made),
            known_tests=len(facts.base.known) if facts.base is not None else None,
        )

    async def _served_work(
        self, check: ServiceCheck | BrowserCheck | CasesCheck, sealed: _CommandSite
    ) -> _CheckOutcome:
        left = check.retries
        while True:
            checkout, facts, context = sealed.checkout, sealed.facts, sealed.context
            await asyncio.to_thread(_own_files, check, checkout, facts)
            command = ShellCommand(
                _command_of(check),
                checkout.path,
                _folder_of(check, checkout),
                check.env,
                check.timeout or context.limits.seconds,
                kept=_present(checkout, (*facts.protected, *(check.files or ()))),
                made=_present(checkout, context.made),
                port=None if isinstance(check, CasesCheck) else check.port or served_checks.find_free_port(),
            )
            demanded = _demanding(context, facts)
            if isinstance(check, CasesCheck):
                outcome = await self._cases.make(check, command, demanded)
            else:
                outcome = await self._served.make(check, command, demanded)
            if outcome.finding.passed or not left or sealed.again is None:
                break
            left -= 1
            sealed = replace(sealed, checkout=await sealed.again())
        flaky = (check.id,) if outcome.finding.passed and left < check.retries else ()
        return _CheckOutcome(outcome.finding, outcome.done, tests=outcome.tests, flaky=flaky, pictures=outcome.pictures)

    async def _document(self, check: JsonCheck, checkout: Folder, context: CheckContext) -> CheckFinding:
        limit = context.limits.read_bytes
        data = await asyncio.to_thread(checkout.read, check.path, limit)
        document = await asyncio.to_thread(wire.read, data, limit=limit)
        if check.json_schema is None:
            return check_results.judge_json(check, document, ())
        given = json.dumps({"schema": check.json_schema, "document": document})
        turn = ProgramTurn(
            lease=self._ids.new("check"),
            argv=(sys.executable, "-I", str(Path(schema_check.__file__))),
            cwd=Path("/"),
            prompt=given,
            timeout=check.timeout or _SCHEMA_SECONDS,
        )
        ended = await self._driver.run(turn)
        if ended.how != "finished" or ended.exit_code != 0:
            why = ended.error or ended.stderr.decode(errors="replace").strip()[-300:]
            return CheckFinding(False, "unreadable", check_words.SCHEMA_FAILED(path=check.path, error=why))
        return check_results.judge_json(check, document, [str(violation) for violation in json.loads(ended.stdout)])


def _choose_modules(place: Path, sessions: Sequence[SuiteSession], changed: Collection[str]) -> tuple[str, ...]:
    return canaries.choose_modules(sessions, os.path.realpath(place), changed)


def _draw_numbers() -> Iterator[int]:
    """Draw numbers that no work can foresee."""
    while True:
        yield secrets.randbits(40)


def _check_known_facts(check: AnyCheck, facts: CheckFacts) -> _CheckOutcome:
    """Judge checks that need only what the engine knows already."""
    match check:
        case GitCheck():
            return _CheckOutcome(check_results.judge_git(check, facts.git))
        case ArtifactCheck():
            return _CheckOutcome(check_results.judge_artifact(check, facts.artifacts.get(check.output)))
        case ReportCheck():
            return _CheckOutcome(check_results.judge_report(facts.report))
        case HumanCheck():
            confirmation = facts.confirmation
            finding = check_results.judge_human(confirmation, facts.shown)
            return _CheckOutcome(
                finding,
                by=confirmation.by if confirmation else evidence.ENGINE,
                trust=confirmation.trust if confirmation else None,
            )
    return _CheckOutcome(CheckFinding(False, "unknown_kind", check_words.UNKNOWN_KIND(kind=check.kind)))


def _command_of(check: AnyCheck) -> str:
    """Return the command line that a check runs."""
    if isinstance(check, ServiceCheck | BrowserCheck):
        return check.serve
    if isinstance(check, CasesCheck):
        return check.run or check.call or ""
    return check.run if isinstance(check, RunCheck | TestsCheck) else ""


def _folder_of(check: RunCheck | TestsCheck | ServiceCheck | BrowserCheck | CasesCheck, checkout: Folder) -> Path:
    """Return the folder in which a check runs its command. Raises when it leads out of the checkout."""
    if check.cwd is None:
        return checkout.path
    with checkout.open_folder(check.cwd) as inside:
        return inside.path


class _CheckFileError(InputError):
    """A check's own file differs from the time when the promise was made."""


def _own_files(check: AnyCheck, checkout: Folder, facts: CheckFacts) -> None:
    for path in check.files or ():
        try:
            sha256 = checkout.digest(path, _LARGEST).sha256
        except AgentTalkError as error:
            raise _CheckFileError(error.code, check_words.OWN_FILE(path=path, why=error.message)) from error
        if sha256 != facts.files.get(path):
            expected = facts.files.get(path, "not known")
            raise _CheckFileError(
                Code.PAYLOAD_HASH_MISMATCH, check_words.OWN_FILE_CHANGED(path=path, found=sha256, said=expected)
            )


def _demanding(context: CheckContext, facts: CheckFacts) -> CheckContext:
    """Combine the operator's settings with what the work demands beyond them."""
    return replace(context, least=facts.tier, isolation="required" if facts.required else context.isolation)


def _held(check: RunCheck | TestsCheck, facts: CheckFacts) -> tuple[str, ...]:
    """List the files of a check that the work cannot change."""
    return (*(facts.protected if facts.judged is None else facts.judged), *(check.files or ()))


def _names_own_files(command: str, checkout: Folder, held: Iterable[str]) -> bool:
    """Whether a command names a place in which no file is protected, so that the judge has nothing there."""
    shown = [path for path in held if is_shown(path)]
    named = {word.partition("::")[0].rstrip("/") for word in command.split()} - {"", "."}
    return any(
        (checkout.path / name).exists() and not any(path == name or path.startswith(f"{name}/") for path in shown)
        for name in named
        if not Path(name).is_absolute()
    )


def _describe_harness(check: AnyCheck, facts: CheckFacts) -> str:
    """Hash what runs beside the runners, and what is known from before the work."""
    if not isinstance(check, RunCheck | TestsCheck):
        return hash_harness() if isinstance(check, CasesCheck) else ""
    parts = [hash_harness(), facts.base_source]
    if check.boundary != "off" and crossing.runs_over_boundary(check.run):
        parts += [hash_programs(), crossing.hash_crossed(facts.crossed), "before" if facts.before_work else ""]
    return " ".join(filter(None, parts))


def _refuse(why: str) -> _SuiteOutcome:
    done = CommandOutcome(ProgramExit("not_started", None, why), isolated=False)
    return _SuiteOutcome(done, SuiteJudgement(CheckFinding(False, "boundary", why), ""))


def _count_crossed(judged: SuiteJudgement, crossed: CrossedTests | None) -> SuiteJudgement:
    """Add to a finding how many tests were judged in another process."""
    if not judged.finding.passed or judged.tests is None:
        return judged
    count = len(crossed.passed) if crossed is not None else 0
    note = check_words.BOUNDARY_COUNT(count=count, total=max(count, len(judged.tests.ran)))
    finding = replace(judged.finding, detail=join([*filter(None, [judged.finding.detail]), note], LISTED))
    return replace(judged, finding=finding)


def _find_allowed(command: str, checkout: Folder, held: Iterable[str], limit: int) -> frozenset[str]:
    """Find the tests that may be judged over the boundary for what their source says."""
    found: set[str] = set()
    call = runner_calls.find_call(command)
    runner = call.runner if call is not None else "unittest"
    for path in held:
        if path.endswith(".py") and test_runners.is_test(path):
            with suppress(AgentTalkError):
                found |= crossing.find_plain_tests(path, checkout.read(path, limit), runner)
    return frozenset(found)


def _present(checkout: Folder, paths: Iterable[str]) -> tuple[Path, ...]:
    """Return the paths that exist in a checkout."""
    top = checkout.path
    return tuple(top / path for path in dict.fromkeys(paths) if os.path.lexists(top / path))


class _ShadowError(InputError):
    """The checkout holds a file that would pass for the test runner."""


def _unshadowed(check: RunCheck | TestsCheck, checkout: Folder, standing: Collection[str]) -> None:
    """Raise if a file would pass for the runner."""
    folder = f"{check.cwd}/" if check.cwd else ""
    for path in check_results.list_shadowing_files(check):
        if folder + path not in standing and checkout.exists(folder + path):
            raise _ShadowError(Code.FILE_UNSAFE, check_words.SHADOWS_RUNNER(path=folder + path))


def _look_at_file(check: FileCheck, checkout: Folder, context: CheckContext) -> FileFacts:
    if check.contains is None:
        digest = checkout.digest(check.path, _LARGEST)
        return FileFacts(digest.size, digest.sha256)
    content = checkout.read(check.path, context.limits.read_bytes)
    return FileFacts(len(content), wire.sha256(content), content)


def _finding_of_error(error: AgentTalkError) -> CheckFinding:
    reason: evidence.Reason = "unreadable"
    if isinstance(error, _CheckFileError):
        reason = "check_file"
    elif isinstance(error, _ShadowError):
        reason = "runner_shadowed"
    elif isinstance(error, MissingError):
        reason = "missing"
    elif error.code in {Code.FILE_UNSAFE, Code.PATH_OUTSIDE_FOLDER}:
        reason = "unsafe"
    elif error.code is Code.PROCESS_STUCK:
        reason = "stuck"
    return CheckFinding(False, reason, error.message)
