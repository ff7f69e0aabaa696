"""The roles that may use routes, by group."""

from __future__ import annotations

from typing import Final

from agenttalk.engine.core.access import Role

OPERATOR: Final[tuple[Role, ...]] = ("operator",)
READERS: Final[tuple[Role, ...]] = ("operator", "viewer")
AGENTS: Final[tuple[Role, ...]] = ("agent", "remote")
"""An attempt, and a remote agent for an attempt that it claimed."""
TASK_WRITERS: Final[tuple[Role, ...]] = ("operator", *AGENTS)
TASK_READERS: Final[tuple[Role, ...]] = (*TASK_WRITERS, "viewer")
REMOTE: Final[tuple[Role, ...]] = ("remote",)
HANDING_IN: Final[tuple[Role, ...]] = (*AGENTS, "fleet")
"""Those that fetch what an attempt needs and hand in what it made; a worker for an attempt that it claimed."""
FLEET: Final[tuple[Role, ...]] = ("fleet",)
INVITED: Final[tuple[Role, ...]] = ("invited",)
MCP: Final[tuple[Role, ...]] = ("operator", "viewer", *AGENTS)
LETTER_WRITERS: Final[tuple[Role, ...]] = ("operator", "agent")
LETTER_READERS: Final[tuple[Role, ...]] = ("operator", "viewer", "agent")
PIPELINES: Final[tuple[Role, ...]] = ("operator", "worker")
DOCUMENT_READERS: Final[tuple[Role, ...]] = ("operator", "viewer", "worker")
ALL_ROLES: Final[tuple[Role, ...]] = (*DOCUMENT_READERS, *AGENTS)
