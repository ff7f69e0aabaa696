"""Finds stale tasks where no engine watches the branches. The prover is loaded only for a branch that has moved."""

from __future__ import annotations

from pathlib import Path

from agenttalk.adapters.workspaces.git import BranchHeads
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.proof import watched_branches
from agenttalk.engine.proof.watched_branches import StaleTasks
from agenttalk.ports.proof import Prover
from agenttalk.wiring.settings import Settings


async def find_stale_tasks(root: Path, deps: Deps, settings: Settings, plan_id: str | None = None) -> StaleTasks:
    """Return the tasks of ended plans that are stale because a branch has moved, where no engine watches it."""

    def make_prover() -> Prover:
        from agenttalk.wiring.provers import make_local_prover

        return make_local_prover(root, deps, settings)

    return await watched_branches.find_stale_tasks(deps, BranchHeads(root), make_prover, plan_id)
