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
import logging
import sys
from pathlib import Path
from typing import Any, Final

from .mirrors import Mirror, RemoteBound
from .proxies import RemoteFunction
from .session import session

OUTCOMES: Final = "outcomes.json"
CHOSEN: Final = "chosen.json"
_WHY: Final = 300
_CHANGED: Final = ("unittest.case", "unittest.suite", "unittest.main")
_UNLOADED: Final = ("_FailedTest", "ModuleImportFailure", "LoadTestsFailure")
"""Classes that unittest puts in the place of tests that it could not load."""


class JudgedTests:
    """The result of the tests, by their ids. Written to a folder that no process of the work can write."""

    def __init__(self) -> None:
        self.place: Path | None = None
        self.crossed: frozenset[str] | None = None
        self.allowed: frozenset[str] = frozenset()
        self.tests: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.broken: list[str] = []
        self.whole = False
        self.testing = False
        self.by_pytest = False

    def choose(self, crossed: list[str], allowed: list[str]) -> None:
        """Choose the tests to run: by their ids, and by the paths of their files, of which an id may be the end."""
        self.crossed = frozenset(crossed)
        self.allowed = frozenset(end for name in allowed for end in _list_ends(name))

    def is_chosen(self, test: str) -> bool:
        """Whether to run a test."""
        return self.crossed is None or test in self.crossed or test.partition("[")[0] in self.allowed

    def note(self, test: str, outcome: str, why: str = "") -> None:
        """Note an outcome; the worst of several counts."""
        order = ("passed", "skipped", "failed")
        known = self.tests.get(test, "passed")
        self.tests[test] = max(known, outcome, key=order.index)
        if why:
            self.reasons.setdefault(test, why[:_WHY])

    def write(self) -> None:
        """Write the outcomes."""
        if self.place is not None and (self.tests or self.by_pytest or self.whole):
            said = {"tests": self.tests, "reasons": self.reasons, "broken": self.broken, "whole": self.whole}
            (self.place / f"{OUTCOMES}.new").write_text(json.dumps(said), encoding="utf-8")
            (self.place / f"{OUTCOMES}.new").rename(self.place / OUTCOMES)


def _list_ends(name: str) -> list[str]:
    """List the ends of a name at which it can begin in another folder."""
    between = "/" if "::" in name else "."
    parts = name.split(between)
    return [between.join(parts[start:]) for start in range(len(parts))]


outcomes: Final = JudgedTests()


def watch(place: Path) -> None:
    """Watch for the import of unittest, and read which tests were chosen."""
    outcomes.place = place
    chosen = place / CHOSEN
    if chosen.exists():
        outcomes.choose(**json.loads(chosen.read_text(encoding="utf-8")))
    for module in (sys.modules[name] for name in _CHANGED if name in sys.modules):
        _change(module)  # what reports to the engine has loaded it
    _watch_levels()
    sys.meta_path.insert(0, _UnittestFinder())
    atexit.register(outcomes.write)


def _watch_levels() -> None:
    """Tell the worker which levels the tests give to loggers: it must log what they want to see."""
    set_level = logging.Logger.setLevel

    @functools.wraps(set_level)
    def note(logger: logging.Logger, level: Any) -> None:
        set_level(logger, level)
        session.levels[logger.name] = logger.level

    logging.Logger.setLevel = note  # type: ignore[method-assign, assignment]


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
    if module.__name__ == "unittest.case":
        module.TestCase.run = _wrap_run(module.TestCase.run)
    elif module.__name__ == "unittest.main":
        module.TestProgram.runTests = _wrap_end(module.TestProgram.runTests)
    else:
        for name in ("_handleClassSetUp", "_handleModuleFixture"):
            setattr(module.TestSuite, name, _wrap_kept(getattr(module.TestSuite, name)))


def _wrap_end(function: Any) -> Any:
    @functools.wraps(function)
    def run(self: Any) -> None:
        try:
            function(self)
        finally:
            outcomes.whole = outcomes.whole or not isinstance(sys.exc_info()[1], Exception | KeyboardInterrupt)

    return run


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
        if not outcomes.is_chosen(test):
            if type(self).__name__ in _UNLOADED:
                outcomes.broken.append(str(self._testMethodName))
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


def is_local(function: Any) -> bool:
    """Whether a test is code of the judge."""
    function = getattr(function, "__func__", function)
    if isinstance(function, RemoteFunction | RemoteBound) or isinstance(type(function), Mirror):
        return False
    if isinstance(function, functools.partial):
        return is_local(function.func)
    return inspect.isfunction(function) or inspect.isroutine(function)
