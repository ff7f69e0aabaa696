"""Tool calls and texts of an agent of the Agent Client Protocol: what a call is for, and whether the tool is ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from acp import schema

from agenttalk.rules.agents.events import AgentEvent, describe_arguments
from agenttalk.rules.agents.permissions import ToolRequest

_OURS: Final = re.compile(r"(?:mcp__agenttalk__|agenttalk_)(\w{1,80})|(\w{1,80}) \(agenttalk MCP Server\)")
"""How agents name the tools of our MCP server."""
_REMEMBERED: Final = 1_000
"""Tool calls that are remembered."""
_CHUNKS: Final = 20_000
"""Chunks of one text that are kept."""


class AcpReports:
    """Holds tool calls and texts back until they are complete, and then reports each once.

    An agent sends a text in chunks, and a tool call in several messages, of which the later ones say what changes.
    """

    def __init__(self, *, has_servers: bool) -> None:
        """`has_servers` says whether the agent was given our MCP server."""
        self._has_servers = has_servers
        self._chunks: list[str] = []
        self._calls: dict[str, ToolRequest] = {}
        self._unreported: set[str] = set()

    def add_text(self, chunk: str) -> None:
        """Add a chunk of a text."""
        if len(self._chunks) < _CHUNKS:
            self._chunks.append(chunk.replace("\0", "\ufffd"))

    def add_call(self, call: schema.ToolCallStart | schema.ToolCallProgress) -> Iterator[AgentEvent]:
        """Add a message about a tool call, and report the call as soon as its purpose is known."""
        number = call.tool_call_id
        if number not in self._calls:
            self._unreported.add(number)
        self._calls[number] = self._read_call(call)
        if len(self._calls) > _REMEMBERED:
            oldest = next(iter(self._calls))
            yield from self.flush_calls(oldest)
            del self._calls[oldest]
        if call.raw_input or call.locations or call.status in {"completed", "failed"}:
            yield from self.flush_calls(number)

    def read_permission_request(self, call: schema.ToolCallUpdate) -> ToolRequest:
        """Read what the agent asks permission for."""
        request = self._read_call(call, for_permission=True)
        if call.tool_call_id in self._calls:
            self._calls[call.tool_call_id] = request
        return request

    def flush(self) -> Iterator[AgentEvent]:
        """Report everything that was held back."""
        yield from self.flush_calls(*(number for number in self._calls if number in self._unreported))
        yield from self.flush_text()

    def flush_calls(self, *numbers: str) -> Iterator[AgentEvent]:
        """Report tool calls that were not reported before."""
        for number in numbers:
            if number in self._unreported:
                self._unreported.discard(number)
                request = self._calls[number]
                file = request.paths[0] if request.paths else ""
                yield AgentEvent("tool", request.about or ", ".join(request.paths), request.kind, file=file)

    def flush_text(self) -> Iterator[AgentEvent]:
        """Report the text so far."""
        text = "".join(self._chunks)
        self._chunks.clear()
        if text.strip():
            yield AgentEvent("text", text)

    def _read_call(self, call: schema.ToolCall | schema.ToolCallUpdate, *, for_permission: bool = False) -> ToolRequest:
        known = self._calls.get(call.tool_call_id, ToolRequest("other", ""))
        tool = _find_own_tool(call) if self._has_servers else ""
        # A permission request must name our tool itself: else an earlier message could lend it our tool's rights.
        if tool or (known.tool and not for_permission):
            return _read_own_call(call, tool or known.tool, known)
        return _read_tool_call(call, known)


def read_meta(data: object, *keys: str) -> dict[str, Any]:
    """Read an object of the `_meta` field, where Qwen Code and Gemini CLI report their usage; empty without it."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _read_tool_call(call: schema.ToolCall | schema.ToolCallUpdate, known: ToolRequest) -> ToolRequest:
    """Read what a tool is called for, from what is known and this message."""
    kind = call.kind or known.kind
    about = _read_command(call.raw_input) if kind == "execute" else describe_arguments(call.raw_input)
    about = about or call.title or known.about
    return ToolRequest(kind, about.replace("\0", "\ufffd"), tuple(dict.fromkeys((*known.paths, *_list_paths(call)))))


def _read_command(arguments: object) -> str:
    """Read the line that a shell is to run, also from `[sh, -c, line]`, as some agents write it."""
    command = arguments.get("command", arguments.get("cmd")) if isinstance(arguments, dict) else None
    if isinstance(command, list):
        match [str(word) for word in command]:
            case [shell, "-c" | "-lc", line] if shell.rpartition("/")[2] in {"sh", "bash", "zsh"}:
                return line
            case words:
                return " ".join(words)
    return command if isinstance(command, str) else ""


def _find_own_tool(call: schema.ToolCall | schema.ToolCallUpdate) -> str:
    """Find which tool of our MCP server is called, from fields that the agent writes and not its model."""
    meta, arguments = call.field_meta or {}, call.raw_input
    name = read_meta(meta, "claudeCode").get("toolName") or meta.get("toolName")
    if meta.get("is_mcp_tool_call") is True and isinstance(arguments, dict) and arguments.get("server") == "agenttalk":
        name = f"mcp__agenttalk__{arguments.get('tool')}"
    if name is None and call.kind == "other":
        name = call.title
    match = _OURS.fullmatch(name) if isinstance(name, str) else None
    return match[match.lastindex or 0] if match else ""


def _read_own_call(call: schema.ToolCall | schema.ToolCallUpdate, tool: str, known: ToolRequest) -> ToolRequest:
    """Read a call of our tool. Its paths are names of inputs and outputs, which the tool itself checks."""
    arguments = call.raw_input
    inner = arguments.get("arguments", arguments) if isinstance(arguments, dict) else {}
    about = f"agenttalk {tool} {describe_arguments(inner)}".replace("\0", "\ufffd").strip()
    return ToolRequest("other", about if inner or not known.about else known.about, (), tool)


def _list_paths(call: schema.ToolCall | schema.ToolCallUpdate) -> Iterator[str]:
    for location in call.locations or ():
        yield location.path
    for part in call.content or ():
        if isinstance(part, schema.FileEditToolCallContent):
            yield part.path
    if isinstance(call.raw_input, dict):
        for key in ("file_path", "filePath", "path", "abs_path"):
            if isinstance(path := call.raw_input.get(key), str) and path:
                yield path
