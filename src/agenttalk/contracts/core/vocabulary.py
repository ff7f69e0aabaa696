"""Words that stand in documents and elsewhere, too: for whoever needs the word and not the document."""

from __future__ import annotations

from typing import Literal

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
