"""Finds what an agent's own attempt still lacks before it stops: missing outputs, and checks that fail where it works.

This runs as the agent, in its sandbox, and only the agent sees the result. None of it is evidence: the engine checks by
itself afterwards.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.errors import AgentTalkError, Code, JsonError, UsageError
from agenttalk.contracts.promise import AnyCheck, FileCheck, JsonCheck, RunCheck, TestsCheck
from agenttalk.rules.text import answer_words

BLOCKS: Final = 2
"""How often an agent is kept from stopping."""
_SECONDS: Final = 300.0
_TAIL: Final = 1_500
_LARGEST: Final = 64 * 1024 * 1024
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "HOME", "TMPDIR")


@dataclass(frozen=True, slots=True)
class LocalAttempt:
    """The places of an attempt, from its environment variables."""

    command: Command
    base: Path
    outputs: Path
    cwd: Path
    environ: Mapping[str, str]

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], cwd: Path) -> LocalAttempt:
        """Return the attempt of this process. Raises UsageError when there is none."""
        file = environ.get("AGENTTALK_COMMAND", "")
        if not file:
            raise UsageError(
                Code.FIELD_MISSING,
                "no promise was named, and this process does not belong to an attempt",
                hint="name FILE",
            )
        try:
            command = Command.from_bytes(Path(file).read_bytes())
        except OSError as error:
            raise UsageError(Code.FILE_UNREADABLE, f"cannot read {file}: {error.strerror}") from error
        return cls(command, Path(file).parent, Path(environ.get("AGENTTALK_OUTPUTS", file)), cwd, environ)

    def find_missing(self) -> list[str]:
        """Return everything that seems to be missing."""
        return [*self._outputs(), *self._checks()]

    def count_block(self) -> bool:
        """Count an attempt to stop. Returns whether the agent was kept from stopping often enough."""
        counter = self.base / "stops"
        try:
            count = len(counter.read_bytes()) if counter.exists() else 0
            counter.write_bytes(b"." * (count + 1))
        except OSError:
            return True
        return count >= BLOCKS

    def _outputs(self) -> Iterator[str]:
        for output in self.command.produces or ():
            name = output.output_name
            spelt = [self.outputs / name, self.outputs / root_layout.path_segment(name), self.cwd / name]
            files = [self.cwd / file.path for file in output.files]
            if not any(path.exists() for path in spelt) and not (files and all(path.exists() for path in files)):
                yield answer_words.OUTPUT_NOT_PUT(name=name, folder=self.outputs)

    def _checks(self) -> Iterator[str]:
        promise = self.command.promise
        checks = [check for check in promise.checks if not check.files] if promise else []
        if not checks:
            return
        with tempfile.TemporaryDirectory(prefix="agenttalk-look-") as folder:
            copy = Path(folder) / "tree"  # files that a check creates must not end up in the work
            try:
                shutil.copytree(self.cwd, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", ".agenttalk"))
            except (OSError, shutil.Error):
                return
            for check in checks:
                why = self._find_fault(check, copy)
                if why:
                    yield answer_words.CHECK_FAILS(name=check.id, why=why)

    def _find_fault(self, check: AnyCheck, copy: Path) -> str:
        """Return why a check fails here; empty if it passes, or if only the engine can run it."""
        if isinstance(check, RunCheck | TestsCheck):
            return self._run_check(check, copy)
        if isinstance(check, FileCheck | JsonCheck):
            return _inspect_file(check, copy)
        return ""

    def _run_check(self, check: RunCheck | TestsCheck, copy: Path) -> str:
        env = {name: self.environ[name] for name in _KEPT if name in self.environ} | (check.env or {})
        seconds = min(_SECONDS, check.timeout or _SECONDS)
        try:
            with subprocess.Popen(  # noqa: S603 - the command of the promise, as the engine will run it
                ["/bin/sh", "-c", check.run],
                cwd=copy / (check.cwd or "."),
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process:
                try:
                    printed, _ = process.communicate(timeout=seconds)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    return answer_words.TOOK_LONGER(command=check.run, seconds=seconds)
        except OSError as error:
            return answer_words.CANNOT_RUN(command=check.run, error=error.strerror)
        if process.returncode == 0:
            return ""
        output = printed.decode(errors="replace").strip()[-_TAIL:]
        ended = answer_words.COMMAND_ENDED_SAYING if output else answer_words.COMMAND_ENDED
        return ended(command=check.run, code=process.returncode, text=output)


def _inspect_file(check: FileCheck | JsonCheck, copy: Path) -> str:
    try:
        data = (copy / check.path).read_bytes()
    except OSError:
        return answer_words.FILE_NOT_THERE(path=check.path)
    if isinstance(check, FileCheck):
        if check.contains is not None and check.contains.encode() not in data:
            return answer_words.FILE_HOLDS_NOT(path=check.path, text=check.contains[:80])
        return answer_words.FILE_TOO_SMALL(path=check.path) if len(data) < (check.min_bytes or 0) else ""
    try:
        wire.read(data, limit=_LARGEST)
    except JsonError as error:
        return answer_words.FILE_NO_JSON(path=check.path, error=error.message)
    return ""


def read_own_attempt() -> LocalAttempt:
    """Return the attempt of this process. Raises UsageError when there is none, or it cannot be read."""
    try:
        return LocalAttempt.from_environ(os.environ, Path.cwd())
    except UsageError:
        raise
    except AgentTalkError as error:
        raise UsageError(error.code, f"the command of this attempt cannot be read: {error.message}") from error
