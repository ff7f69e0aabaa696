"""A route of the HTTP API: its address, who may use it, what it takes and answers, and the handler that serves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.core.wire import JsonObject
from agenttalk.doors.api.problems import JSON
from agenttalk.engine.core.access import Caller, Role
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.operation.service import Service

Handler: TypeAlias = "Callable[[Service, Request, Caller], Awaitable[Response]]"
TaskHandler: TypeAlias = "Callable[[Service, Request, Caller, TaskName], Awaitable[Response]]"
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSpec:
    """One row of the route table. Routing, OpenAPI and the rules for repeated requests are made from it."""

    method: Method
    path: str
    summary: str
    roles: tuple[Role, ...] = ()
    """Roles whose tokens are accepted. Without roles no token is needed: the endpoint is open, or checks signatures."""
    handler: Handler | None = None
    task_handler: TaskHandler | None = None
    """The handler of a route below a task. It gets the task, and a remote agent names its epoch."""
    endpoint: Callable[[Service], Any] | None = None
    """Makes an endpoint that Starlette calls directly; it does its own access control."""
    body: type[BaseModel | JsonObject] | None = None
    answer: Any = JsonObject
    """The type of the answer, from which its schema is made."""
    statuses: tuple[int, ...] = (200,)
    filters: tuple[str, ...] = ()
    """Names of query parameters that are texts."""
    numbers: tuple[str, ...] = ()
    """Names of query parameters that are numbers from 0."""
    media: str = JSON
    repeatable: bool = False
    """Whether carrying it out twice does what once does: it sets a state, or its use case stores the key itself."""
    secret: bool = False
    """Whether the answer is a secret, and so is not stored under an idempotency key."""
    basic: bool = False
    """Whether git calls it, which sends its token as the password of HTTP Basic."""
    sessions: bool = False
    """Whether the session of a browser is accepted, too."""
    shown_path: str = ""
    """The path in the OpenAPI document, where paths that differ only in the name of a parameter are one."""

    @property
    def query(self) -> tuple[str, ...]:
        """Names of all query parameters."""
        return (*self.filters, *self.numbers, *(("epoch",) if self.task_handler is not None else ()))

    @property
    def is_refused(self) -> bool:
        """Whether every request is refused, so that its query does not matter."""
        return self.statuses == (403,)
