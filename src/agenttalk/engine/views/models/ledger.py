"""Types of views of the ledger, and of deliveries of forges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict


class FactView(TypedDict):
    """A fact of the ledger."""

    seq: int
    link: int | None
    at: str
    kind: str
    subject: str
    body: Mapping[str, object]
    hash: str | None


class FactPage(TypedDict):
    """Facts about a plan."""

    facts: list[FactView]
    next: int | None


class LedgerPage(TypedDict):
    """Facts of a board."""

    board: str
    facts: list[FactView]
    next: int | None


class DecisionView(TypedDict):
    """A decision about a plan or a task."""

    seq: int
    at: str
    kind: str
    subject: str
    by: str | None
    decision: Mapping[str, object]
    task_id: NotRequired[str]
    agent_id: NotRequired[str]


class DecisionPage(TypedDict):
    """Decisions about a plan."""

    decisions: list[DecisionView]
    next: int | None


class WebhookView(TypedDict):
    """A delivery of a forge or a pipeline."""

    id: str
    source: str
    kind: str
    delivery: str
    event: str
    sha256: str
    received_at: str
    state: str
    outcome: str | None


class WebhookPage(TypedDict):
    """Deliveries."""

    webhooks: list[WebhookView]
    next: int | None


class ReplayedWebhook(TypedDict):
    """A delivery that is decided again."""

    id: str
    state: str
