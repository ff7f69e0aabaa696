"""What an agent of the Agent Client Protocol says of a call of a tool: what it is for, and whether the tool is ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from acp import schema

from agenttalk.rules.agents.events import describe_arguments
from agenttalk.rules.agents.permissions import ToolRequest

_OURS: Final = re.compile(r"(?:mcp__agenttalk__|agenttalk_)(\w{1,80})|(\w{1,80}) \(agenttalk MCP Server\)")
"""How agents name the tools of our MCP server."""


def read_tool_call(call: schema.ToolCall | schema.ToolCallUpdate, known: ToolRequest) -> ToolRequest:
    """What a tool is called for, by what is known and what is said now."""
    kind = call.kind or known.kind
    said = _command(call.raw_input) if kind == "execute" else ""
    said = said or (describe_arguments(call.raw_input) if kind != "execute" else "") or call.title or known.about
    return ToolRequest(kind, said.replace("\0", "\ufffd"), tuple(dict.fromkeys((*known.paths, *_paths(call)))))


def read_meta(said: object, *keys: str) -> dict[str, Any]:
    """What an agent tells beside the protocol, if it does. Qwen Code and Gemini CLI tell there what they used."""
    for key in keys:
        said = said.get(key) if isinstance(said, dict) else None
    return said if isinstance(said, dict) else {}


def _command(given: object) -> str:
    """The line that a shell is to run: also when the shell itself is named, as some do."""
    said = given.get("command", given.get("cmd")) if isinstance(given, dict) else None
    if isinstance(said, list):
        words = [str(each) for each in said]
        shell = len(words) == 3 and words[0].rpartition("/")[2] in {"sh", "bash", "zsh"} and words[1] in {"-c", "-lc"}
        return words[2] if shell else " ".join(words)
    return said if isinstance(said, str) else ""


def find_own_tool(call: schema.ToolCall | schema.ToolCallUpdate) -> str:
    """The tool of our MCP server that is called, by what the agent itself says of it, and not its model."""
    meta, given = call.field_meta or {}, call.raw_input
    named = read_meta(meta, "claudeCode").get("toolName") or meta.get("toolName")
    if meta.get("is_mcp_tool_call") is True and isinstance(given, dict) and given.get("server") == "agenttalk":
        named = f"mcp__agenttalk__{given.get('tool')}"
    if named is None and call.kind == "other":
        named = call.title
    found = _OURS.fullmatch(named) if isinstance(named, str) else None
    return found[found.lastindex or 0] if found else ""


def read_own_call(call: schema.ToolCall | schema.ToolCallUpdate, tool: str, known: ToolRequest) -> ToolRequest:
    """A call of it. Paths in it are names of inputs and outputs, which the tool looks after."""
    given = call.raw_input
    inner = given.get("arguments", given) if isinstance(given, dict) else {}
    said = f"agenttalk {tool} {describe_arguments(inner)}".replace("\0", "\ufffd").strip()
    return ToolRequest("other", said if inner or not known.about else known.about, (), tool)


def _paths(call: schema.ToolCall | schema.ToolCallUpdate) -> Iterator[str]:
    """Files that a call names."""
    for place in call.locations or ():
        yield place.path
    for part in call.content or ():
        if isinstance(part, schema.FileEditToolCallContent):
            yield part.path
    if isinstance(call.raw_input, dict):
        for key in ("file_path", "filePath", "path", "abs_path"):
            if isinstance(said := call.raw_input.get(key), str) and said:
                yield said
