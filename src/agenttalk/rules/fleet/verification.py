"""What verifiers sign, and what their results are worth: they must not contradict themselves, nor each other.

A verifier says what it saw. Whether that is enough, the engine decides from it as from its own results.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from typing import Any, Final, get_args

from agenttalk.contracts.core import wire
from agenttalk.contracts.promise import AnyCheck, HumanCheck, RunCheck, TestsCheck
from agenttalk.contracts.worker import (
    CheckOrder,
    CrossedOutcomes,
    SuiteOutcomes,
    Verification,
    VerifiedPicture,
    VerifiedResult,
)
from agenttalk.rules.checks import suite_results
from agenttalk.rules.checks.check_results import ProgramExit
from agenttalk.rules.proof.evidence import CheckFinding, CheckResult, Reason, ResultSource, Screenshot
from agenttalk.rules.suites.crossing import CrossedTests
from agenttalk.rules.suites.outcomes import Outcomes
from agenttalk.rules.text import check_words
from agenttalk.rules.text.catalogue import read_own_text, with_messages
from agenttalk.rules.text.message import join

_PURPOSE: Final = b"agenttalk verification\n"
"""Stands before what is signed, so that a signature means nothing else."""
_REASONS: Final[dict[str, Reason]] = {name: name for name in get_args(Reason)}
_SOURCES: Final[dict[str, ResultSource]] = {name: name for name in get_args(ResultSource)}


def hash_subject(board: str, plan_id: str, task_id: str, epoch: int) -> str:
    """Hash the attempt that a check is about."""
    return wire.sha256(wire.write([board, plan_id, task_id, epoch]))


def hash_order(order: CheckOrder) -> str:
    """Hash everything that a verifier was asked."""
    return wire.sha256(wire.write(order.as_json()))


def make_statement(lease: str, worker: str, order: CheckOrder, verification: Verification) -> bytes:
    """Make what a verifier signs: for which lease and attempt, what it was asked, and what it found, where and how."""
    said = {
        "check": wire.sha256(wire.write(order.check.as_json())),
        "lease": lease,
        "machine": verification.machine,
        "order": hash_order(order),
        "result": wire.sha256(wire.write(verification.result.as_json())),
        "sandbox": verification.sandbox,
        "subject": order.subject,
        "tree": order.tree.tree if order.tree is not None else order.ground.tree,
        "worker": worker,
    }
    return _PURPOSE + wire.write(said)


def write_outcomes(tests: Outcomes | None) -> SuiteOutcomes | None:
    """Return the ends of tests as both sides send them."""
    if tests is None:
        return None
    return SuiteOutcomes(
        passed=tuple(sorted(tests.passed)),
        failed=tuple(sorted(tests.failed)),
        skipped=tuple(sorted(tests.skipped)),
        repeated=tuple(sorted(tests.repeated)),
        beyond=tests.beyond,
        whys=tuple(sorted(tests.whys)),
    )


def read_outcomes(said: SuiteOutcomes | None) -> Outcomes | None:
    """Read the ends of tests."""
    if said is None:
        return None
    passed, failed = frozenset(said.passed), frozenset(said.failed)
    skipped, repeated = frozenset(said.skipped), frozenset(said.repeated)
    return Outcomes(passed, failed, skipped, repeated, said.beyond, frozenset(said.whys))


def write_crossed(crossed: CrossedTests | None) -> CrossedOutcomes | None:
    """Return the ends of tests in another process as both sides send them."""
    if crossed is None:
        return None
    passed, other = tuple(sorted(crossed.passed)), tuple(sorted(crossed.other))
    return CrossedOutcomes(passed=passed, other=other, reasons=dict(crossed.reasons))


def read_crossed(said: CrossedOutcomes | None) -> CrossedTests | None:
    """Read the ends of tests in another process."""
    return CrossedTests(frozenset(said.passed), frozenset(said.other), said.reasons) if said is not None else None


def write_result(result: CheckResult) -> VerifiedResult:
    """Return the result of a check as a verifier sends it."""
    detail: dict[str, Any] = with_messages({"detail": result.detail})
    return VerifiedResult(
        passed=result.passed,
        reason=result.reason,
        detail=detail["detail"],
        detail_message=detail.get("detail_message"),
        exit_code=result.exit_code,
        output=result.output,
        output_sha256=result.output_sha256,
        output_bytes=result.output_bytes,
        tests=write_outcomes(result.tests),
        flaky=result.flaky,
        isolated=result.isolated,
        source=result.source,
        crossed=write_crossed(result.crossed),
        pictures=tuple(
            VerifiedPicture(
                name=each.name, sha256=each.sha256, size=each.size, content=base64.b64encode(each.data).decode()
            )
            for each in result.pictures
            if each.data is not None
        ),
    )


def read_result(about: CheckResult, said: VerifiedResult) -> CheckResult:
    """Read what a verifier found. What a result is about, rests on and is worth comes from `about`, which is ours."""
    known = said.reason in _REASONS and said.source in _SOURCES
    return replace(
        about,
        passed=said.passed and known,
        reason=_REASONS[said.reason] if known else "fault",
        detail=read_own_text({"detail": said.detail, "detail_message": said.detail_message}, "detail"),
        exit_code=said.exit_code,
        output=said.output,
        output_sha256=said.output_sha256,
        output_bytes=said.output_bytes,
        tests=read_outcomes(said.tests),
        flaky=said.flaky,
        isolated=said.isolated,
        source=_SOURCES[said.source] if known else "",
        crossed=read_crossed(said.crossed),
        pictures=tuple(filter(None, map(_read_picture, said.pictures))),
    )


def _read_picture(said: VerifiedPicture) -> Screenshot | None:
    """Read a picture; None if it has another content than it says."""
    try:
        data = base64.b64decode(said.content, validate=True)
    except binascii.Error:
        return None
    known = (wire.sha256(data), len(data)) == (said.sha256, said.size)
    return Screenshot(said.name, said.sha256, said.size, data) if known else None


def review_result(check: AnyCheck, result: CheckResult, base: Outcomes | None, *, isolated_only: bool) -> CheckResult:
    """Judge again what a verifier says to have passed, by the facts that it reports. It can only get worse."""
    if not result.passed:
        return result
    finding = _find_contradiction(check, result, base, isolated_only=isolated_only)
    return result if finding is None else replace(result, passed=False, reason=finding.reason, detail=finding.detail)


def _find_contradiction(
    check: AnyCheck, result: CheckResult, base: Outcomes | None, *, isolated_only: bool
) -> CheckFinding | None:
    if result.reason:
        return CheckFinding(False, result.reason, check_words.VERIFIER_CONTRADICTS(what=result.reason))
    if isolated_only and result.isolated is not True:
        return CheckFinding(False, "not_isolated", check_words.VERIFIER_CONTRADICTS(what="not_isolated"))
    if not isinstance(check, RunCheck | TestsCheck):
        return None
    if isinstance(check, RunCheck) and result.exit_code != 0:
        return CheckFinding(False, "exit_code", check_words.VERIFIER_CONTRADICTS(what=f"exit {result.exit_code}"))
    least = check.min_tests if isinstance(check, TestsCheck) else None
    if result.tests is None or (result.source == "exit-code only" and not least):
        if result.exit_code == 0 and not least:
            return None
        return CheckFinding(False, "tests_none", check_words.VERIFIER_CONTRADICTS(what="tests_none"))
    # Where a test failed and passed when it was run again, the exit code is that of the last run alone.
    red = bool(result.tests.failed) or result.tests.beyond
    code = int(red) if result.flaky else result.exit_code
    finding = suite_results.judge_merged(check, ProgramExit("finished", code), result.tests, base)
    return None if finding.passed else finding


def settle_double(first: CheckResult, second: CheckResult) -> CheckResult:
    """Settle two results of one check. Both have to end alike; else nothing is shown, and a person decides."""
    seals = (*first.seals, *second.seals)
    if first.passed == second.passed:
        return replace(first, seals=seals)
    told = join([_describe(first), _describe(second)])
    detail = check_words.VERIFIERS_DIFFER(told=told)
    return replace(first, passed=False, reason="verifiers_differ", detail=detail, seals=seals)


def _describe(result: CheckResult) -> str:
    words = check_words.VERIFIER_PASSED if result.passed else check_words.VERIFIER_FAILED
    return words(verifier=result.by, why=result.detail or result.reason or "")


def name_question(check_id: str) -> str:
    """Return the id of the question to a person about verifiers that disagree."""
    return f"verifiers-{check_id}"


def refuse_result(result: CheckResult) -> CheckResult:
    """Return the result of a check that a person did not want to be made again, after verifiers had disagreed."""
    return replace(result, passed=False, reason="verifiers_differ", detail=check_words.NOT_CHECKED_AGAIN())


def make_question(result: CheckResult) -> HumanCheck | None:
    """Make the question to a person about verifiers that disagree; None if they do not."""
    if result.reason != "verifiers_differ":
        return None
    question = check_words.ASK_VERIFIERS(id=result.id, told=result.detail)
    return HumanCheck(id=name_question(result.id), kind="human", question=question)


def hash_seals(result: CheckResult) -> str:
    """Hash what verifiers signed about a check: what a person answered is about exactly that."""
    return wire.sha256(wire.write([[seal.worker, seal.statement, seal.signature] for seal in result.seals]))
