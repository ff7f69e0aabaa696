"""Which test runner a command line calls, where it plainly calls one."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Runner = Literal["pytest"]
"""Runners that report over the engine's channel."""

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
_NO_RUN: Final = frozenset({"--version", "-V", "--help", "-h", "--collect-only", "--co", "--fixtures", "--markers"})
"""Options of pytest with which it runs no test."""
_PATH: Final = re.compile(r"(?<![\w$])PYTHONPATH=(?P<empty>(?=[\s;&|]|\Z))?")


class RunnerCall(NamedTuple):
    """A plain call of a test runner."""

    runner: Runner
    words: tuple[str, ...]
    """The command line as words."""
    start: int
    """How many of them start the runner. What follows are its own arguments."""


def split_simple(command: str) -> tuple[str, ...]:
    """Split a command line that is one call of a program; empty for any other."""
    if _OPERATORS.search(command):
        return ()
    try:
        words = shlex.split(command)
    except ValueError:
        return ()
    while words and _ASSIGNMENT.match(words[0]):
        words.pop(0)
    return tuple(words)


def find_call(command: str) -> RunnerCall | None:
    """Find the runner that a command line plainly calls, in a way in which it can report over the channel."""
    words = split_simple(_LED.sub("", command, count=1))
    start = _skip_manager(words)
    if start < len(words) and _PYTHON.match(posixpath.basename(words[start])):
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
        return RunnerCall("pytest", words, start + 1)
    return None


def _skip_manager(words: Sequence[str]) -> int:
    """Return how many words of a call belong to a manager of packages that starts the rest."""
    at = 0
    while at < len(words) and posixpath.basename(words[at]) in _MANAGERS:
        at += 1
        while at < len(words) and (words[at] in _MANAGER_WORDS or words[at].startswith("-")):
            at += 1
    return at


def add_python_path(command: str, folder: str) -> str:
    """Have a command line that sets PYTHONPATH itself begin it with a folder."""
    return _PATH.sub(lambda found: found[0] + folder + ("" if found["empty"] is not None else ":"), command)
