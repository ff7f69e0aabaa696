"""Literal types of documents, for modules that need them without the models."""

from __future__ import annotations

from typing import Literal

Locale = Literal["en", "zh"]
"""A language of texts."""
ForgeKind = Literal["gitea", "forgejo", "github"]
TaskState = Literal[
    "PENDING",
    "READY",
    "RUNNING",
    "BLOCKED_WAITING_INPUT",
    "BLOCKED_WAITING_REVIEW",
    "BLOCKED_WAITING_HUMAN",
    "COMPLETED",
    "FAILED",
    "SKIPPED",
]
BoardStatus = Literal["pending", "working", "review", "blocked", "done", "failed", "skipped"]
"""The state of a task in a word, as people see it."""
Freshness = Literal["fresh", "stale"]
"""Whether the evidence of a completed task still holds."""
