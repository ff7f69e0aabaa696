"""Finds the inputs of a command, and decides what to do while some are missing.

It searches two places only: the archive in the agent's workspace, and the task's own folder. The caller passes both in
as relative paths, e.g. `requirements/requirements.md/v1.md`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from agenttalk.contracts.command import Command
from agenttalk.rules.core.globs import match_names

_GLOB_MARKS = frozenset("*?[")

Step = Literal["run", "wait", "ask"]


@dataclass(frozen=True, slots=True)
class InputResolution:
    """The files of each input that a command names, and the inputs that are missing."""

    found: dict[str, tuple[str, ...]]
    missing: tuple[str, ...]


class InboxFiles:
    """The files that an agent has, by path and by name."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(paths)
        self._known = frozenset(self._paths)
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for path in self._paths:
            self._by_name[path.rpartition("/")[2]].append(path)

    def find_exact(self, path: str) -> tuple[str, ...]:
        """Find the file with exactly this path. A `*` or `?` in it is part of the name."""
        return (path,) if path in self._known else ()

    def find(self, wanted: str) -> tuple[str, ...]:
        """Find the files that match a name, path or glob. Without a slash only the name of the file is compared."""
        if not _GLOB_MARKS.isdisjoint(wanted):
            if "/" in wanted:
                return tuple(match_names(wanted, self._paths))
            return tuple(sorted(path for name in match_names(wanted, self._by_name) for path in self._by_name[name]))
        name = wanted.rpartition("/")[2]
        return tuple(path for path in self._by_name.get(name, ()) if path == wanted or path.endswith(f"/{wanted}"))


def resolve(command: Command, shelf: InboxFiles) -> InputResolution:
    """Find each input of a command. If it has `resolved_inputs`, only they count. Optional ones are never missing."""
    found: dict[str, tuple[str, ...]] = {}
    missing: list[str] = []
    if command.resolved_inputs is not None:
        for need in command.resolved_inputs:
            parts = [shelf.find_exact(path) or shelf.find(path) for path in need.paths]
            found[need.input_name] = tuple(dict.fromkeys(path for part in parts for path in part))
            if need.required:
                missing += [path for path, part in zip(need.paths, parts, strict=True) if not part]
    else:
        for wanted in command.required_inputs:
            found[wanted] = shelf.find(wanted)
            missing += [] if found[wanted] else [wanted]
    return InputResolution(found, tuple(dict.fromkeys(missing)))


def map_input_paths(paths: Iterable[str]) -> dict[str, str]:
    """Map the paths `task/output/file` of one input to paths within the input's folder: without task and output.

    If two of them would collide there, each keeps its whole path, so that no file replaces another.
    """
    names = {path: path.split("/", 2)[-1] for path in paths}
    taken = set(names.values())
    apart = len(taken) < len(names) or any(not taken.isdisjoint(_folders(name)) for name in taken)
    return {path: path for path in names} if apart else names


def _folders(path: str) -> list[str]:
    """Return the folders on the way to a file."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def next_step(command: Command, resolution: InputResolution, *, waiting_since: datetime, now: datetime) -> Step:
    """Decide what to do with a command: run it, wait for its inputs, or ask a person because it waited too long.

    A clock that jumps backwards makes it wait longer. Without `wait_for_inputs` it runs with inputs missing, and the
    prompt names them.
    """
    if not resolution.missing or not command.wait_for_inputs:
        return "run"
    return "ask" if now - waiting_since > timedelta(seconds=min(command.timeout, 10**9)) else "wait"
