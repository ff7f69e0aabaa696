"""The roles that may use routes, by group."""

from __future__ import annotations

from typing import Final

from agenttalk.engine.core.access import Role

OPERATOR: Final[tuple[Role, ...]] = ("operator",)
READERS: Final[tuple[Role, ...]] = ("operator", "viewer")
AGENTS: Final[tuple[Role, ...]] = ("agent", "remote")
"""An attempt, and a remote agent for an attempt that it claimed."""
ATTEMPTS: Final[tuple[Role, ...]] = (*AGENTS, "fleet")
"""Attempts wherever they run: a worker passes on what its agents ask about their tasks, and hands in what they made."""
TASK_WRITERS: Final[tuple[Role, ...]] = ("operator", *ATTEMPTS)
TASK_READERS: Final[tuple[Role, ...]] = (*TASK_WRITERS, "viewer")
REMOTE: Final[tuple[Role, ...]] = ("remote",)
FLEET: Final[tuple[Role, ...]] = ("fleet",)
INVITED: Final[tuple[Role, ...]] = ("invited",)
MCP: Final[tuple[Role, ...]] = ("operator", "viewer", *AGENTS)
LETTER_WRITERS: Final[tuple[Role, ...]] = ("operator", "agent")
LETTER_READERS: Final[tuple[Role, ...]] = ("operator", "viewer", "agent")
PIPELINES: Final[tuple[Role, ...]] = ("operator", "worker")
DOCUMENT_READERS: Final[tuple[Role, ...]] = ("operator", "viewer", "worker")
ALL_ROLES: Final[tuple[Role, ...]] = (*DOCUMENT_READERS, *AGENTS)
