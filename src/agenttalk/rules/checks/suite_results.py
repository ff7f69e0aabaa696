"""Decide whether a test suite passed: which report of it counts, and what that shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from agenttalk.contracts.promise import RunCheck, TestsCheck
from agenttalk.rules.checks.check_results import ProgramExit, judge_run
from agenttalk.rules.proof.evidence import CheckFinding, CheckResult, Reason, ResultSource
from agenttalk.rules.suites import channel, runner_calls
from agenttalk.rules.suites.channel import SuiteSession
from agenttalk.rules.suites.outcomes import Outcomes, UnreadableReport
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import LISTED, join, join_names

_PRINTERS: Final = frozenset({"cargo"})
"""Runners whose tests are listed before they run, and which say how each ended only by what they print."""
_REPORTED: Final = frozenset({"channel", "output"})


@dataclass(frozen=True, slots=True)
class SuiteFacts:
    """What a run of a suite left, and what is known from before the work."""

    ran: ProgramExit
    sessions: tuple[SuiteSession, ...] = ()
    """What test runners reported over the channel."""
    report: Outcomes | UnreadableReport | None = None
    """What the JUnit report says, where the check names one."""
    base: Outcomes | None = None
    base_source: ResultSource = ""
    """How the results came before the work, if that was seen."""
    before_work: bool = False
    """Whether this is a run before the work, which has no reason to hide anything."""


@dataclass(frozen=True, slots=True)
class SuiteJudgement:
    """The finding about a suite, with what it rests on."""

    finding: CheckFinding
    source: ResultSource
    tests: Outcomes | None = None


def judge_difference(first: CheckFinding, tests: Outcomes | None, second: SuiteJudgement) -> CheckFinding:
    """Judge a run that passed by a second one, elsewhere and in another order: both have to end alike."""
    names = sorted(tests.passed ^ second.tests.passed) if tests is not None and second.tests is not None else []
    if second.finding.passed and not names:
        return first
    what = join_names(names) if names else check_words.THE_CHECK()
    told = check_words.DIFFERS(what=what)
    return CheckFinding(False, "differs", join([told, second.finding.detail]) if second.finding.detail else told)


def judge_suite(check: RunCheck | TestsCheck, facts: SuiteFacts) -> SuiteJudgement:
    """Judge a run: tests ran, all that ran passed, none of the baseline is missing or skipped, and nothing was hidden.

    A command that only has to succeed is judged by its tests, too, where its runner reports over the channel.
    """
    source = choose_source(check, facts)
    tests = _collect_outcomes(check, facts, source)
    known = tests if isinstance(tests, Outcomes) else None
    if facts.ran.how != "finished" or (isinstance(check, RunCheck) and facts.ran.exit_code != 0):
        return SuiteJudgement(judge_run(facts.ran), source, known)
    if source == "exit-code only" and not (isinstance(check, TestsCheck) and check.min_tests):
        return SuiteJudgement(judge_run(facts.ran), source, known)
    if tests is None:
        return SuiteJudgement(_explain_absence(check, facts, source), source)
    if isinstance(tests, UnreadableReport):
        detail = check_words.BAD_REPORT(path=_path_of(check), why=tests.why)
        return SuiteJudgement(CheckFinding(False, "report_unreadable", detail), source)
    return SuiteJudgement(_judge_outcomes(check, facts, tests, source), source, tests)


def choose_source(check: RunCheck | TestsCheck, facts: SuiteFacts) -> ResultSource:
    """Choose which report counts: as before the work, where that was seen; else the best that there may be.

    A command that plainly calls a runner must report over the channel, unless it cannot even do so before the work. One
    that calls it somewhere inside may.
    """
    if facts.base_source:
        return facts.base_source
    reported: ResultSource = "output" if any(each.runner in _PRINTERS for each in facts.sessions) else "channel"
    whole = bool(facts.sessions) and all(each.code is not None and each.fault is None for each in facts.sessions)
    if runner_calls.find_call(check.run) is not None:
        if whole or not facts.before_work:
            return reported
    elif whole and any(each.is_red for each in facts.sessions) == (facts.ran.exit_code != 0):
        return reported
    if _path_of(check) or (isinstance(check, TestsCheck) and not facts.sessions):
        return "report"
    return "exit-code only"


def _path_of(check: RunCheck | TestsCheck) -> str:
    return (check.junit or "") if isinstance(check, TestsCheck) else ""


def _collect_outcomes(
    check: RunCheck | TestsCheck, facts: SuiteFacts, source: ResultSource
) -> Outcomes | UnreadableReport | None:
    """Return the outcomes of all tests. A report may know of others than a runner somewhere inside a command."""
    if source == "report":
        return facts.report
    crashed = facts.ran.exit_code != 0
    cut = any(each.pending or each.unrun or (crashed and each.code is None) for each in facts.sessions)
    if not facts.sessions or (source == "exit-code only" and cut):
        return None
    told = channel.merge_sessions(facts.sessions)
    if runner_calls.find_call(check.run) is None and isinstance(facts.report, Outcomes):
        return channel.merge_outcomes([told, facts.report])
    return told


def _explain_absence(check: RunCheck | TestsCheck, facts: SuiteFacts, source: ResultSource) -> CheckFinding:
    if source in _REPORTED:
        return CheckFinding(False, "channel_silent", check_words.CHANNEL_SILENT(code=facts.ran.exit_code))
    if not _path_of(check):
        return CheckFinding(False, "report_missing", check_words.NO_CHANNEL(code=facts.ran.exit_code))
    return CheckFinding(False, "report_missing", check_words.NO_REPORT(path=_path_of(check), code=facts.ran.exit_code))


def _judge_outcomes(
    check: RunCheck | TestsCheck, facts: SuiteFacts, tests: Outcomes, source: ResultSource
) -> CheckFinding:
    base = facts.base or Outcomes()
    gone, permitted = _find_gone_tests(check, tests, base)
    faults = [
        *(_session_faults(facts) if source in _REPORTED else ()),
        *_test_faults(check, tests),
        *_code_faults(check, facts, tests, source),
        *_denominator(tests, base, gone),
    ]
    if not faults:
        also = [check_words.GONE_AS_PERMITTED(names=join_names(permitted))] if permitted else []
        return CheckFinding(True, "", join([_counts(tests), *also], LISTED))
    return CheckFinding(False, faults[0][0], join([*(text for _, text in faults), _counts(tests)]))


def judge_merged(
    check: RunCheck | TestsCheck, ran: ProgramExit, tests: Outcomes, base: Outcomes | None
) -> CheckFinding:
    """Judge the outcomes of a suite: with those of what was run again of it, or as another machine reports them."""
    return _judge_outcomes(check, SuiteFacts(ran, base=base), tests, "report")


def _session_faults(facts: SuiteFacts) -> Iterable[tuple[Reason, str]]:
    """List what is wrong with the reports of runners, apart from their tests."""
    for session in facts.sessions:
        if session.fault is not None:
            yield "channel_garbled", session.fault
        elif session.code is None:
            yield "channel_cut", check_words.CHANNEL_CUT(code=facts.ran.exit_code)
            if session.pending:
                yield "channel_cut", check_words.TESTS_PENDING(names=join_names(session.pending))
        elif session.pending:
            yield "tests_unreported", check_words.TESTS_PENDING(names=join_names(session.pending))
        elif session.unrun and not session.is_red:
            count = len(session.unrun)
            yield "tests_unreported", check_words.TESTS_UNRUN(count=count, names=join_names(session.unrun))
        if session.hidden:
            yield "harness_tampered", check_words.TESTS_HIDDEN(names=join_names(session.hidden))


def _test_faults(check: RunCheck | TestsCheck, report: Outcomes) -> Iterable[tuple[Reason, str]]:
    if report.failed:
        yield "tests_failed", check_words.THESE_FAILED(count=len(report.failed), names=join_names(report.failed))
    if report.beyond:
        yield "tests_failed", check_words.FAILURES_BEYOND()
    if isinstance(check, RunCheck):
        if not (report.ran or report.skipped):
            yield "tests_none", check_words.NO_TEST_RAN()
        return
    if not report.ran:
        yield "tests_none", check_words.NO_TEST_RAN()
    if check.min_tests is not None and len(report.ran) < check.min_tests:
        yield "tests_none", check_words.TOO_FEW_TESTS(count=len(report.ran), least=check.min_tests)


def _code_faults(
    check: RunCheck | TestsCheck, facts: SuiteFacts, report: Outcomes, source: ResultSource
) -> Iterable[tuple[Reason, str]]:
    """Hold the exit code against the report, and against what a runner said that it would end with."""
    code = facts.ran.exit_code
    red = bool(report.failed) or report.beyond
    if (code != 0) != red:
        contradicts = check_words.REPORT_SHOWS if red else check_words.REPORT_SHOWS_NONE
        yield "report_contradicts", contradicts(code=code)
    elif source in _REPORTED and len(facts.sessions) == 1 and runner_calls.find_call(check.run) is not None:
        said = facts.sessions[0].code
        if said is not None and said != code:
            yield "report_contradicts", check_words.OTHER_CODE(said=said, code=code)


def _find_gone_tests(check: RunCheck | TestsCheck, report: Outcomes, base: Outcomes) -> tuple[set[str], set[str]]:
    """Tests of the baseline that are not there any more: those that must be, and those that the plan lets go."""
    gone = {name for name in base.known - report.known if not (name in base.failed and _is_loaded_now(name, report))}
    permitted = {name for name in gone if any(fnmatchcase(name, glob) for glob in check.may_vanish or ())}
    return gone - permitted, permitted


def _denominator(report: Outcomes, base: Outcomes, gone: Collection[str]) -> Iterable[tuple[Reason, str]]:
    if gone:
        yield "tests_vanished", check_words.TESTS_GONE(count=len(gone), names=join_names(gone))
    spared = base.ran & report.skipped
    if spared:
        yield "tests_skipped", check_words.TESTS_SPARED(count=len(spared), names=join_names(spared))
    before, now = dict(base.whys), dict(report.whys)
    other = {name for name in before.keys() & now.keys() if not channel.is_same_why(before[name], now[name])}
    if other:
        yield "tests_skipped", check_words.TESTS_SKIPPED_NOW(names=join_names(other), why=now[min(other)])


def _is_loaded_now(name: str, report: Outcomes) -> bool:
    """Whether what failed at the baseline was a module that could not be loaded, and whose tests are known by now."""
    return "::" not in name and any(other.startswith((f"{name}::", f"{name}.")) for other in report.known)


def _counts(report: Outcomes) -> str:
    parts = [check_words.COUNT_PASSED(count=len(report.passed))]
    parts += [check_words.COUNT_FAILED(count=len(report.failed))] if report.failed else []
    parts += [check_words.COUNT_SKIPPED(count=len(report.skipped))] if report.skipped else []
    parts += [check_words.COUNT_REPEATED(count=len(report.repeated))] if report.repeated else []
    return join(parts, LISTED)


def find_settled_source(before: CheckResult | None) -> ResultSource:
    """Return how the results of a check come, as a run before the work shows it; empty if it does not.

    A run that failed without a report of its tests may have failed before there could be one.
    """
    if before is None or (before.tests is None and not before.passed):
        return ""
    return before.source


def merge_rerun(before: Outcomes, again: Outcomes) -> tuple[Outcomes, frozenset[str]]:
    """Merge a rerun of failed tests into the outcomes; returns them with the tests that passed now.

    Only tests that had failed count: those that had passed cannot get better or worse, and a failed test that is not
    there any more has still failed.
    """
    recovered = before.failed & again.passed
    left = before.failed - recovered
    beyond = before.beyond or again.beyond
    merged = Outcomes(before.passed | recovered, left, before.skipped, before.repeated, beyond, before.whys)
    return merged, recovered
