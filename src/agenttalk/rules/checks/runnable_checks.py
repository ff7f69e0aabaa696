"""Whether a check could run at all before the work. One that could not is not red, and says nothing of the work."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from agenttalk.contracts.promise import AnyCheck, RunCheck, TestsCheck
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import Template

_NO_PROGRAM: Final = frozenset({126, 127})
"""The exit codes of a shell when a program is missing or is not executable."""
_PYTEST: Final = re.compile(r"(?<![\w./-])(?:\S*/)?(?:pytest|py\.test)(?![\w.-])")
_PYTEST_CODES: Final = {4: check_words.PYTEST_USAGE, 5: check_words.NOTHING_COLLECTED}
"""What pytest ends with when there is no test to run: its arguments are wrong, or nothing is found."""
_INTERRUPTED: Final = 2
"""What pytest ends with when tests cannot be loaded."""
_NOT_INSTALLED: Final = re.compile(r"No module named '[^'.]+'")
"""A whole package is missing, and no part of one: that is what is installed, rather than what the work makes."""
_MODULE: Final = re.compile(r"(?<!\S)-m\s*['\"]?([A-Za-z_][\w.]*)")


class _Sign(NamedTuple):
    """What a program prints when it does not get as far as to test anything."""

    saying: Template
    text: re.Pattern[str]


_SIGNS: Final = (
    _Sign(check_words.NO_SCRIPT, re.compile(r"(?:can't|cannot|Can't) open (?:file )?\S+.*No such file or directory")),
    _Sign(check_words.NO_SCRIPT, re.compile(r"requireStack: \[\]")),
    _Sign(check_words.NO_SCRIPT, re.compile(r"(?i)\bMissing script: ")),
    _Sign(
        check_words.NO_SCRIPT,
        re.compile(r"ERR_PNPM_NO_SCRIPT|error Command \"[^\"]+\" not found\.|Couldn't find a script named"),
    ),
    _Sign(check_words.NO_SCRIPT, re.compile(r"Error: no test specified")),
    _Sign(
        check_words.NO_SCRIPT,
        re.compile(r"No rule to make target '[^'\n]+'\.  Stop|No targets specified and no makefile found"),
    ),
    _Sign(
        check_words.NO_SCRIPT,
        re.compile(r"could not find `Cargo\.toml`|go: (?:go\.mod file not found|cannot find main module)"),
    ),
    _Sign(
        check_words.NOTHING_COLLECTED,
        re.compile(r"(?m)^(?:Error: )?No tests? (?:files? )?found\b|^No tests executed!|^NO TESTS RAN\b"),
    ),
)
"""Failed builds are not among them: they say something of the work, which has to make what a test needs."""


def explain_unable(check: AnyCheck, result: CheckResult) -> str:
    """Explain why a check could not run far enough to fail; empty if it passed, or failed by itself.

    A check whose work makes what it runs (`made_by_work`) may do without it before.
    """
    if result.passed or not isinstance(check, RunCheck | TestsCheck) or check.made_by_work:
        return ""
    if result.reason == "not_isolated":
        return result.detail
    return _why(check, result)


def _why(check: RunCheck | TestsCheck, result: CheckResult) -> str:
    code = result.exit_code
    if code in _NO_PROGRAM:
        return check_words.NO_PROGRAM(code=code)
    if _PYTEST.search(check.run):
        if code in _PYTEST_CODES:
            return _PYTEST_CODES[code](code=code)
        if code == _INTERRUPTED and _NOT_INSTALLED.search(result.output):
            return check_words.PYTEST_INTERRUPTED(code=code)
    for module in _MODULE.findall(check.run):
        if re.search(rf"No module named '?{re.escape(module)}'?\s*$", result.output, re.MULTILINE):
            return check_words.NO_MODULE(name=module)
    for sign in _SIGNS:
        if code is not None and sign.text.search(result.output):
            return sign.saying(code=code)
    if result.reason in {"report_missing", "tests_none"}:
        return check_words.NOTHING_COLLECTED(code=code)
    return ""
