"""Changes that a reviewer should see before the verdict is believed: of what a check rests on, and of its strictness.

Each rule reads lines that are new or gone, and names one line. A suspicion is a note, unless it is about a file that
the check rests on: then it stands in the way of the verdict. No rule can prove that work is honest; the runs of the
check decide that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from agenttalk.rules.changes import check_discovery
from agenttalk.rules.changes.changed_files import ChangedFile, NumberedLine
from agenttalk.rules.checks import test_runners
from agenttalk.rules.core import scope
from agenttalk.rules.core.scope import PathMatcher
from agenttalk.rules.text import change_words
from agenttalk.rules.text.message import Message, Template

MOST: Final = 50
"""Suspicions that are reported, at most."""
_SHOWN: Final = 120
"""Characters of a line that are shown."""
_WORKFLOW: Final = re.compile(r"(?:\.(?:github|gitea|forgejo)/workflows/[^/]+\.ya?ml|\.gitlab-ci\.yml)\Z")
_CONFIGURATION: Final = scope.read_globs(
    list(dict.fromkeys(glob for family in test_runners.RUNNERS.values() for glob in family.files))
)
_BY_ITSELF: Final = scope.read_globs(
    ["**/conftest.py", "**/sitecustomize.py", "**/usercustomize.py", "**/*.pth", "**/spec_helper.rb", "**/.rspec"]
)
"""Files that a test runner or an interpreter reads although no program names them."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A change that a reviewer should see."""

    id: str
    """Its rule: public and stable."""
    path: str
    line: int
    """Its line after the change, or before it for what is gone; 0 for the whole file."""
    message: Message
    refuses: bool = False
    """Whether it stands in the way of the verdict."""


class _LineRule(NamedTuple):
    """A rule about single lines that a change adds."""

    id: str
    pattern: re.Pattern[str]
    text: Template
    where: str
    """`tests`, `code` (all but tests), `runs` (workflows, makefiles, scripts), `workflow` or `any`."""


_SKIPS: Final = re.compile(
    r"pytest\.mark\.(?:skip|skipif|xfail)\b|pytest\.(?:skip|xfail|importorskip)\(|pytestmark\s*=.*(?:skip|xfail)"
    r"|unittest\.(?:skip|expectedFailure)|@(?:skip|skipIf|skipUnless|expectedFailure)\b|\.skipTest\(|raise\s+SkipTest"
    r"|\b(?:it|test|describe|suite|context)\.(?:skip|todo|fails|failing)\b|\b(?:xit|xtest|xdescribe)\s*\("
    r"|\bt\.Skip(?:f|Now)?\(|#\[ignore|@(?:Disabled|Ignore)\b|\[(?:Ignore|Fact\(Skip|Theory\(Skip)|collect_ignore"
    r"|__test__\s*=\s*False"
)
_ONLY: Final = re.compile(r"\b(?:it|test|describe|suite|context)\.only\b|\b(?:fit|fdescribe)\s*\(")
_ALWAYS_TRUE: Final = re.compile(
    r"^\s*assert\s+(?:True|1|not\s+False)\b\s*(?:,.*)?(?:#.*)?$|\.assertTrue\(\s*True\s*[,)]|assert!\(\s*true\s*[,)]"
    r"|expect\(\s*(?:true|1)\s*\)\.(?:toBe|toEqual|toStrictEqual)\(\s*(?:true|1)\s*\)|assert\.ok\(\s*true\s*\)"
    r"|expect\(\s*true\s*\)\.toBeTruthy\(\)"
)
_SILENCED: Final = re.compile(
    r"#\s*(?:noqa|nosec|pragma:\s*no\s*cover|pylint:\s*disable|type:\s*ignore|pyright:\s*ignore|mypy:\s*ignore-errors)"
    r"|eslint-disable|@ts-(?:ignore|nocheck|expect-error)|biome-ignore|(?:istanbul|c8|v8)\s+ignore|//\s*nolint"
    r"|#!?\[allow\(|@SuppressWarnings|NOSONAR|rubocop:\s*disable|phpstan-ignore|#pragma\s+warning\s+disable"
)
_LEAVES: Final = re.compile(
    r"\bos\._exit\s*\(|^(?:sys\.exit|exit|quit)\(\s*0?\s*\)|^raise\s+SystemExit(?:\(\s*0?\s*\))?\s*$"
    r"|\bprocess\.exit\(\s*0?\s*\)|\batexit\.register\b|\bos\.Exit\(\s*0\s*\)|\bstd::process::exit\(\s*0\s*\)"
)
_IGNORES: Final = re.compile(
    r"\|\|\s*(?:true|:)(?!\w)|continue-on-error:\s*['\"]?true|allow_failure:\s*true|^\s*exit\s+0\b|\bset\s+\+e\b"
    r"|--passWithNoTests|--exit-zero|;\s*true\s*[\"']?\s*,?$"
)
_DISABLES: Final = re.compile(r"\bif:\s*['\"]?(?:\$\{\{\s*)?(?:false|0)\b|when:\s*(?:never|manual)\b|paths-ignore:")
_DESELECTS: Final = re.compile(
    r"--ignore(?:-glob)?[= ]|--deselect\b|\s-k\s*['\"]?not\b|--exclude\b|-DskipTests|-Dmaven\.test\.skip|\s-x\s+test\b"
    r"|collect_ignore|testPathIgnorePatterns|norecursedirs"
)
_DETECTS: Final = re.compile(
    r"PYTEST_CURRENT_TEST|[\"']pytest[\"']\s+in\s+sys\.modules|[\"']unittest[\"']\s+in\s+sys\.modules"
    r"|JEST_WORKER_ID|VITEST_WORKER_ID|process\.env\.VITEST\b|NODE_ENV\s*===?\s*[\"']test[\"']|\btesting\.Testing\(\)"
)
_FORGES: Final = re.compile(re.escape(check_discovery.REPORT))
_TOUCHES: Final = re.compile(
    r"\b_pytest\b|\bpluggy\b|\bTestCase\.\w+\s*=(?!=)|\bunittest\.(?:case|result|runner|loader)\b|\bsys\.settrace\("
)
_STANDING: Final = frozenset({"report-forged", "runner-touched", "always-equal"})
"""Rules that no honest work breaks without a person who reviews it."""
_COMPARES: Final = re.compile(r"\s*def\s+__(?:eq|ne|lt|le|gt|ge|bool|contains|instancecheck)__\s*\(")
_YES: Final = re.compile(r"\s*return\s+(?:True|1)\s*(?:#.*)?$")
_RULES: Final = (
    _LineRule("runner-touched", _TOUCHES, change_words.RUNNER_TOUCHED, "code"),
    _LineRule("report-forged", _FORGES, change_words.REPORT_FORGED, "any"),
    _LineRule("test-detected", _DETECTS, change_words.TEST_DETECTED, "code"),
    _LineRule("test-skipped", _SKIPS, change_words.TEST_SKIPPED, "tests"),
    _LineRule("test-only", _ONLY, change_words.TEST_ONLY, "tests"),
    _LineRule("assert-true", _ALWAYS_TRUE, change_words.ASSERT_TRUE, "tests"),
    _LineRule("check-silenced", _SILENCED, change_words.CHECK_SILENCED, "any"),
    _LineRule("early-exit", _LEAVES, change_words.EARLY_EXIT, "any"),
    _LineRule("failure-ignored", _IGNORES, change_words.FAILURE_IGNORED, "runs"),
    _LineRule("job-disabled", _DISABLES, change_words.JOB_DISABLED, "workflow"),
    _LineRule("tests-deselected", _DESELECTS, change_words.TESTS_DESELECTED, "runs"),
)
_ASSERTION: Final = re.compile(
    r"^\s*(?:assert\b|self\.assert\w*\(|expect\(|assert\w*[!(.]|with\s+pytest\.raises|t\.(?:Error|Fatal)f?\("
    r"|\w+\.should\b|require\.\w+\()"
)
_DEFINED: Final = re.compile(r"^\s*(?:async\s+)?def\s+(test\w*)\s*\(")
_STEP: Final = re.compile(r"^\s*(?:- )?run:\s*(.*)$|^\s*-\s+(.*)$")
_THRESHOLD: Final = re.compile(
    r"(?P<name>fail[_-]under|cov-fail-under|min_tests|minimum|min-coverage|lines|branches|functions|statements)"
    r"['\"]?\s*[:=]\s*['\"]?(?P<number>\d+(?:\.\d+)?)"
)


def find_suspicions(
    files: Sequence[ChangedFile], held: PathMatcher, *, reports_tests: bool = True, reviewed: bool = False
) -> tuple[Suspicion, ...]:
    """Find what a reviewer should see. What is about a `held` file stands in the way of the verdict.

    So does code that reaches into the test runner, and, where the check rests on its exit code alone, a program that
    ends early with success; unless a person has `reviewed` the change.
    """
    standing = frozenset() if reviewed else _STANDING if reports_tests else _STANDING | {"early-exit"}
    found = [suspicion for file in files for suspicion in _find_in(file, held, standing)]
    found.sort(key=lambda each: (not each.refuses, each.path, each.line))
    return tuple(found[:MOST])


def _find_in(file: ChangedFile, held: PathMatcher, standing: frozenset[str]) -> Iterator[Suspicion]:
    refuses = held.covers(file.moved_from or file.path)
    yield from _about_file(file, refuses=refuses)
    if file.kind == "moved" or not file.is_readable:
        return
    for rule in _RULES:
        if _applies(rule.where, file.path):
            for line in file.added_lines:
                if rule.pattern.search(line.text):
                    yield _at(rule.id, file, line, rule.text, refuses=refuses or rule.id in standing)
    if _has_tests(file.path):
        yield from _weakened(file, refuses=refuses)
    for line in _list_always_equal(file):
        yield _at("always-equal", file, line, change_words.ALWAYS_EQUAL, refuses=refuses or "always-equal" in standing)
    if _WORKFLOW.match(file.path):
        yield from _removed_steps(file, refuses=refuses)
    yield from _lowered(file, refuses=refuses)


def _about_file(file: ChangedFile, *, refuses: bool) -> Iterator[Suspicion]:
    """Find what the path of a file tells."""
    shown, name = scope.display_path(file.path), file.path.rpartition("/")[2]
    if file.kind == "added" and _BY_ITSELF.covers(file.path):
        yield Suspicion("read-by-runner", shown, 0, change_words.READ_BY_RUNNER(path=shown), refuses)
    elif file.kind != "moved" and _CONFIGURATION.covers(file.path):
        yield Suspicion("tests-configured", shown, 0, change_words.TESTS_CONFIGURED(path=shown), refuses)
    if name in test_runners.SHARED and test_runners.has_changed_settings(file.path, file.before, file.after):
        yield Suspicion("tests-configured", shown, 0, change_words.TESTS_CONFIGURED(path=shown), refuses)
    if file.kind == "deleted" and test_runners.is_test(file.path):
        yield Suspicion("test-file-removed", shown, 0, change_words.TEST_FILE_REMOVED(path=shown), refuses)
    if file.kind == "deleted" and _WORKFLOW.match(file.path):
        yield Suspicion("job-disabled", shown, 0, change_words.WORKFLOW_REMOVED(path=shown), refuses)


def _applies(where: str, path: str) -> bool:
    if where == "any":
        return True
    if where == "code":
        return not test_runners.is_test(path) and not _BY_ITSELF.covers(path)
    if where == "tests":
        return _has_tests(path) or _BY_ITSELF.covers(path)
    if where == "workflow":
        return _WORKFLOW.match(path) is not None
    name = path.rpartition("/")[2]
    runs = _CONFIGURATION.covers(path) or name in test_runners.SHARED or name.lower() in {"makefile", "justfile"}
    return runs or _WORKFLOW.match(path) is not None or name.endswith((".sh", ".mk"))


def _has_tests(path: str) -> bool:
    """Whether a file has tests: it is one, or of a language whose tests stand beside the code."""
    return test_runners.is_test(path) or path.endswith(".rs")


def _list_always_equal(file: ChangedFile) -> Iterator[NumberedLine]:
    """List new comparisons that always hold: what such an object is compared with passes every test."""
    lines = [line for line in file.added_lines if line.text.strip()]
    for line, after in pairwise(lines):
        if _COMPARES.match(line.text) and _YES.match(after.text):
            yield line


def _weakened(file: ChangedFile, *, refuses: bool) -> Iterator[Suspicion]:
    """Find assertions that are gone from a test, and tests that are defined a second time."""
    gone = [line for line in file.removed_lines if _ASSERTION.match(line.text)]
    if file.kind == "changed":
        for line in gone:
            yield _at("assertion-changed", file, line, change_words.ASSERTION_CHANGED, refuses=refuses)
    names = {found[1] for text in (file.before or b"").decode(errors="replace").splitlines()
             if (found := _DEFINED.match(text))}  # fmt: skip
    removed = {found[1] for line in file.removed_lines if (found := _DEFINED.match(line.text))}
    for line in file.added_lines:
        found = _DEFINED.match(line.text)
        if found and found[1] in names - removed:
            yield _at("test-redefined", file, line, change_words.TEST_REDEFINED, refuses=refuses)


def _removed_steps(file: ChangedFile, *, refuses: bool) -> Iterator[Suspicion]:
    """Find commands that run tests and are gone from a workflow that is still there."""
    for line in file.removed_lines if file.kind == "changed" else ():
        found = _STEP.match(line.text)
        command = (found[1] or found[2] or "") if found else line.text
        if not command.lstrip().startswith(("#", "uses:", "name:")) and test_runners.runs_tests(command):
            yield _at("job-disabled", file, line, change_words.STEP_REMOVED, refuses=refuses)


def _lowered(file: ChangedFile, *, refuses: bool) -> Iterator[Suspicion]:
    """Find thresholds that are lower than before."""
    before: dict[str, float] = {}
    for line in file.removed_lines:
        before |= {found["name"]: float(found["number"]) for found in _THRESHOLD.finditer(line.text)}
    for line in file.added_lines if before else ():
        for found in _THRESHOLD.finditer(line.text):
            if float(found["number"]) < before.get(found["name"], 0):
                yield _at("threshold-lowered", file, line, change_words.THRESHOLD_LOWERED, refuses=refuses)


def _at(rule: str, file: ChangedFile, line: NumberedLine, text: Template, *, refuses: bool) -> Suspicion:
    """Make a suspicion about a line."""
    shown = "".join(char if char.isprintable() else " " for char in line.text.strip())[:_SHOWN]
    return Suspicion(rule, scope.display_path(file.path), line.number, text(line=shown), refuses)
