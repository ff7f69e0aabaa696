"""The policies and agents of a plan that the engine runs, as its row keeps them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import wire
from agenttalk.contracts.plan import Policies
from agenttalk.engine.core.records import SMALL, store_content
from agenttalk.ports.statements.plans import RUN
from agenttalk.ports.storage import Tx


@lru_cache(maxsize=32)
def read_settings(data: bytes) -> tuple[Policies, dict[str, AgentProfile]]:
    """Read the policies and agents of a plan, which are immutable. Many plans share them."""
    said: Any = wire.read(data)
    profiles = {name: AgentProfile.from_json(each) for name, each in said["profiles"].items()}
    return Policies.model_validate(said["policies"]), profiles


def driven_agents(tx: Tx, plan_id: str) -> frozenset[str]:
    """List the agents of a plan that the engine drives itself, so that they need no folders."""
    rows = tx.run(RUN, plan_id=plan_id)
    if not rows:
        return frozenset()
    settings: Any = wire.read(bytes(rows[0].settings))
    return frozenset(name for name, each in settings["profiles"].items() if each.get("driver", "folder") != "folder")


def agents_of(tx: Tx, plan_id: str) -> dict[str, AgentProfile] | None:
    """Return the agents of a plan that the engine runs; None for any other plan."""
    rows = tx.run(RUN, plan_id=plan_id)
    return read_settings(bytes(rows[0].settings))[1] if rows else None


def store_settings(tx: Tx, settings: bytes) -> bytes:
    """Store a plan's policies and agents; return what its row stores about them."""
    if len(settings) > SMALL:
        return settings
    return store_content(tx, settings).encode()


def encode_settings(policies: Policies, profiles: dict[str, AgentProfile]) -> bytes:
    """Write the settings of a plan as its row keeps them."""
    return wire.write(
        {
            "policies": policies.model_dump(mode="json", exclude_none=True),
            "profiles": {name: profile.as_json() for name, profile in sorted(profiles.items())},
        }
    )
