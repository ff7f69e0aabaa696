"""Whether a change that another program's agent made is proven, from the runs of the check before and after it.

The check runs up to four times: on the work, on the work with the tests as they were at the base, at the base, and at
the base with the tests of the work. From these come six pieces of evidence, and `rules.proof.done.decide` decides.
What is not known to be fine is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from agenttalk.contracts.core.base import write_time
from agenttalk.contracts.promise import AcceptanceCriterion, CompletionPromise, RunCheck, TestsCheck, Watch
from agenttalk.rules.changes import changed_files, suspicion_review, suspicions
from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.changes.suspicions import Suspicion
from agenttalk.rules.checks import protection, runnable_checks, test_runners
from agenttalk.rules.checks.protection import FileTree, Protection
from agenttalk.rules.core import scope
from agenttalk.rules.proof import done, evidence
from agenttalk.rules.proof.done import Evidence, Verdict
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.suites.outcomes import Outcomes
from agenttalk.rules.text import change_words
from agenttalk.rules.text.message import LISTED, Message, Template, join, join_names

CHECK: Final = "check"
BASE_TESTS: Final = "base-tests"
TESTS_KEPT: Final = "tests-kept"
PROTECTED: Final = "protected"
SHOWN: Final = "shown"
SCOPE: Final = "scope"
SUSPICIONS: Final = "suspicions"
_ASKS: Final[Mapping[str, Template]] = {
    CHECK: change_words.ASKS_CHECK,
    BASE_TESTS: change_words.ASKS_BASE_TESTS,
    TESTS_KEPT: change_words.ASKS_TESTS_KEPT,
    PROTECTED: change_words.ASKS_PROTECTED,
    SHOWN: change_words.ASKS_SHOWN,
    SCOPE: change_words.ASKS_SCOPE,
    SUSPICIONS: change_words.ASKS_SUSPICIONS,
}
_STEPS: Final[Mapping[str, Template]] = {
    CHECK: change_words.DO_CHECK,
    BASE_TESTS: change_words.DO_BASE_TESTS,
    TESTS_KEPT: change_words.DO_TESTS_KEPT,
    PROTECTED: change_words.DO_PROTECTED,
    SHOWN: change_words.DO_SHOWN,
    SCOPE: change_words.DO_SCOPE,
    SUSPICIONS: change_words.DO_SUSPICIONS,
}
_COUNTS: Final = (
    re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE),  # unittest
    re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.MULTILINE),  # cargo
    re.compile(r"^Tests:.*?(\d+) total", re.MULTILINE),  # jest
    re.compile(r"^\s*(\d+) passing\b", re.MULTILINE),  # mocha
    re.compile(r"^# tests (\d+)$", re.MULTILINE),  # node
    re.compile(r"\bTests run: (\d+), Failures: \d+, Errors: \d+, Skipped: \d+\s*$", re.MULTILINE),  # maven
)
_LEAST_HASH: Final = 12
"""Characters of a hash that name it."""
_MISSING_MODULE: Final = re.compile(r"No module named '?([\w.]+)|[Cc]annot find module '([^']+)'")


@dataclass(frozen=True, slots=True)
class ChangePolicy:
    """What a person permits and forbids."""

    scope: tuple[str, ...] = ()
    """Globs of the files that may change. If empty, all."""
    protect: tuple[str, ...] = ()
    """Globs of files that must not change, beside those that the check consists of."""
    allow_tests: bool = False
    """Whether tests and their configuration may change, and tests may go."""
    already_green: bool = False
    """Whether the check may pass without the change, as it does for a refactoring."""
    reviewed: tuple[str, ...] = ()
    """Hashes of suspicious lines that a person has seen and approved, or their first characters."""
    suspicion: Watch = "ask"
    """What follows from lines that could deceive the check."""


@dataclass(frozen=True)
class ChangeUnderProof:
    """A change with what it is held against."""

    files: tuple[ChangedFile, ...]
    check: RunCheck | TestsCheck
    tree: FileTree
    """The files of the base."""
    policy: ChangePolicy = ChangePolicy()
    tests: tuple[bytes, ...] = ()
    """The contents of the base's tests, where the change may have written down what they expect."""

    @cached_property
    def protection(self) -> Protection:
        """What the check consists of, and what a person protects."""
        check = self.check.model_copy(update={"protected": self.policy.protect or None})
        promise = CompletionPromise.from_values(id="", objective="", acceptance=(), checks=(check,))
        return protection.derive_protection(promise, self.tree)

    def covers(self, path: str, *, folder: bool = False) -> bool:
        """Whether a path must stay as it was at the base."""
        held = self.protection
        return held.said.covers(path, folder=folder) if self.policy.allow_tests else held.covers(path, folder=folder)

    def holds(self, file: ChangedFile) -> bool:
        """Whether a file of the change must be as it was at the base."""
        if self.covers(file.path) or (file.moved_from and self.covers(file.moved_from)):
            return True
        return not self.policy.allow_tests and has_changed_settings(file)

    @cached_property
    def held(self) -> tuple[ChangedFile, ...]:
        """The files of the change that should be as they were at the base."""
        return tuple(file for file in self.files if self.holds(file))

    def list_for_held_tree(self) -> tuple[str, ...]:
        """List the paths that the work's tree with the base's tests has as the base has them; empty for none.

        New tests are left out there: they may need what else is restored, and they may act on the old ones, as a new
        `tests/__init__.py` does.
        """
        may_add = self.policy.allow_tests and not self.held
        new = (file for file in self.files if file.kind == "added" and test_runners.is_test(file.path) and not may_add)
        return _paths_of((*self.held, *new))

    def list_for_red_tree(self) -> tuple[str, ...]:
        """List the paths that the base's tree with the work's tests has as the work has them; empty for none."""
        tests = (
            file
            for file in self.files
            if file.after is not None and (test_runners.is_test(file.path) or self.protection.covers(file.path))
        )
        return _paths_of(tuple(tests))


def has_changed_settings(file: ChangedFile) -> bool:
    """Whether a shared file, such as pyproject.toml, tells otherwise how tests are run."""
    if file.path.rpartition("/")[2] not in test_runners.SHARED or file.kind == "moved":
        return False
    return test_runners.has_changed_settings(file.path, file.before, file.after)


def _paths_of(files: Sequence[ChangedFile]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for file in files for path in (file.moved_from, file.path) if path))


@dataclass(frozen=True, slots=True)
class CheckRuns:
    """The result of the check on each tree. The same tree is run once."""

    work: CheckResult
    base: CheckResult
    held: CheckResult | None = None
    """On the work with the tests as at the base; None if that is the work itself."""
    red: CheckResult | None = None
    """At the base with the tests of the work; None if that is the base itself."""


@dataclass(frozen=True, slots=True)
class ChangeProof:
    """The verdict on a change, with what it rests on."""

    verdict: Verdict
    evidence: tuple[Evidence, ...]
    suspicions: tuple[Suspicion, ...] = ()
    new_tests: tuple[str, ...] = ()
    gone_tests: tuple[str, ...] = ()
    skipped_tests: tuple[str, ...] = ()
    """Tests that ran before and are skipped now."""
    red_tests: tuple[str, ...] = ()
    """Tests that pass now and did not without the change."""
    unchecked: tuple[Message, ...] = ()
    """What was not checked."""
    steps: tuple[Message, ...] = ()
    """What to do about what is missing."""
    unable: str = ""
    """Why the check could not run at all, neither on the work nor at the base: then the work need not be the cause."""

    @property
    def proven(self) -> bool:
        """Whether the change is proven."""
        return self.verdict.fulfilled


def judge_change(change: ChangeUnderProof, runs: CheckRuns, remarks: Sequence[Message] = ()) -> ChangeProof:
    """Decide whether a change is proven. `remarks` tell what else was not checked."""
    comparison = _Comparison(change, runs)
    seen = suspicions.find_suspicions(change.files, _Held(change), change.tests)
    found = [_evidence_of_check(CHECK, runs.work)]
    if runs.held is not None:
        found.append(_evidence_of_base_tests(change, runs, runs.held))
    found.append(comparison.judge_tests_kept())
    found.append(_judge_protected(change, seen, comparison, runs))
    found.append(comparison.judge_shown())
    found += _judge_suspicions(change, seen, runs)
    if change.policy.scope:
        found.append(_judge_scope(change, runs))
    verdict = done.decide(make_promise(change, [each.id for each in found]), found, ())
    unable = [runnable_checks.explain_unable(change.check, each) for each in (runs.work, runs.base)]
    steps = [_STEPS[each.id]() for each in found if not each.passed]
    if unable[0]:
        steps[0] = change_words.DO_RUN(why=unable[0])
    return ChangeProof(
        verdict,
        tuple(found),
        seen,
        tuple(sorted(comparison.new)),
        tuple(sorted(comparison.gone)),
        tuple(sorted(comparison.skipped)),
        tuple(sorted(comparison.red)),
        (*_list_unchecked(change, runs, comparison), *remarks),
        tuple(steps),
        unable[0] if all(unable) else "",
    )


def make_promise(change: ChangeUnderProof, names: Sequence[str]) -> CompletionPromise:
    """Make the promise of a change: every piece of evidence is required."""
    criteria = tuple(
        AcceptanceCriterion.from_values(id=name, description=_ASKS[name](), evidence_required=(name,)) for name in names
    )
    return CompletionPromise.from_values(
        id="",
        objective=change_words.OBJECTIVE(),
        acceptance=criteria,
        required_evidence=tuple(names),
        checks=(change.check.model_copy(update={"id": CHECK}),),
    )


def describe_evidence(name: str) -> Message:
    """Return what a piece of evidence shows."""
    return _ASKS[name]()


@dataclass(frozen=True, slots=True)
class _Held:
    """Matches the paths of a change that must be as they were."""

    change: ChangeUnderProof

    def covers(self, path: str, *, folder: bool = False) -> bool:
        """Whether a path is held."""
        return self.change.covers(path, folder=folder) or any(file.path == path for file in self.change.held)


def _observe(name: str, detail: Message, runs: CheckRuns, *, passed: bool) -> Evidence:
    at = write_time(runs.work.ended)
    return Evidence(name, passed, fresh=True, trust="observed", by=evidence.ENGINE, at=at, detail=detail)


def _evidence_of_check(name: str, result: CheckResult) -> Evidence:
    return replace(result.to_evidence(fresh=True), id=name)


def _evidence_of_base_tests(change: ChangeUnderProof, runs: CheckRuns, held: CheckResult) -> Evidence:
    """Judge the work by the tests as they were. Where the base has no test that could run, there is nothing to hold."""
    found = _evidence_of_check(BASE_TESTS, held)
    if ghosts := _find_ghosts(runs, held):
        text = change_words.GHOST_TESTS(count=len(ghosts), names=join_names(ghosts))
        return replace(found, passed=False, detail=text)
    unable = [runnable_checks.explain_unable(change.check, each) for each in (runs.base, held)]
    if not found.passed and all(unable) and runs.base.reason == held.reason:
        return replace(found, passed=True, detail=change_words.NO_BASE_TESTS(why=unable[0]))
    return found


def _find_ghosts(runs: CheckRuns, held: CheckResult) -> set[str]:
    """Find tests in the report of a tree that are only in files that this tree does not have: a program wrote it."""
    base = runs.base.tests
    if runs.red is None or runs.red.tests is None or held.tests is None or base is None:
        return set()
    if any("::" not in name for name in base.failed):
        return set()  # which tests the base has is not known: a file of them could not be loaded
    new = runs.red.tests.known - base.known
    modules = tuple(f"{name}{end}" for name in new if "::" not in name for end in ("::", "."))
    unknown = held.tests.known - base.known
    return {name for name in unknown if name in new or name.startswith(modules)}


def _judge_protected(
    change: ChangeUnderProof, seen: Sequence[Suspicion], comparison: _Comparison, runs: CheckRuns
) -> Evidence:
    """Judge what was done to the files that the check rests on. Tests may get more lines, and move with their tests."""
    refused = {each.path: each for each in reversed(seen) if each.refuses}
    changed = [file.path for file in change.held if not comparison.permits(file)]
    shadows = _find_shadows(change)
    paths = [*(scope.display_path(path) for path in (*changed, *shadows))]
    paths = list(dict.fromkeys([*paths, *refused]))
    if not paths:
        extended = [scope.display_path(file.path) for file in change.held]
        text = change_words.ONLY_EXTENDED(names=join_names(extended)) if extended else change_words.NONE_CHANGED()
        return _observe(PROTECTED, text, runs, passed=True)
    whys: list[Message] = [change_words.PROTECTED_CHANGED(count=len(paths), names=join_names(paths))]
    whys += [
        change_words.AT_LINE(path=each.path, line=each.line, what=each.message) if each.line else each.message
        for each in refused.values()
    ]
    whys += [change_words.SHADOWING(path=scope.display_path(path)) for path in shadows]
    return _observe(PROTECTED, _as_message(whys[:6]), runs, passed=False)


def _judge_suspicions(change: ChangeUnderProof, seen: Sequence[Suspicion], runs: CheckRuns) -> Iterator[Evidence]:
    """Judge lines that could deceive the check: a person has to have seen them, unless they are only noted."""
    grave = suspicion_review.list_grave(seen)
    if not grave or change.policy.suspicion == "note":
        return
    lines, mark = suspicion_review.describe_lines(grave), suspicion_review.hash_lines(grave).rpartition(":")[2]
    reviewed = change.policy.suspicion == "ask" and any(
        len(each) >= _LEAST_HASH and mark.startswith(each) for each in change.policy.reviewed
    )
    text = change_words.SUSPICIONS_REVIEWED if reviewed else change_words.SUSPICIONS_OPEN
    yield _observe(SUSPICIONS, text(lines=lines, hash=mark[:_LEAST_HASH]), runs, passed=reviewed)


def _find_shadows(change: ChangeUnderProof) -> list[str]:
    """Find new files that Python or a shell would take for a module or program of the check."""
    added = [file.path for file in change.files if file.before is None or file.kind == "moved"]
    promise = CompletionPromise.from_values(id="", objective="", acceptance=(), checks=(change.check,))
    return protection.find_shadowing_files(promise, change.tree, added)


def _as_message(parts: Sequence[Message]) -> Message:
    joined = join(parts)
    return joined if isinstance(joined, Message) else LISTED(parts=tuple(parts))


def _judge_scope(change: ChangeUnderProof, runs: CheckRuns) -> Evidence:
    paths = [path for file in change.files for path in (file.moved_from, file.path) if path]
    breaches = scope.make_scope(change.policy.scope, ()).find_breaches(dict.fromkeys(paths))
    names = join_names([scope.display_path(path) for path in breaches])
    text = change_words.OUT_OF_SCOPE(count=len(breaches), names=names) if breaches else change_words.IN_SCOPE()
    return _observe(SCOPE, text, runs, passed=not breaches)


_NO_TESTS: Final = Outcomes()


class _Comparison:
    """The tests of a change, held against those of its base."""

    def __init__(self, change: ChangeUnderProof, runs: CheckRuns) -> None:
        self._change = change
        self._runs = runs
        self._after = runs.work.tests or _NO_TESTS
        self._base = runs.base.tests or _NO_TESTS
        held = runs.held.tests if runs.held is not None and runs.held.tests is not None else _NO_TESTS
        self._moves = {file.moved_from: file.path for file in change.files if file.kind == "moved"}
        unloaded = {name for name in self._base.failed if "::" not in name}
        self._known = (self._base.known | held.known) - unloaded
        ran = (self._base.ran | held.ran) - unloaded
        moved = {name: changed_files.follow_moves(name, self._moves) for name in self._known - self._after.known}
        arrived = {new for places in moved.values() for new in places}
        self.gone = {name for name, places in moved.items() if not places & self._after.known}
        self.skipped = {
            name for name in ran if ({name} | set(moved.get(name, ()))) & self._after.skipped
        }  # fmt: skip
        self.new = self._after.known - self._known - arrived
        self.red = self._find_red()

    def permits(self, file: ChangedFile) -> bool:
        """Whether a held test may be as it is: it only got more lines, or moved together with its tests."""
        if not test_runners.is_test(file.path) or self._change.protection.said.covers(file.path):
            return False
        if self._change.protection.runner.covers(file.path):
            return False
        if file.kind == "moved":
            return self._runs.work.tests is not None and bool(self._after.known) and not self.gone
        return file.is_extension

    def _find_red(self) -> set[str]:
        """Find the tests that pass now, and did not without the change."""
        before = (self._runs.red or self._runs.base).tests
        if before is None or not evidence.is_about_work(self._runs.red or self._runs.base):
            return set()
        failed = before.failed | self._base.failed
        return {
            name for name in self._after.passed if name in failed or (name in self.new and name not in before.passed)
        }

    def judge_tests_kept(self) -> Evidence:
        """Judge whether all tests are still there, and still run."""
        if self._runs.work.tests is None:
            return self._judge_counts()
        if not self.gone and not self.skipped:
            text = change_words.TESTS_KEPT(count=len(self._after.ran), new=len(self.new))
            return _observe(TESTS_KEPT, text, self._runs, passed=True)
        whys = [change_words.TESTS_GONE(count=len(self.gone), names=join_names(self.gone))] if self.gone else []
        if self.skipped:
            whys.append(change_words.TESTS_SKIPPED(count=len(self.skipped), names=join_names(self.skipped)))
        whys += [change_words.FILE_MOVED(old=old, new=new) for old, new in self._moves.items() if self._has_lost(old)]
        if self._change.policy.allow_tests:
            whys.append(change_words.AS_ALLOWED())
        return _observe(TESTS_KEPT, _as_message(whys), self._runs, passed=self._change.policy.allow_tests)

    def _has_lost(self, old: str) -> bool:
        """Whether a file that moved is one of those whose tests are gone."""
        return test_runners.is_test(old) and any(changed_files.follow_moves(name, {old: ""}) for name in self.gone)

    def _judge_counts(self) -> Evidence:
        """Compare how many tests ran, as far as the check prints it."""
        results = [each for each in (self._runs.base, self._runs.held) if each is not None]
        before = max((count_tests(each.output) or 0 for each in results), default=0)
        after = count_tests(self._runs.work.output)
        if isinstance(self._change.check, TestsCheck):
            return _observe(TESTS_KEPT, change_words.NO_TEST_REPORT(), self._runs, passed=False)
        gone = [file.path for file in self._change.files if file.kind == "deleted" and test_runners.is_test(file.path)]
        if gone:
            names = join_names([scope.display_path(path) for path in gone])
            text = change_words.FILES_GONE(count=len(gone), names=names)
            return _observe(TESTS_KEPT, text, self._runs, passed=self._change.policy.allow_tests)
        if not before:
            return _observe(TESTS_KEPT, change_words.NOT_COUNTED(), self._runs, passed=True)
        fewer = (after or 0) < before
        text = (change_words.FEWER_TESTS if fewer else change_words.AS_MANY_TESTS)(before=before, after=after or 0)
        return _observe(TESTS_KEPT, text, self._runs, passed=not fewer or self._change.policy.allow_tests)

    def judge_shown(self) -> Evidence:
        """Judge whether anything shows the change: the check must have failed without it."""
        passed, text = self._find_shown()
        return _observe(SHOWN, text, self._runs, passed=passed)

    def _find_shown(self) -> tuple[bool, Message]:
        change, red = self._change, self._runs.red or self._runs.base
        if self.red:
            return True, change_words.WAS_RED(count=len(self.red), names=join_names(self.red))
        if self.only_documents:
            return True, change_words.ONLY_DOCUMENTS()
        why = runnable_checks.explain_unable(change.check, red)
        if not why and not evidence.is_about_work(red):
            why = red.detail
        if why and _misses_work(red.output, change.files):
            why = ""
        if not red.passed and not why and red.tests is None:
            return True, change_words.WAS_RED_AS_A_WHOLE(code=red.exit_code)
        if change.policy.already_green:
            return True, change_words.GREEN_AS_ALLOWED()
        if why:
            return False, change_words.NO_RUN_BEFORE(why=why)
        if not red.passed:
            return False, change_words.RED_BEFORE_AND_AFTER()
        if self.new:
            return False, change_words.NEW_TESTS_GREEN(count=len(self.new), names=join_names(self.new))
        return False, change_words.NOTHING_SHOWS()

    @property
    def only_documents(self) -> bool:
        """Whether the change touches only texts for people, of which the check consists of none."""
        files = self._change.files
        return all(changed_files.is_documentation(file.path) and not self._change.holds(file) for file in files)


def count_tests(printed: str) -> int | None:
    """Count the tests that ran, by the output of a runner; None if it does not tell."""
    for pattern in _COUNTS:
        found = pattern.findall(printed)
        if found:
            return sum(int(number) for each in found for number in ((each,) if isinstance(each, str) else each))
    return None


def _misses_work(printed: str, files: Collection[ChangedFile]) -> bool:
    """Whether a check could not run because something is missing that the change brings."""
    made = {step for file in files if file.before is None for step in file.path.split("/")}
    stems = made | {step.partition(".")[0] for step in made}
    named = [part for found in _MISSING_MODULE.finditer(printed) for part in found.groups() if part]
    return any(not stems.isdisjoint(re.split(r"[./]", name)) for name in named)


def _list_unchecked(change: ChangeUnderProof, runs: CheckRuns, comparison: _Comparison) -> Iterator[Message]:
    """List what was not checked, with any verdict."""
    if comparison.new:
        names = join_names(comparison.new)
        yield change_words.UNCHECKED_NEW_TESTS(count=len(comparison.new), names=names)
    elif runs.work.tests is None and any(
        file.kind == "added" and test_runners.is_test(file.path) for file in change.files
    ):
        paths = [file.path for file in change.files if file.kind == "added" and test_runners.is_test(file.path)]
        yield change_words.UNCHECKED_NEW_TESTS(count=len(paths), names=join_names(paths))
    allowed = [file for file in change.files if change.protection.covers(file.path) or has_changed_settings(file)]
    if change.policy.allow_tests and allowed:
        names = join_names([scope.display_path(file.path) for file in allowed])
        yield change_words.UNCHECKED_TESTS(count=len(allowed), names=names)
    if comparison.only_documents:
        yield change_words.UNCHECKED_DOCUMENTS()
    elif change.policy.already_green and not comparison.red:
        yield change_words.UNCHECKED_EFFECT()
    if runs.work.tests is None:
        yield change_words.UNCHECKED_SINGLE_TESTS()
    if runs.work.isolated is False:
        yield change_words.UNCHECKED_SANDBOX()
    unread = [scope.display_path(file.path) for file in change.files if not file.is_readable]
    if unread:
        yield change_words.UNCHECKED_FILES(count=len(unread), names=join_names(unread))
    yield change_words.UNCHECKED_MEANING()
