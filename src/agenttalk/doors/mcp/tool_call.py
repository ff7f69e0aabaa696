"""A tool that is called: by whom, with which arguments, and where the task lies that is meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import Code
from agenttalk.doors.mcp.engine_client import AsyncEngineClient, ToolRefusal
from agenttalk.doors.mcp.own_attempt import OwnAttempt

Arguments: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that is called."""

    client: AsyncEngineClient
    me: Mapping[str, Any]
    """Whom the token belongs to, as the engine says."""
    arguments: Arguments
    attempt: OwnAttempt | None = None
    """The attempt in which the server runs."""

    @property
    def own_attempt(self) -> OwnAttempt | None:
        """The attempt, if the task that is meant is its own."""
        name = self.arguments.get("task")
        return self.attempt if name in {None, f"{self.me.get('plan_id')}/{self.me.get('task_id')}"} else None

    @property
    def role(self) -> str:
        """The role of the token."""
        return str(self.me["role"])

    def task_path(self, more: str = "", **query: Any) -> str:
        """Return the address of the task that was named, or of the attempt's own task."""
        task, board = self.arguments.get("task"), self.arguments.get("board")
        if task is None and self.role == "agent":
            board, plan, name = self.me["board"], self.me["plan_id"], self.me["task_id"]
        else:
            plan, _, name = str(task).partition("/")
            own = self.me.get("board") if self.role == "agent" else None
            board = board or (plan if plan.startswith("_") else own or "default")
        if not all(is_id(str(each)) for each in (board, plan, name)):
            hint = "write PLAN/TASK"
            raise ToolRefusal(Code.TASK_NOT_FOUND, f"{str(task)[:80]!r} is not the name of a task", hint=hint)
        virtual = str(plan).startswith("_")
        shown = quote_segment(name) if virtual else f"{quote_segment(plan)}:{quote_segment(name)}"
        path = f"/api/projects/{quote_segment(board)}/tasks/{shown}{more}"
        asked = {**query, **({"epoch": int(self.arguments["epoch"])} if self.role == "remote" else {})}
        return f"{path}?{urlencode(asked)}" if asked else path

    def pick_arguments(self, *names: str) -> dict[str, Any]:
        """Return those of the named arguments that were given."""
        return {name: self.arguments[name] for name in names if self.arguments.get(name) is not None}


def quote_segment(text: object) -> str:
    """Return a text as one quoted part of a path."""
    return quote(str(text), safe="")
