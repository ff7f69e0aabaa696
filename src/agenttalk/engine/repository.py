"""The repository that a plan works on, for whoever wants to look at it or merge it."""

from __future__ import annotations

from typing import Any

from agenttalk.contracts.plan import PlanManifest
from agenttalk.engine.deps import Deps
from agenttalk.engine.plans import board_of
from agenttalk.errors import Code, UsageError


async def of(deps: Deps, plan_id: str) -> dict[str, Any]:
    """Where the repository of a plan lies, and what its clones share. Raises UsageError when the plan has none."""
    store = await board_of(deps, plan_id)
    rows = await store.read("plan_manifest", plan_id=plan_id)
    manifest = rows[0][0] if rows else None
    workspace = PlanManifest.model_validate_json(bytes(manifest)).workspace if manifest else None
    if workspace is None:
        raise UsageError(
            Code.NAME_UNKNOWN, f"plan {plan_id!r} works on no repository", hint="a plan file names it as workspace.repo"
        )
    return {"repo": workspace.repo, "base": workspace.base, "link": list(workspace.link)}
