"""The attempt of an agent that started the server itself: its folders, and what it misses there.

There the agent could as well do by hand what these tools do. The server over HTTP, which is ours, has none.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import RelativePath
from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.doors.mcp.engine_client import LARGEST, ToolRefusal
from agenttalk.rules.agents import results

_PATH: Final[TypeAdapter[str]] = TypeAdapter(RelativePath)


@dataclass(frozen=True, slots=True)
class OwnAttempt:
    """Where an attempt finds its inputs, and leaves what it made."""

    command: Path
    inputs: Path
    outputs: Path
    result: Path
    find_missing: Callable[[], list[str]] = list
    """Says what can be seen to be missing where the agent works."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], look: Callable[[], list[str]] = list) -> OwnAttempt | None:
        """Return the attempt that the environment variables name; None without an attempt."""
        names = ("COMMAND", "INPUTS", "OUTPUTS", "RESULT")
        found = [Path(environ.get(f"AGENTTALK_{name}", "")) for name in names]
        command, inputs, outputs, result = found
        return cls(command, inputs, outputs, result, look) if all(each.name for each in found) else None

    def describe_promise(self) -> dict[str, Any]:
        """Return what the task promises, and what is missing in the agent's folder. The engine checks for itself."""
        promise = self._command().promise
        told: dict[str, Any] = {}
        if promise is not None:
            criteria = [{"id": each.id, "description": each.description} for each in promise.acceptance]
            told = {
                "objective": promise.objective,
                "criteria": criteria,
                "checks": [each.id for each in promise.checks],
            }
        missing = self.find_missing()
        note = "This is how it looks where you work. The engine looks for itself when you have stopped."
        return {**told, "missing": missing, "note": note}

    def read_input(self, name: str, path: str) -> bytes:
        """Read a file of an input. Raises Refusal when there is no such file."""
        try:
            with (self.inputs / root_layout.path_segment(name) / _inside(path)).open("rb") as file:
                return file.read(LARGEST)
        except OSError as error:
            known = [f"{each.parent.name}/{each.name}" for each in self.inputs.glob("*/*")][:20]
            hint = f"there are: {', '.join(sorted(known))}" if known else "there are none"
            raise ToolRefusal(
                Code.NAME_UNKNOWN, f"there is no input {name[:80]!r} with a file {path[:200]!r}", hint=hint
            ) from error

    def write_output(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Put a file of an output where it is collected. Raises Refusal when the task has no such output."""
        name = str(given["output"])
        known = self._list_outputs()
        if name not in known:
            hint = f"its outputs: {', '.join(known) or 'none'}"
            raise ToolRefusal(Code.NAME_UNKNOWN, f"the task has no output {name[:80]!r}", hint=hint)
        data = _data(given)
        path = _inside(given.get("path") or name.rpartition("/")[2])
        alone = path == name.rpartition("/")[2]
        target = (
            self.outputs / root_layout.path_segment(name)
            if alone
            else self.outputs / root_layout.path_segment(name) / path
        )
        self._write(target, data)
        return {"output": name, "path": path, "sha256": wire.sha256(data), "size": len(data)}

    def write_result(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Write the result to the file that the engine reads. It counts when the agent has ended."""
        data = json.dumps(dict(said), ensure_ascii=False).encode()
        self._write(self.result, data)
        return {"written": True, "sha256": wire.sha256(data), "note": "it counts when you end your turn"}

    def _command(self) -> Command:
        try:
            return Command.from_json(wire.read(self.command.read_bytes()))
        except (OSError, AgentTalkError) as error:
            raise ToolRefusal(Code.FILE_UNREADABLE, f"the command of this attempt cannot be read: {error}") from error

    def _list_outputs(self) -> list[str]:
        command = self._command()
        return [*results.list_required_outputs(command), *(name for name, _ in results.list_possible_outputs(command))]

    @staticmethod
    def _write(target: Path, data: bytes) -> None:
        """Whole, or not at all."""
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(data)
            beside.replace(target)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise ToolRefusal(Code.FILE_UNREADABLE, f"{target.name!r} cannot be written: {error.strerror}") from error


def _data(given: Mapping[str, Any]) -> bytes:
    text, content = given.get("text"), given.get("content")
    if (text is None) == (content is None):
        raise ToolRefusal(Code.FIELD_VALUE, "a file has a text, or a content in base64", hint="give one of them")
    try:
        return str(text).encode() if text is not None else base64.b64decode(str(content), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolRefusal(Code.FIELD_VALUE, "the content is not base64") from error


def _inside(path: str) -> str:
    """Return a path inside an input or output. Raises Refusal for any other path."""
    try:
        safe = root_layout.is_safe_payload(_PATH.validate_python(path))
    except ValidationError:
        safe = False
    if not safe:
        raise ToolRefusal(Code.PATH_OUTSIDE_FOLDER, f"{path[:200]!r} is not a path inside it")
    return path
