"""Types of views of the board `_toolchain`."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from agenttalk.contracts.core.wire import JsonObject
from agenttalk.engine.views.models.attempts import CheckView


class BoardTask(TypedDict):
    """The fields that every view of a task of the board has."""

    id: str
    title: str
    description: str
    assignee: str
    assigned_by: str | None
    task_type: Literal["toolchain"]
    status: str
    must_haves: JsonObject
    closed_why: str | None
    trust: str | None
    proven: bool | None


class ToolchainTask(BoardTask):
    """A task in a list of the board."""

    phase: str | None
    state: str
    source: str
    object: str
    made_at: str
    closed_at: str | None
    reason: str | None


class ToolchainTaskPage(TypedDict):
    """Tasks of the board."""

    tasks: list[ToolchainTask]
    next: int | None


class ToolchainWarning(TypedDict):
    """An event that no agent could be given."""

    id: int
    code: str
    message: str
    hint: str
    times: int
    first_at: str
    last_at: str


class WarningPage(TypedDict):
    """Warnings of the board."""

    warnings: list[ToolchainWarning]
    next: int | None


class SourceOutage(TypedDict):
    """A source that does not answer."""

    source: str
    since: str
    failures: int
    asked_again_at: str | None


class OutgoingView(TypedDict):
    """A text that the engine writes at a forge."""

    id: int
    kind: str
    source: str
    object: str | None
    repository: str | None
    number: int | None
    title: str | None
    assignee: str | None
    task_id: str | None
    state: str
    tries: int
    not_before: str | None
    made_at: str
    ended_at: str | None
    posted: str | None
    why: str | None
    request_id: str | None


class OutgoingPage(TypedDict):
    """Texts for forges, and sources that do not answer."""

    outgoing: list[OutgoingView]
    away: list[SourceOutage]
    next: int | None


class BoardSummary(TypedDict):
    """The board in an overview."""

    open_tasks: int
    warnings: list[ToolchainWarning]


class VerificationView(TypedDict):
    """The result of verifying a turn at the forge."""

    passed: bool
    code: str
    detail: str
    trust: str | None
    infrastructure: bool


class CommentView(TypedDict):
    """A comment or an output of a task."""

    id: int
    kind: str
    author: str
    type: str
    body: str
    at: str
    claims: NotRequired[list[JsonObject]]


class AuditedTurn(TypedDict):
    """A turn: what its agent reported, and what the engine read at the forge."""

    epoch: int
    command_id: str
    how: str
    cause: str
    reason: str | None
    seen: list[CheckView]
    verify: VerificationView | None
    said: list[CommentView]


class ToolchainAudit(BoardTask):
    """A task with each of its turns."""

    turns: list[AuditedTurn]
    said: list[CommentView]
    verify: VerificationView | None
