"""What a tool is: who sees it, what it takes, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from agenttalk.doors.mcp.tool_call import Arguments, ToolCall

Work: TypeAlias = "Callable[[ToolCall], Awaitable[Any]]"
AGENT: Final = frozenset({"agent"})
REMOTE: Final = frozenset({"remote"})
AGENTS: Final = AGENT | REMOTE
OPERATOR: Final = frozenset({"operator"})
READERS: Final = OPERATOR | {"viewer"}
EVERYBODY: Final = AGENTS | READERS


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool."""

    name: str
    description: str
    roles: frozenset[str]
    """Roles that see it: those that may use the routes it calls."""
    routes: tuple[str, ...]
    """The routes that it calls, such as `GET /api/me`."""
    work: Work
    takes: Mapping[str, Any] = field(default_factory=dict)
    """Arguments and their schemas."""
    required: tuple[str, ...] = ()
    on_task: frozenset[str] = frozenset()
    """Roles for which it is about one task."""
    reads: bool = False
    """Whether it changes nothing."""
    in_turn: bool = False
    """Whether an agent that was started for one task is shown it. Each tool that it is shown costs in every request."""

    def to_schema(self, role: str, *, brief: bool = False) -> dict[str, Any]:
        """Return the schema of the arguments for a role; in brief, without those that may be left out during a turn."""
        takes, required = dict(self.takes), list(self.required)
        if brief:
            takes = {name: schema for name, schema in takes.items() if name not in _LEFT_OUT}
        elif role in self.on_task:
            takes = {**_TASK[role], **takes}
            required = [*_NAMED[role], *required]
        closed = {} if brief else {"additionalProperties": False}  # others are refused with or without it
        return {"type": "object", "properties": takes, "required": required, **closed}

    def find_faults(self, role: str, given: Arguments) -> list[str]:
        """Return what is wrong with arguments, before a request is sent."""
        schema = self.to_schema(role)
        known, found = schema["properties"], []
        found += [f"there is no argument {name[:80]!r}" for name in given if name not in known]
        found += [f"{name} is missing" for name in schema["required"] if given.get(name) is None]
        for name, value in given.items():
            kind = known.get(name, {}).get("type")
            if value is not None and kind in _TYPES and not _is_a(value, kind):
                found.append(f"{name} has to be of the type {kind}")
        return found


def text_schema(description: str, **more: Any) -> dict[str, Any]:
    """Return the schema of an argument that is a text."""
    return {"type": "string", "description": description, **more}


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "boolean": (bool,),
}


def _is_a(value: object, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


_LEFT_OUT: Final = frozenset({"key", "locale"})
"""Arguments that an agent is not shown during its turn. It can still give them."""
_TASK_NAME: Final = text_schema("PLAN/TASK, such as shop/build; _toolchain/ID or _mail/ID on those boards.")
_BOARD: Final = text_schema("The project, if it is not the default one.")
_EPOCH: Final = {"type": "integer", "minimum": 1, "description": "The epoch under which you took the task (see claim)."}
_TASK: Final[dict[str, dict[str, Any]]] = {
    "agent": {"task": text_schema("Your own task; may be left out.")},
    "remote": {"task": _TASK_NAME, "board": _BOARD, "epoch": _EPOCH},
    "operator": {"task": _TASK_NAME, "board": _BOARD},
    "viewer": {"task": _TASK_NAME, "board": _BOARD},
}
_NAMED: Final = {"agent": (), "remote": ("task", "epoch"), "operator": ("task",), "viewer": ("task",)}
