"""One run of a suite over the boundary: the judge with the tests in one sandbox, the worker with the work in another.

The judge gets a tree of its own at the checkout's path, which holds the protected files and nothing else of the work.
The worker gets the checkout, read-only, without tests, files of checks and `.git`. Both see a folder with the programs
of the boundary, and one for temporary files of tests; only the judge can write where the outcomes are.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from agenttalk.adapters.checking.boundary import import_hook, runner_hooks
from agenttalk.adapters.checking.command import (
    CheckContext,
    CommandOutcome,
    CommandRunner,
    ShellCommand,
    find_place,
    make_run_folder,
)
from agenttalk.adapters.program_files import list_named_programs
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.ports.agents import BindMount
from agenttalk.ports.folders import Folder
from agenttalk.rules.checks import test_runners
from agenttalk.rules.suites.crossing import CandidateTests, CrossedTests
from agenttalk.rules.text import check_words

_PROGRAMS: Final = Path(__file__).parent / "boundary"
_PACKAGE: Final = "_boundary"
_LONGEST_WHY: Final = 300
_MOST_HIDDEN: Final = 250
"""Mounts that hide tests from the worker, at most."""
_SHARED: Final = Path("/tmp/shared")  # noqa: S108 - the sandbox's own
_WAIT: Final = 'while [ ! -s "$0/python" ]; do sleep 0.02; done; exec "$(cat "$0/python")" -I -B "$1" "$0" "$2"'
_START: Final = """import sys
sys.path.insert(0, {folder!r})
from {package}.worker import main
main({door!r}, {root!r}, "own")
"""
_SITE: Final = """from {package} import import_hook
import_hook.install({place!r}, {root!r})
"""


class BoundaryRefusedError(Exception):
    """A suite cannot be run over the boundary here. The message says why."""


class BoundaryRun:
    """A suite that is about to run over the boundary."""

    def __init__(self, folder: Path, root: Path, judge: Path) -> None:
        self.judge = judge
        """The tree that the judge sees at the place of the checkout."""
        self._folder = folder
        self._root = root
        self._place = folder / "place"
        self.fault = ""
        """Why the worker has ended before the judge; empty if it has not."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        runner: CommandRunner,
        command: ShellCommand,
        checkout: Folder,
        context: CheckContext,
        protected: Collection[str],
        chosen: CandidateTests | None = None,
        brought: Collection[str] = (),
    ) -> AsyncIterator[BoundaryRun]:
        """Start the worker for a command. `chosen` are the tests to run; None for all. Raises BoundaryRefusedError.

        `brought` are the protected files that the check brings itself: they are tests under any name.
        """
        made = await asyncio.to_thread(make_run_folder, context.temporary)
        try:
            root = await asyncio.to_thread(find_place, command, context)
            run = cls(made.path, root, made.path / "judge")
            hidden = await asyncio.to_thread(run._lay_out, checkout, tuple(protected), chosen, frozenset(brought))
            worker = asyncio.ensure_future(
                runner.run(run._make_worker(command, hidden, context.path), replace(context, progress=None))
            )
            worker.add_done_callback(run._note_end)
            try:
                yield run
            finally:
                worker.cancel()
                with suppress(asyncio.CancelledError, AgentTalkError):
                    await worker
        finally:
            await asyncio.to_thread(made.remove)

    def _note_end(self, worker: asyncio.Future[CommandOutcome]) -> None:
        """Tell the judge that the worker has failed, and why."""
        if worker.cancelled():
            return
        failure = worker.exception()
        if failure is None:
            done = worker.result()
            if done.ran.how == "finished" and done.ran.exit_code == 0:
                return
            printed = done.tail.strip().splitlines()
            self.fault = printed[-1] if printed else done.ran.error or f"{done.ran.how} {done.ran.exit_code}"
        else:
            self.fault = str(failure)
        self.fault = self.fault[-_LONGEST_WHY:]
        with suppress(OSError):
            new = self._place / f"{import_hook.ENDED}.new"
            new.write_text(self.fault, encoding="utf-8")
            new.rename(self._place / import_hook.ENDED)

    def prepare(self, command: ShellCommand) -> ShellCommand:
        """Return the command as the judge runs it."""
        given = dict(command.env or {})
        programs = str(self._folder / "programs")
        given["PYTHONPATH"] = ":".join(filter(None, [programs, given.get("PYTHONPATH", "")]))
        given["PYTEST_PLUGINS"] = ",".join(filter(None, [given.get("PYTEST_PLUGINS", ""), f"{_PACKAGE}.pytest_plugin"]))
        given |= {"TMPDIR": str(_SHARED), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}
        return replace(
            command,
            env=given,
            kept=(),
            shown=(*command.shown, self._folder / "programs"),
            written=(self._place,),
            binds=(BindMount(self.judge, self._root, writable=True), self._share()),
        )

    def read_tests(self, limit: int) -> CrossedTests | None:
        """Return how the tests ended; None if the judge wrote nothing."""
        path = self._place / runner_hooks.OUTCOMES
        try:
            data = path.read_bytes() if path.stat().st_size <= limit else b""
            said = json.loads(data)
            tests, reasons, broken = said["tests"], said["reasons"], said["broken"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        by = {
            outcome: frozenset(name for name, each in tests.items() if each == outcome)
            for outcome in set(tests.values())
        }
        passed = by.get("passed", frozenset())
        return CrossedTests(
            passed, frozenset(tests) - passed, dict(reasons), frozenset(broken), said.get("whole") is True
        )

    def read_report(self, path: str, limit: int) -> bytes | None:
        """Return the report that the judge's runner wrote; None if there is none. No work could write there."""
        place = self.judge / path
        if place.is_symlink() or not place.is_file() or place.stat().st_size > limit:
            return None
        return place.read_bytes()

    def _lay_out(
        self, checkout: Folder, protected: tuple[str, ...], chosen: CandidateTests | None, brought: frozenset[str]
    ) -> list[str]:
        """Lay out what both sides see. Returns the paths that are hidden from the worker."""
        for name in ("programs", "place", "judge", "shared", "nothing"):
            (self._folder / name).mkdir()
        (self._folder / "empty").touch()
        shutil.copytree(_PROGRAMS, self._folder / "programs" / _PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        details = {"package": _PACKAGE, "place": str(self._place), "root": str(self._root)}
        details |= {"folder": str(self._folder / "programs"), "door": str(self._place / import_hook.DOOR)}
        (self._folder / "programs" / "sitecustomize.py").write_text(_SITE.format(**details), encoding="utf-8")
        (self._folder / "programs" / "start.py").write_text(_START.format(**details), encoding="utf-8")
        if chosen is not None:
            (self._place / runner_hooks.CHOSEN).write_text(
                json.dumps({"crossed": sorted(chosen.crossed), "allowed": sorted(chosen.allowed)}), encoding="utf-8"
            )
        shown = (path for path in protected if path in brought or is_shown(path))
        files = [path for path in shown if os.path.lexists(checkout.path / path)]
        for path in files:
            self._copy(checkout, path)
        for folder in {above for path in files for above in Path(path).parents if above.name}:
            own = self.judge / folder / "__init__.py"
            if not own.exists() and (checkout.path / folder / "__init__.py").is_file():
                own.write_bytes(import_hook.PLACEHOLDER)
        return _list_hidden(checkout.path, files, brought)

    def _copy(self, checkout: Folder, path: str) -> None:
        source = checkout.path / path
        if not source.is_file() or source.is_symlink():
            return
        place = self.judge / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place)
        place.chmod(source.stat().st_mode & 0o755 | 0o600)

    def _share(self) -> BindMount:
        return BindMount(self._folder / "shared", _SHARED, writable=True)

    def _make_worker(self, command: ShellCommand, hidden: Iterable[str], path: str) -> ShellCommand:
        """Make the command that runs the worker: nothing of the checkout is writable, and no test can be seen.

        It shows the programs that the judge's command names: the judge's Python starts the worker, too.
        """
        nothing, empty = self._folder / "nothing", self._folder / "empty"
        covers = [
            BindMount(nothing if (command.checkout / path).is_dir() else empty, self._root / path) for path in hidden
        ]
        start = self._folder / "programs" / "start.py"
        words = "exec " + shlex.join(["sh", "-c", _WAIT, str(self._place), str(start), str(self._root)])
        return replace(
            command,
            run=words,
            env={},
            kept=(),
            read_only=True,
            shown=(*command.shown, self._folder / "programs", self._place, *list_named_programs(command.run, path)),
            binds=(*covers, self._share()),
        )


def is_shown(path: str) -> bool:
    """Whether the judge sees a protected file: tests, and what decides how they run, but no code of the work."""
    return test_runners.is_test(path) or not path.endswith(".py") or path.rpartition("/")[2] == "conftest.py"


def _list_hidden(top: Path, tests: Iterable[str], brought: Collection[str]) -> list[str]:
    """List what is hidden from the worker: folders of tests as a whole, other test files one by one."""
    hidden: dict[str, None] = {}
    for path in tests:
        if not test_runners.is_test(path):
            if path in brought and (top / path).is_file():
                hidden[path] = None
            continue
        parts = path.split("/")
        at = next((end for end in range(1, len(parts)) if test_runners.is_test(f"{'/'.join(parts[:end])}/x")), 0)
        hidden["/".join(parts[:at]) if at else path] = None
    if os.path.lexists(top / ".git"):
        hidden[".git"] = None
    if len(hidden) > _MOST_HIDDEN:
        raise BoundaryRefusedError(check_words.BOUNDARY_TOO_MANY(count=len(hidden)))
    for path in hidden:
        here = top
        for part in path.split("/"):
            here /= part
            if here.is_symlink():
                raise BoundaryRefusedError(check_words.BOUNDARY_LINK(path=path))
    return list(hidden)


@cache
def hash_programs() -> str:
    """Hash the programs of the boundary: with others a result may be another one."""
    files = sorted(_PROGRAMS.glob("*.py"))
    return wire.sha256(b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in files))
