"""Rows with one column, which many statements share: the key of what was found or written."""

from __future__ import annotations

from typing import NamedTuple


class AgentIdRow(NamedTuple):
    """An agent."""

    agent_id: str


class BodyRow(NamedTuple):
    """A body."""

    body: bytes


class EpochRow(NamedTuple):
    """The epoch of a lease."""

    epoch: int


class FoundRow(NamedTuple):
    """Shows that there is such a row."""

    found: int


class HashRow(NamedTuple):
    """The hash of what was found or written."""

    hash: str


class IdRow(NamedTuple):
    """The number of a row that was found or written."""

    id: int


class MessageIdRow(NamedTuple):
    """A message."""

    message_id: str


class NameRow(NamedTuple):
    """The name of what was found or written."""

    name: str


class NewestRow(NamedTuple):
    """The number of the newest row; 0 without one."""

    newest: int


class PlanIdRow(NamedTuple):
    """A plan."""

    plan_id: str


class RequestIdRow(NamedTuple):
    """A question to a person."""

    request_id: str


class SeqRow(NamedTuple):
    """A number in an order."""

    seq: int


class TaskCountRow(NamedTuple):
    """How many tasks there are."""

    tasks: int


class TaskIdRow(NamedTuple):
    """A task."""

    task_id: str
