"""Which test runner a command line calls, where it plainly calls one."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Runner = Literal["pytest", "unittest", "node", "jest", "vitest", "go", "cargo"]
"""Runners that report over the engine's channel."""
PYTHON_RUNNERS: Final = frozenset({"pytest", "unittest"})

_OPERATORS: Final = re.compile(r"[;&|<>$`()\n\\#{}]")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_LED: Final = re.compile(r'export PATH="\$PWD/[\w./-]+:\$PATH"; ')
"""What the engine itself puts before a command whose program is in a linked folder."""
_PYTHON: Final = re.compile(r"python[\d.]*\Z")
_ALONE: Final = re.compile(r"-[A-Za-z]*[IES][A-Za-z]*\Z")
"""Options with which Python reads no environment, or no site: nothing can be loaded beside the runner."""
_WITH_VALUE: Final = frozenset({"-W", "-X"})
_MANAGERS: Final = frozenset({"uv", "poetry", "pdm", "hatch", "pipenv", "rye", "npx", "pnpm", "yarn", "bun", "bunx"})
_MANAGER_WORDS: Final = frozenset({"run", "exec", "x", "dlx"})
_NO_TESTS: Final = frozenset(
    {
        *("-list", "--list", "-c", "--no-run", "--help", "-h", "--version", "-v"),
        *("--listTests", "--showConfig", "--clearCache", "--init", "list", "bench", "init"),
        *("-exec", "-overlay", "--doc"),
    }
)
"""The same for runners of other languages, and options of theirs beside which nothing can be loaded."""
_NO_RUN: Final = frozenset({"--version", "-V", "--help", "-h", "--collect-only", "--co", "--fixtures", "--markers"})
"""Options with which a runner runs no test."""
_PATH: Final = re.compile(r"(?<![\w$])PYTHONPATH=(?P<empty>(?=[\s;&|]|\Z))?")


class RunnerCall(NamedTuple):
    """A plain call of a test runner."""

    runner: Runner
    words: tuple[str, ...]
    """The command line as words."""
    start: int
    """How many of them start the runner. What follows are its own arguments."""
    lead: str = ""
    """What stands before the words, as the shell reads it."""


def split_simple(command: str) -> tuple[str, ...]:
    """Split a command line that is one call of a program; empty for any other."""
    return _split(command)[1]


def _split(command: str) -> tuple[str, tuple[str, ...]]:
    """Split a simple command line into its assignments, as the shell reads them, and its words."""
    if _OPERATORS.search(command):
        return "", ()
    try:
        words = shlex.split(command)
    except ValueError:
        return "", ()
    lead = ""
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        lead += f"{name}={shlex.quote(value)} "
    return lead, tuple(words)


def find_call(command: str) -> RunnerCall | None:
    """Find the runner that a command line plainly calls, in a way in which it can report over the channel."""
    led = _LED.match(command)
    lead, words = _split(command[led.end() :] if led else command)
    lead = (led[0] if led else "") + lead
    start = _skip_manager(words)
    as_module = start < len(words) and _PYTHON.match(posixpath.basename(words[start])) is not None
    if as_module:
        start += 1
        while start < len(words) and words[start].startswith("-") and words[start] != "-m":
            if _ALONE.match(words[start]):
                return None
            start += 2 if words[start] in _WITH_VALUE else 1
        if words[start : start + 1] != ("-m",):
            return None
        start += 1
    name = posixpath.basename(words[start]) if start < len(words) else ""
    if name in {"pytest", "py.test"} and _NO_RUN.isdisjoint(words[start + 1 :]):
        return RunnerCall("pytest", words, start + 1, lead)
    if name == "unittest" and as_module and _NO_RUN.isdisjoint(words[start + 1 :]):
        return RunnerCall("unittest", words, start + 1, lead)
    return None if as_module else _find_other(name, words, start, lead)


def _find_other(name: str, words: tuple[str, ...], start: int, lead: str) -> RunnerCall | None:
    """Find a call of a runner of another language than Python."""
    rest = words[start + 1 :]
    if name == "go" and rest[:1] == ("test",) and _NO_TESTS.isdisjoint(set(rest) - {"-v"}):
        return RunnerCall("go", words, start + 2, lead)
    tools = rest[1:] if rest[:1] and rest[0].startswith("+") else rest
    if name == "cargo" and tools[:1] in {("test",), ("t",)} and _NO_TESTS.isdisjoint(set(rest) - {"-v"}):
        return RunnerCall("cargo", words, len(words) - len(tools) + 1, lead)
    if name == "node" and "--test" in rest:
        return RunnerCall("node", words, start + 1, lead)
    if name in {"jest", "vitest"} and _NO_TESTS.isdisjoint(rest):
        return RunnerCall("jest" if name == "jest" else "vitest", words, start + 1, lead)
    return None


def _skip_manager(words: Sequence[str]) -> int:
    """Return how many words of a call belong to a manager of packages that starts the rest."""
    at = 0
    while at < len(words) and posixpath.basename(words[at]) in _MANAGERS:
        at += 1
        while at < len(words) and (words[at] in _MANAGER_WORDS or words[at].startswith("-")):
            at += 1
    return at


def add_options(command: str, name: str, options: str) -> str:
    """Have a command line that sets a variable of options itself begin it with more of them."""
    quoted = shlex.quote(f"{options} ")
    return re.sub(rf"(?<![\w$]){name}=", lambda found: found[0] + quoted, command)


def add_python_path(command: str, folder: str) -> str:
    """Have a command line that sets PYTHONPATH itself begin it with a folder."""
    return _PATH.sub(lambda found: found[0] + folder + ("" if found["empty"] is not None else ":"), command)
