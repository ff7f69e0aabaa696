"""The judge's part in unittest, and what it writes for both runners.

It begins and ends tests at the boundary, and notes how they ended.

This module runs in the interpreter of the project that is checked. It imports the standard library alone.
"""

from __future__ import annotations

import atexit
import functools
import importlib.abc
import importlib.machinery
import inspect
import json
import sys
from pathlib import Path
from typing import Any, Final

from .judge import Mirror, RemoteBound, RemoteFunction, session

OUTCOMES: Final = "outcomes.json"
CHOSEN: Final = "chosen.json"
_WHY: Final = 300
_CHANGED: Final = ("unittest.case", "unittest.suite")


class JudgedTests:
    """The result of the tests, by their ids. Written to a folder that no process of the work can write."""

    def __init__(self) -> None:
        self.place: Path | None = None
        self.chosen: frozenset[str] | None = None
        self.tests: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.unloaded: set[str] = set()
        self.testing = False
        self.by_pytest = False

    def note(self, test: str, outcome: str, why: str = "") -> None:
        """Note an outcome; the worst of several counts."""
        order = ("passed", "skipped", "failed")
        known = self.tests.get(test, "passed")
        self.tests[test] = max(known, outcome, key=order.index)
        if why:
            self.reasons.setdefault(test, why[:_WHY])

    def write(self) -> None:
        """Write the outcomes."""
        if self.place is not None and (self.tests or self.unloaded or self.by_pytest):
            said = {"tests": self.tests, "reasons": self.reasons, "unloaded": sorted(self.unloaded)}
            (self.place / f"{OUTCOMES}.new").write_text(json.dumps(said), encoding="utf-8")
            (self.place / f"{OUTCOMES}.new").rename(self.place / OUTCOMES)


outcomes: Final = JudgedTests()


def watch(place: Path) -> None:
    """Watch for the import of unittest, and read which tests were chosen."""
    outcomes.place = place
    chosen = place / CHOSEN
    if chosen.exists():
        outcomes.chosen = frozenset(json.loads(chosen.read_text(encoding="utf-8")))
    sys.meta_path.insert(0, _UnittestFinder())
    for name in _CHANGED:  # a reporter may have loaded them before
        if name in sys.modules:
            _change(sys.modules[name])
    atexit.register(outcomes.write)


class _UnittestFinder(importlib.abc.MetaPathFinder):
    """Changes unittest as soon as it is loaded."""

    def find_spec(self, fullname: str, path: Any = None, _target: object = None) -> Any:
        if fullname not in _CHANGED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _UnittestLoader(spec.loader.name, spec.loader.path)
        return spec


class _UnittestLoader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: Any) -> None:
        super().exec_module(module)
        _change(module)


def _change(module: Any) -> None:
    """Begin and end tests at the boundary."""
    if module.__name__ == "unittest.case":
        module.TestCase.run = _wrap_run(module.TestCase.run)
    else:
        for name in ("_handleClassSetUp", "_handleModuleFixture"):
            setattr(module.TestSuite, name, _wrap_kept(getattr(module.TestSuite, name)))


def _wrap_kept(function: Any) -> Any:
    @functools.wraps(function)
    def kept(*args: Any, **kwargs: Any) -> Any:
        with session.kept():
            return function(*args, **kwargs)

    return kept


def _wrap_run(function: Any) -> Any:
    @functools.wraps(function)
    def run(self: Any, result: Any = None) -> Any:
        if outcomes.testing or outcomes.by_pytest:
            return function(self, result)
        test = self.id()
        if type(self).__name__ == "_FailedTest":
            outcomes.unloaded.add(f"{self._testMethodName.replace('.', '/')}.py")
        if outcomes.chosen is not None and test not in outcomes.chosen:
            test = _name_source(self)
            if test not in outcomes.chosen:
                return result
        if result is None:
            return function(self, result)
        before = [len(result.failures), len(result.errors), len(result.skipped), len(result.expectedFailures)]
        outcomes.testing = True
        session.begin_test()
        try:
            if not is_local(getattr(self, self._testMethodName)):
                session.breach = "the test itself is code of the work"
            returned = function(self, result)
        finally:
            why = session.end_test()
            outcomes.testing = False
        after = [len(result.failures), len(result.errors), len(result.skipped), len(result.expectedFailures)]
        if why:
            result.failures.append((self, f"it does not cross the boundary: {why}"))
        failed = why or before[:2] != after[:2]
        outcomes.note(test, "failed" if failed else "skipped" if before[2:] != after[2:] else "passed", why)
        return returned

    return run


def _name_source(test: Any) -> str:
    """Return where a test stands: its file below the folder of the tree, its class and its method."""
    path = getattr(sys.modules.get(type(test).__module__), "__file__", None) or ""
    root = next((each for each in session.test_roots if path.startswith(each)), "")
    return f"{path[len(root) :]}::{type(test).__qualname__}::{test._testMethodName}"  # noqa: SLF001 - it has no other name


def is_local(function: Any) -> bool:
    """Whether a test is code of the judge."""
    function = getattr(function, "__func__", function)
    if isinstance(function, RemoteFunction | RemoteBound) or isinstance(type(function), Mirror):
        return False
    if isinstance(function, functools.partial):
        return is_local(function.func)
    return inspect.isfunction(function) or inspect.isroutine(function)
