"""The hooks by which `agenttalk prove` stands at a door: Claude Code's end of a turn, and git's push."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from agenttalk.contracts.errors import AgentTalkError, Code, MachineError, UsageError
from agenttalk.doors.cli.core.output import CommandOutput, sanitize

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenttalk.contracts.core.vocabulary import Locale
    from agenttalk.doors.cli.changes.change_session import ChangeRequest
    from agenttalk.rules.changes.change_report import ChangeReport

_LONGEST: Final = 1024 * 1024
_SESSIONS: Final = "prove-sessions"
_MOST_SESSIONS: Final = 200
PRE_PUSH: Final = """#!/bin/sh
# Installed by `agenttalk prove --install-hook pre-push`. Refuses to push what is not proven.
# Skip it once with `git push --no-verify`; remove it by deleting this file.
exec agenttalk prove --hook pre-push
"""


# Claude Code


@dataclass(slots=True)
class _StopRecord:
    """What the hook did in a session of a coding agent."""

    path: Path
    blocks: int = 0
    """How often it kept the agent from stopping since the last request of a person."""
    tree: str = ""
    """The tree that it let go at last."""
    start: str = ""
    """The commit on which the session began."""
    known: bool = False
    """Whether something is recorded."""

    @classmethod
    def read(cls, folder: Path, session: str) -> _StopRecord:
        name = hashlib.sha256(session.encode(errors="replace")).hexdigest()[:32]
        record = cls(folder / f"{name}.json")
        try:
            told = json.loads(record.path.read_bytes())
            record.blocks, record.tree, record.start = int(told["blocks"]), str(told["tree"]), str(told["start"])
            record.known = True
        except (OSError, ValueError, KeyError, TypeError):
            return record
        return record

    def write(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = sorted(self.path.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in known[:-_MOST_SESSIONS]:
            path.unlink(missing_ok=True)
        new = self.path.with_suffix(f".{os.getpid()}.new")
        new.write_text(json.dumps({"blocks": self.blocks, "tree": self.tree, "start": self.start}), encoding="utf-8")
        new.replace(self.path)


def _find_session(here: Path) -> tuple[dict[str, Any], Path, _StopRecord]:
    """Read what Claude Code tells: all of it, the folder of the session, and what is recorded about it."""
    from agenttalk.wiring.state_folder import find_state_folder

    told = _read_input()
    folder = told.get("cwd")
    if isinstance(folder, str) and Path(folder).is_dir():
        here = Path(folder)
    return told, here, _StopRecord.read(find_state_folder() / _SESSIONS, str(told.get("session_id", here)))


def note_start(here: Path) -> int:
    """Answer as Claude Code's SessionStart hook: record the commit on which the session began, once."""
    from agenttalk.adapters.workspaces import user_folder

    try:
        _, here, record = _find_session(here)
        if not record.known:
            record.start = user_folder.find_repository(here).head
            record.write()
    except AgentTalkError:
        return 0  # the hook at the end tells
    return 0


def answer_claude(here: Path, make_request: Callable[[], ChangeRequest], most: int, locale: Locale) -> int:
    """Answer as Claude Code's Stop hook: keep it from stopping with what is missing, at most so often in a row.

    What the agent cannot fix (no repository, no check, a fault of ours) is shown to the person and lets it stop.
    """
    from agenttalk.doors.cli.changes.change_session import NothingToProveError, open_session

    try:
        told, here, record = _find_session(here)
        request = make_request()
        if request.base is None and record.start:
            request = replace(request, base=record.start)
        if not told.get("stop_hook_active"):
            record.blocks = 0
        with open_session(here, request) as session:
            tree = session.tree
            if tree == record.tree:
                return 0  # it was let go with exactly this, and nothing has changed since
            report = session.prove(lambda _: None)
    except NothingToProveError:
        return 0
    except AgentTalkError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return _tell(f"agenttalk prove: the work was not checked: {error.message}{hint}")
    if report.proof.proven:
        record.tree = tree
        record.write()
        return _tell(f"agenttalk: {report.title}")
    if report.proof.unable:
        return _tell(f"agenttalk prove: the work was not checked: {report.proof.steps[0]}")
    if record.blocks >= most:
        record.tree = tree
        record.write()
        return _tell(f"agenttalk: {report.title}. It was asked {most} times and stopped: see 'agenttalk prove'.")
    record.blocks += 1
    record.write()
    typer.echo(json.dumps({"decision": "block", "reason": _explain(report, locale)}, ensure_ascii=False))
    return 0


def _tell(text: str) -> int:
    typer.echo(json.dumps({"systemMessage": text}, ensure_ascii=False))
    return 0


def _read_input() -> dict[str, Any]:
    if sys.stdin.isatty():
        return {}
    try:
        told = json.loads(sys.stdin.read(_LONGEST) or "{}")
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _explain(report: ChangeReport, locale: Locale) -> str:
    from agenttalk.rules.changes import change_report

    head = "The work is not proven yet, so do not stop. Fix the code, not the check:"
    return f"{head}\n\n{change_report.write_text(report, locale)}"


# git push


def answer_push(out: CommandOutput, here: Path, request: ChangeRequest, locale: Locale) -> int:
    """Answer as git's pre-push hook: prove each branch that is pushed against what the other side has."""
    from agenttalk.adapters.workspaces import user_folder
    from agenttalk.doors.cli.changes.change_session import NothingToProveError, prove_one
    from agenttalk.rules.changes import change_report

    code = 0
    for line in sys.stdin.read(_LONGEST).splitlines():
        parts = line.split(" ")
        if len(parts) != 4 or not parts[0].startswith("refs/heads/") or set(parts[1]) == {"0"}:
            continue  # a tag, or a branch that is removed
        name = parts[0].removeprefix("refs/heads/")
        theirs = "" if set(parts[3]) == {"0"} or not user_folder.has_commit(here, parts[3]) else parts[3]
        pushed = replace(request, head=parts[1], base=request.base or theirs or None, work=name)
        try:
            report = prove_one(here, pushed, lambda _: None)
        except NothingToProveError:
            continue
        out.say(sanitize(change_report.write_text(report, locale).rstrip()), err=True)
        if not report.proof.proven:
            out.say("[cyan]→[/] not pushed; fix it, or push without this check: git push --no-verify", err=True)
            code = 1
    return code


def install_pre_push(out: CommandOutput, here: Path) -> int:
    """Install the pre-push hook. An existing hook is never overwritten."""
    from agenttalk.adapters.workspaces import user_folder

    folder = user_folder.find_hooks_folder(here)
    path = folder / "pre-push"
    if path.exists() or path.is_symlink():
        if path.is_file() and path.read_text(encoding="utf-8", errors="replace") == PRE_PUSH:
            out.say(f"[green]✓[/] the hook is installed already: {sanitize(path)}")
            return 0
        message = f"there is a pre-push hook already: {path}"
        raise UsageError(
            Code.NAME_TAKEN, message, hint="add this line to it: agenttalk prove --hook pre-push || exit 1"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o755)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(PRE_PUSH)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise MachineError(Code.FILE_UNWRITABLE, message, hint="check the folder and its permissions") from error
    out.say(f"[green]✓[/] {sanitize(path)}: 'git push' refuses what is not proven")
    return 0
