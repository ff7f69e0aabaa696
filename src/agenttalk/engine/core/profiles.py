"""Finds the agents of a root, and merges an agent's own profile with the operator's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import MissingError
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.folders import Folder
from agenttalk.rules.messages.routes import RESERVED

ProfileOverlay: TypeAlias = "Callable[[str, Mapping[str, Any]], dict[str, Any]]"
"""Merges what an agent's own profile says with the settings for it."""


def profile_of(deps: Deps, agent_id: str, configured: ProfileOverlay) -> AgentProfile:
    """Return an agent's profile with the settings over it. Raises AgentTalkError when it is wrong."""
    try:
        said: Any = wire.read(
            deps.root.read(f"{root_layout.agent_folder(agent_id)}/{root_layout.PROFILE}", wire.ENVELOPE_LIMIT)
        )
    except MissingError:
        said = {"schema_version": "1.0", "agent_id": agent_id}
    return AgentProfile.from_json(configured(agent_id, said) if isinstance(said, dict) else said)


def list_agents(root: Folder) -> list[str]:
    """List the agents: folders under agents/ whose name is an id and not reserved."""
    try:
        with root.open_folder(root_layout.AGENTS) as folder:
            found = [entry.name for entry in folder.scan() if entry.kind == "folder" and entry.is_text]
    except MissingError:
        return []
    return sorted(name for name in found if is_id(name) and name not in RESERVED)
