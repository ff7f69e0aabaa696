"""Tests of the engine that show whether a test runner still tells right from wrong beside the changed modules.

Half of them must fail, each in another form that suites use; half must pass. Their names and values cannot be foreseen.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agenttalk.rules.suites.channel import SuiteSession
from agenttalk.rules.suites.runner_calls import RunnerCall

_CASES: Final = (
    ("self.assertEqual({a}, {a})", "self.assertEqual({a}, {b})"),
    ("self.assertEqual([{a}, 'x'], [{a}, 'x'])", "self.assertEqual([{a}, 'x'], [{b}, 'x'])"),
    ("self.assertTrue({a} < {b})", "self.assertTrue({a} > {b})"),
    ("self.assertIn({a}, [{a}])", "self.assertIn({a}, [{b}])"),
    ("self.assertRaises(KeyError, {{}}.__getitem__, {a})", "self.assertRaises(KeyError, {{{a}: 1}}.__getitem__, {a})"),
    ("assert str({a}) == '{a}'", "assert str({a}) == '{b}'"),
    ("pass", "raise RuntimeError({a})"),
    ("self.assertIsNone(None)", "self.fail('{a}')"),
)
"""What a method of a TestCase does, in pairs: one that must pass, and one that must fail."""
_FUNCTIONS: Final = (
    ("assert {a} + 1 == {c}", "assert {a} + 1 == {b} + 1"),
    ("assert 'x{a}' == 'x' + str({a})", "assert 'x{a}' == 'x' + str({b})"),
    ("assert [{a}, None] == [{a}, None]", "assert [{a}, None] == [{b}, None]"),
    ("assert {{'k': {a}}} == {{'k': {a}}}", "assert {{'k': {a}}} == {{'k': {b}}}"),
    ("assert {a}.5 != {b}.5", "assert {a}.5 != {a}.5"),
    ("assert not []", "assert not [{a}]"),
    ("assert {a} in ({a}, {b})", "assert {a} in ({b},)"),
    ("with pytest.raises(KeyError):\n        {{}}[{a}]", "with pytest.raises(KeyError):\n        {{{a}: 1}}[{a}]"),
    ("with pytest.raises(ValueError):\n        int('x{a}')", "with pytest.raises(KeyError):\n        int('x{a}')"),
    ("assert {a} == pytest.approx({a} + 1e-12)", "assert {a} == pytest.approx({b})"),
    ("pass", "pytest.fail('{a}')"),
    ("pass", "raise RuntimeError({a})"),
)
"""The same for functions of pytest."""
_NOT_IMPORTED: Final = frozenset({"conftest.py", "__main__.py", "setup.py"})


@dataclass(frozen=True, slots=True)
class CanarySuite:
    """A file of canaries, and how each must end."""

    text: str
    passing: frozenset[str]
    failing: frozenset[str]

    def holds(self, sessions: Sequence[SuiteSession], code: int | None) -> bool:
        """Whether a run ended exactly as it must: each canary in its way, and the runner with a failure."""
        if len(sessions) != 1 or code != 1:
            return False
        [session] = sessions
        if session.code != 1 or session.fault is not None or session.pending or session.hidden:
            return False
        found = session.outcomes
        return found.passed == self.passing and found.failed == self.failing and not found.skipped


def make_canaries(
    runner: str, module: str, tokens: Iterator[int], modules: Collection[str], paths: Sequence[str]
) -> CanarySuite:
    """Make canaries for a runner in a module of that name. `tokens` are large numbers that cannot be foreseen.

    They import the `modules`, as far as that is possible, with the `paths` on which the suite found them.
    """
    lines = ["import importlib", "import sys", "import unittest"]
    lines += ["import pytest"] if runner == "pytest" else []
    lines += [
        f"sys.path += [path for path in {list(paths)!r} if path not in sys.path]",
        f"for name in {list(modules)!r}:",
    ]
    lines += ["    try:", "        importlib.import_module(name)", "    except BaseException:", "        pass", ""]
    case = f"Case{next(tokens):x}"
    lines.append(f"class {case}(unittest.TestCase):")
    passing: set[str] = set()
    failing: set[str] = set()
    for pair in _CASES:
        for body, group in zip(pair, (passing, failing), strict=True):
            name, filled = _fill(body, tokens)
            lines.append(f"    def {name}(self):\n        {filled}\n")
            group.add(f"{module}.{case}::{name}")
    for pair in _FUNCTIONS if runner == "pytest" else ():
        for body, group in zip(pair, (passing, failing), strict=True):
            name, filled = _fill(body, tokens)
            lines.append(f"def {name}():\n    {filled}\n")
            group.add(f"{module}::{name}")
    return CanarySuite("\n".join(lines), frozenset(passing), frozenset(failing))


def _fill(body: str, tokens: Iterator[int]) -> tuple[str, str]:
    """Return a name for a canary, and its body with numbers of its own, of which the first is the smaller."""
    low = next(tokens)
    return f"test_{next(tokens):x}", body.format(a=low, b=low + 1 + next(tokens), c=low + 1)


def make_command(call: RunnerCall, folder: str, module: str, settings: str) -> str:
    """Make the command line that runs a file of canaries by the same runner, without the project's settings for it."""
    file = f"{folder}/{module}.py"
    own = ["-q", "-p", "no:cacheprovider", "--noconftest", "-c", settings, f"--rootdir={folder}", file]
    if call.runner == "unittest":
        own = ["discover", "-s", folder, "-t", folder, "-p", f"{module}.py"]
    return call.lead + shlex.join([*call.words[: call.start], *own])


def choose_modules(sessions: Sequence[SuiteSession], top: str, changed: Collection[str]) -> tuple[str, ...]:
    """Choose the changed modules that a suite has loaded, by their names. `top` is the folder of the checkout."""
    wanted = {f"{top}/{path}" for path in changed if path.rpartition("/")[2] not in _NOT_IMPORTED}
    found = {name for session in sessions for name, file in session.modules if file in wanted}
    return tuple(sorted(name for name in found if name != "__main__"))
