"""Changes that a reviewer should see before the verdict is believed: of what a check rests on, and of its strictness.

Each rule reads lines that are new or gone, and names one line. A suspicion is a note, unless it is about a file that
the check rests on: then it stands in the way of the verdict. No rule can prove that work is honest; the runs of the
check decide that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agenttalk.rules.changes import block_rules, copied_answers, line_rules, python_reach
from agenttalk.rules.changes.changed_files import ChangedFile, NumberedLine
from agenttalk.rules.changes.python_reach import Reach
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
    """Whether it stands in the way of the verdict: it is about a file that the check rests on."""
    grave: bool = False
    """Whether a person has to see it, where nothing but the check itself speaks for the work."""


_WORDS: Final[Mapping[str, Template]] = {
    "runner-touched": change_words.RUNNER_TOUCHED,
    "library-patched": change_words.LIBRARY_PATCHED,
    "modules-replaced": change_words.MODULES_REPLACED,
    "runner-imported": change_words.RUNNER_TOUCHED,
    "frame-searched": change_words.FRAME_SEARCHED,
    "frame-read": change_words.FRAME_READ,
    "early-exit": change_words.EARLY_EXIT,
    "exit-hooked": change_words.EXIT_HOOKED,
    "always-equal": change_words.ALWAYS_EQUAL,
    "test-detected": change_words.TEST_DETECTED,
    "place-probed": change_words.PLACE_PROBED,
    "clock-compared": change_words.CLOCK_COMPARED,
    "network-used": change_words.NETWORK_USED,
    "code-decoded": change_words.CODE_DECODED,
    "code-executed": change_words.CODE_EXECUTED,
    "tests-read": change_words.TESTS_READ,
    "process-probed": change_words.PROCESS_PROBED,
    "state-kept": change_words.STATE_KEPT,
}
"""What is read from the syntax of Python and from whole functions, by rule."""
_GRAVE: Final = frozenset(
    {
        *("report-forged", "runner-touched", "runner-imported", "always-equal", "code-decoded", "frame-searched"),
        *("library-patched", "modules-replaced", "test-detected", "early-exit", "binary-code"),
        *("tests-read", "process-probed", "answers-copied", "state-kept"),
    }
)
"""Rules that honest work hardly ever breaks, see docs/reference/suspicions.md for how rarely: a person is asked."""
_USUAL_IN_TESTS: Final = frozenset(
    {
        "frame-searched",
        "modules-replaced",
        "runner-imported",
        "test-detected",
        "library-patched",
        "place-probed",
        "network-used",
        "clock-compared",
        "frame-read",
        "code-executed",
        "tests-read",
        "process-probed",
        "state-kept",
    }
)
"""What tests do every day."""
_PROGRAM: Final = re.compile(
    r"(?:(?:\A|/)(?:bin|cmd|scripts|tools|examples)/.*|(?:\A|/)(?:main|cli|cmd)|Main|Application)\.(?!py)\w+\Z"
)
_SNAPSHOT: Final = scope.read_globs(["**/__snapshots__/**", "**/*.snap", "**/*.ambr", "**/snapshots/**"])
_BINARY: Final = (".pyc", ".pyo", ".pyd", ".so", ".dll", ".dylib", ".node", ".class", ".wasm")
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
    files: Sequence[ChangedFile], held: PathMatcher, tests: Iterable[bytes] = ()
) -> tuple[Suspicion, ...]:
    """Find what a reviewer should see, the gravest first.

    What is about a `held` file stands in the way of the verdict. `tests` are the contents of the tests as they were.
    """
    found = list(dict.fromkeys(suspicion for file in files for suspicion in _find_in(file, held)))
    found += _find_copies(files, tests)
    found.sort(key=lambda each: (not each.refuses, not each.grave, each.path, each.line))
    return tuple(found[:MOST])


def _find_in(file: ChangedFile, held: PathMatcher) -> Iterator[Suspicion]:
    refuses = held.covers(file.moved_from or file.path)
    yield from _about_file(file, refuses=refuses)
    if file.kind == "moved" or not file.is_readable:
        return
    reaches = _read_reaches(file)
    yield from _find_lines(file, unread=reaches is None, refuses=refuses)
    for name, line in _list_reaches(file, reaches or ()):
        yield _at(name, file, line, _WORDS[name], refuses=refuses)
    if _has_tests(file.path):
        yield from _weakened(file, refuses=refuses)
    if _WORKFLOW.match(file.path):
        yield from _removed_steps(file, refuses=refuses)
    yield from _lowered(file, refuses=refuses)


def _find_lines(file: ChangedFile, *, unread: bool, refuses: bool) -> Iterator[Suspicion]:
    """Find added lines that a rule tells of."""
    lines = (file.after or b"").decode(errors="replace").split("\n")
    usual = _USUAL_IN_TESTS if test_runners.is_test(file.path) else frozenset()
    texts = [(line, line_rules.fold(line.text)) for line in file.added_lines]
    for rule in line_rules.RULES:
        if rule.id in usual or not _applies(rule.where, file.path, unread=unread):
            continue
        for line, folded in texts:
            if not rule.pattern.search(folded) and not rule.pattern.search(line.text):
                continue
            if rule.id in _GRAVE and line_rules.is_comment(lines, line.number):
                continue
            if rule.id != "early-exit" or not line_rules.leaves_from_main(lines, line.number):
                yield _at(rule.id, file, line, rule.text, refuses=refuses)


def may_hold_answers(files: Sequence[ChangedFile]) -> bool:
    """Whether a change adds texts that may be answers of tests, so that the tests are worth reading."""
    return any(copied_answers.read_code(file) is not None for file in files)


def _find_copies(files: Sequence[ChangedFile], tests: Iterable[bytes]) -> Iterator[Suspicion]:
    """Find what tests give and expect where code has it written down."""
    examples = copied_answers.read_examples(tests)
    for file in files if examples else ():
        code = copied_answers.read_code(file)
        numbers = copied_answers.find_copies(code, examples) if code is not None else ()
        for line in file.added_lines if numbers else ():
            if line.number in numbers:
                yield _at("answers-copied", file, line, change_words.ANSWERS_COPIED, refuses=False)


def _read_reaches(file: ChangedFile) -> Sequence[Reach] | None:
    """Read what the code of a file reaches for. None if it is Python that cannot be read."""
    if not file.added_lines:
        return ()
    source = (file.after or b"").decode(errors="replace")
    if not file.path.endswith((".py", ".pyw")):
        return block_rules.find_blocks(file.path, source)
    return python_reach.find_reaches(source)


def _list_reaches(file: ChangedFile, reaches: Sequence[Reach]) -> Iterator[tuple[str, NumberedLine]]:
    """List the places that are new: one of their lines is. A place is named by its first line."""
    if not reaches:
        return
    added = {line.number for line in file.added_lines}
    lines = (file.after or b"").decode(errors="replace").split("\n")
    tested = test_runners.is_test(file.path)
    for each in reaches:
        if added.isdisjoint(range(each.first, each.last + 1)) or (tested and each.rule in _USUAL_IN_TESTS):
            continue
        text = " ".join(part.strip() for part in lines[each.first - 1 : each.last])
        yield each.rule, NumberedLine(each.first, text)


def _about_file(file: ChangedFile, *, refuses: bool) -> Iterator[Suspicion]:
    """Find what the path of a file tells."""
    shown, name = scope.display_path(file.path), file.path.rpartition("/")[2]
    if file.kind == "added" and _BY_ITSELF.covers(file.path):
        yield Suspicion("read-by-runner", shown, 0, change_words.READ_BY_RUNNER(path=shown), refuses)
    elif file.kind != "moved" and _CONFIGURATION.covers(file.path):
        yield Suspicion("tests-configured", shown, 0, change_words.TESTS_CONFIGURED(path=shown), refuses)
    if name in test_runners.SHARED and test_runners.has_changed_settings(file.path, file.before, file.after):
        yield Suspicion("tests-configured", shown, 0, change_words.TESTS_CONFIGURED(path=shown), refuses)
    if file.kind in {"added", "changed"} and _SNAPSHOT.covers(file.path):
        yield Suspicion("snapshot-changed", shown, 0, change_words.SNAPSHOT_CHANGED(path=shown), refuses)
    if file.kind in {"added", "changed"} and name.endswith(_BINARY):
        yield Suspicion("binary-code", shown, 0, change_words.BINARY_CODE(path=shown), refuses, grave=True)
    if file.kind == "deleted" and test_runners.is_test(file.path):
        yield Suspicion("test-file-removed", shown, 0, change_words.TEST_FILE_REMOVED(path=shown), refuses)
    if file.kind == "deleted" and _WORKFLOW.match(file.path):
        yield Suspicion("job-disabled", shown, 0, change_words.WORKFLOW_REMOVED(path=shown), refuses)


def _applies(where: str, path: str, *, unread: bool) -> bool:
    if where == "any":
        return True
    if where == "code":
        return not test_runners.is_test(path) and not _BY_ITSELF.covers(path)
    if where == "tests":
        return _has_tests(path) or _BY_ITSELF.covers(path)
    if where == "workflow":
        return _WORKFLOW.match(path) is not None
    if where != "runs":
        ending = f".{path.rpartition('.')[2]}"
        return (unread and where.endswith("unread")) or ending in where.split()
    name = path.rpartition("/")[2]
    runs = _CONFIGURATION.covers(path) or name in test_runners.SHARED or name.lower() in {"makefile", "justfile"}
    return runs or _WORKFLOW.match(path) is not None or name.endswith((".sh", ".mk"))


def _has_tests(path: str) -> bool:
    """Whether a file has tests: it is one, or of a language whose tests stand beside the code."""
    return test_runners.is_test(path) or path.endswith(".rs")


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


def _is_grave(rule: str, path: str) -> bool:
    """Whether a person has to see a line. A program that is not Python may end itself where programs begin."""
    return rule in _GRAVE and not (rule == "early-exit" and _PROGRAM.search(path))


def _at(rule: str, file: ChangedFile, line: NumberedLine, text: Template, *, refuses: bool) -> Suspicion:
    """Make a suspicion about a line."""
    shown = "".join(char if char.isprintable() else " " for char in line.text.strip())[:_SHOWN]
    return Suspicion(
        rule, scope.display_path(file.path), line.number, text(line=shown), refuses, _is_grave(rule, file.path)
    )
