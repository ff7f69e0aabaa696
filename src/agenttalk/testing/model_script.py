"""Scripts for a model, answer by answer: it writes files, runs commands, calls tools, and answers with texts.

A script is a list of steps. The conversation alone determines the next one: its number of answers is the number of
steps that are done. So retries, requests beside the conversation and resumed sessions change nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

WRITERS: Final = ("Write", "write", "write_file", "create_file")
SHELLS: Final = ("Bash", "bash", "run_shell_command", "shell_command", "exec_command", "shell")
_PATHS: Final = frozenset({"file_path", "filePath", "path", "absolute_path"})
_CONTENTS: Final = frozenset({"content", "contents", "text"})
_FOLDERS: Final = (
    re.compile(r"[Ww]orking directory:? `?(/[^\s`<\\]+)"),
    re.compile(r"<cwd>(/.*?)</cwd>"),
    re.compile(r"Workspace Directories\*\*:?\s*- (/[^\s`<\\]+)"),
    re.compile(r"directories:\s*- (/[^\s`<\\]+)"),
    re.compile(r"in the directory: (/[^\s`<\\]+)"),
)
"""The ways in which coding agents name their working folder to a model."""


@dataclass(frozen=True, slots=True)
class SayStep:
    """It ends its turn with a text."""

    text: str


@dataclass(frozen=True, slots=True)
class WriteStep:
    """It writes a file, with the tool for that or else by a command."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class ShellStep:
    """It runs a command."""

    command: str


@dataclass(frozen=True, slots=True)
class CallStep:
    """It calls a tool by its name, or by how its name ends (`mcp__server__tool`)."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RefuseStep:
    """The service itself answers with an error."""

    status: int = 400
    message: str = "the scripted model refuses"
    retry_after: float | None = None
    """Seconds after which it wants to be asked again."""
    error: Mapping[str, Any] = field(default_factory=dict)
    """The fields of the error beside its message, instead of the usual ones: e.g. the `type` of a limit."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """More headers of the answer."""


@dataclass(frozen=True, slots=True)
class GarbageAnswer:
    """The service sends an answer in a wrong format."""

    data: bytes = b"<html>It works!</html>"


ScriptStep: TypeAlias = SayStep | WriteStep | ShellStep | CallStep | RefuseStep
ModelFault: TypeAlias = RefuseStep | GarbageAnswer
"""A fault that replaces the next step."""
Script: TypeAlias = Sequence[ScriptStep]


def behaves(files: Mapping[str, str], says: str = "Done. The files are written.") -> Script:
    """Writes files and says so."""
    return [*(WriteStep(path, text) for path, text in files.items()), SayStep(says)]


def lies(says: str = "Done. I wrote it, and all tests pass.") -> Script:
    """Script a model that does nothing, and claims success."""
    return [SayStep(says)]


def loops(command: str = "true") -> Script:
    """Runs the same command endlessly: the last step of a script is repeated."""
    return [ShellStep(command)]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The content of a request, in one form for all services."""

    tools: Mapping[str, Mapping[str, Any]]
    """Name → schema of its arguments."""
    answered: int
    """Answers that the model gave before."""
    text: str
    """All messages of the conversation."""
    streams: bool = False
    model: str = "scripted"
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Tool → the group that it was offered in."""


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """The answer of the model: a text, or one call of a tool."""

    text: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


def next_step(script: Script, talk: Conversation, *, tools: bool = True) -> ScriptStep:
    """Return the next step. A request without tools is beside the conversation, e.g. for a title.

    Without `tools`, the agent is one that has none: then everything is the conversation.
    """
    if tools and not talk.tools:
        return next((each for each in script if isinstance(each, RefuseStep)), SayStep("A task"))
    return script[min(talk.answered, len(script) - 1)]


def make_reply(step: SayStep | WriteStep | ShellStep | CallStep, talk: Conversation) -> ScriptedReply:
    """Make the reply that performs a step with the tools that are offered."""
    match step:
        case SayStep(text):
            return ScriptedReply(text=text)
        case CallStep(tool, arguments):
            name = next((each for each in talk.tools if each == tool or each.endswith(f"_{tool}")), None)
            return (
                ScriptedReply(tool=name, arguments=arguments) if name else ScriptedReply(text=f"I have no tool {tool}.")
            )
        case WriteStep(path, text):
            return _writing(path, text, talk)
        case ShellStep(command):
            return _running(command, talk)


def _writing(path: str, text: str, talk: Conversation) -> ScriptedReply:
    name = next((each for each in WRITERS if each in talk.tools), None)
    if name is None:
        folder = path.rpartition("/")[0] or "."
        return _running(f"mkdir -p {shlex.quote(folder)} && printf %s {shlex.quote(text)} > {shlex.quote(path)}", talk)
    folder = folder_of(talk.text)
    where = path if path.startswith("/") or not folder else f"{folder}/{path}"
    wanted = _wanted(talk.tools[name]) or ("file_path", "content")
    given = {key: where for key in wanted if key in _PATHS} | {key: text for key in wanted if key in _CONTENTS}
    return ScriptedReply(tool=name, arguments=given)


def _running(command: str, talk: Conversation) -> ScriptedReply:
    name = next((each for each in SHELLS if each in talk.tools), None)
    if name is None:
        return ScriptedReply(text="I have no shell.")
    wanted = _wanted(talk.tools[name])
    given: dict[str, Any] = {"cmd" if "cmd" in wanted else "command": command}
    if name == "shell":
        given = {"command": ["bash", "-lc", command]}
    if "description" in wanted:
        given["description"] = "run a command"
    if "is_background" in wanted:
        given["is_background"] = False
    return ScriptedReply(tool=name, arguments=given)


def _wanted(schema: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(schema.get("properties") or ())


def folder_of(text: str) -> str:
    """Find the agent's working folder in the text it sent to the model; empty when it named none."""
    found = (pattern.search(text) for pattern in _FOLDERS)
    return next((match[1].rstrip("/.,") for match in found if match), "")


_RENAMED: Final = {
    "Call": "CallStep",
    "Fault": "ModelFault",
    "Garbage": "GarbageAnswer",
    "Refuse": "RefuseStep",
    "Reply": "ScriptedReply",
    "Say": "SayStep",
    "Shell": "ShellStep",
    "Step": "ScriptStep",
    "Write": "WriteStep",
}


def __getattr__(name: str) -> object:
    now = f": it is called {_RENAMED[name]} now" if name in _RENAMED else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{now}")
