"""The workspaces of all plans of a root, each opened once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from agenttalk.adapters.workspaces.git import FOLDER
from agenttalk.adapters.workspaces.paths import WorkspaceSettings
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.errors import Code, InputError
from agenttalk.contracts.plan import Workspace as Repository
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.ports.agents import Job
from agenttalk.rules.checks import protection
from agenttalk.rules.checks.protection import FileTree, Protection


class ProtectedTree(NamedTuple):
    """The tree where a plan began, and what a task may not change in it."""

    tree: FileTree
    protection: Protection


class PlanWorkspaces:
    """Opens the workspaces of a root."""

    def __init__(self, root: Path) -> None:
        self._folder = root.absolute() / FOLDER
        self._open: dict[str, PlanWorkspace] = {}
        self._opening = asyncio.Lock()

    async def open(self, plan_id: str, repo: Repository) -> PlanWorkspace:
        """Return the workspace of a plan."""
        async with self._opening:  # all must use the same one, which holds locks
            space = self._open.get(plan_id)
            if space is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # other users must not read clones
                take = repo.uncommitted == "take"
                settings = WorkspaceSettings(
                    Path(repo.repo), plan_id, self._folder / plan_id, repo.base, take, tuple(repo.link)
                )
                space = self._open[plan_id] = await PlanWorkspace.open(settings)
                await space.remove_incomplete()
        return space

    async def release(self, plan_id: str | None = None) -> None:
        """Free what the workspace of a plan keeps for the next call; without a plan, those of all plans."""
        for space in [self._open.get(plan_id)] if plan_id is not None else list(self._open.values()):
            if space is not None:
                await space.release()

    async def open_for(self, job: Job) -> PlanWorkspace:
        """Return the workspace that a job works in. Raises InputError when its plan has none."""
        if job.repo is None:
            raise InputError(Code.NAME_UNKNOWN, f"{job.task_id} has no repository to work in")
        return await self.open(job.plan_id, job.repo)

    async def read_protection(
        self, space: PlanWorkspace, promise: CompletionPromise | None, others: Mapping[str, CompletionPromise]
    ) -> ProtectedTree:
        """Read the tree where a plan began, and derive what a task may not change in it."""
        tree = await space.trees.list_files(await space.base())
        return ProtectedTree(tree, protection.derive_protection(promise, tree, others))
