"""The trees of attempts on a worker: fetched into a repository per plan, cloned privately, and packed afterwards.

git fetches only the difference when an earlier attempt of the plan was here. The agent sees its clone alone, and the
commit and the pack are made by our own code; its .git is never asked.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final, Protocol

from agenttalk.adapters.proving.evidence_inputs import name_author
from agenttalk.adapters.workspaces.async_methods import in_thread
from agenttalk.adapters.workspaces.git import FOLDER
from agenttalk.adapters.workspaces.paths import WorkspaceSettings
from agenttalk.adapters.workspaces.preparation import PreparationRecipe, PreparedTree
from agenttalk.adapters.workspaces.results import TreeRefusal, WorkspaceAttempt
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.errors import Code, InputError, MachineError, UsageError
from agenttalk.contracts.worker import AttemptName, WorkerJob
from agenttalk.ports.fleet import WorkFolder
from agenttalk.ports.storage import Clock

_SECONDS: Final = 900.0
_BASE: Final = "refs/heads/base"


class RecipeMaker(Protocol):
    """Makes the recipe of a preparation, confined at least as an agent is."""

    async def __call__(self, command: str, tier: Tier = "plain", *, required: bool = False) -> PreparationRecipe:
        """Make the recipe of a command."""


class WorkerTrees:
    """Lays out trees. Implements `AttemptTrees`."""

    def __init__(self, root: Path, clock: Clock, make_recipe: RecipeMaker | None = None) -> None:
        """`make_recipe` makes the recipe of a preparation; without it nothing is prepared."""
        self._root = root.absolute()
        self._clock = clock
        self._make_recipe = make_recipe
        self._open: dict[str, PlanWorkspace] = {}

    async def begin(self, attempt: AttemptName, job: WorkerJob, remote: tuple[str, str]) -> WorkFolder:
        """Fetch the base, and lay out a clone of it; see the port."""
        space = await self._open_plan(attempt, job, remote)
        prepared = await self._prepare(space, job)
        named, now = _attempt_of(attempt, job), self._clock.now()
        clone = await space.attempts.begin(named, at=now, onto=_base_of(job), prepared=prepared)
        if prepared is not None and prepared.bound:
            await space.attempts.furnish(clone, prepared)
        return WorkFolder(clone.path, clone.readonly)

    async def take(self, attempt: AttemptName, job: WorkerJob) -> bytes:
        """Return what an attempt left as a pack; see the port."""
        taken = await self._space(attempt).attempts.take_work(_attempt_of(attempt, job), at=self._clock.now())
        if isinstance(taken, TreeRefusal):
            reasons = "; ".join(f"{each.path}: {each.why}" for each in taken.reasons[:20])
            raise InputError(Code.FILE_UNSAFE, f"the tree that the agent left cannot be taken: {reasons}")
        if not taken.changes:
            return b""
        wanted = f"{taken.commit}\n^{_base_of(job)}\n".encode()
        args = ("pack-objects", "--revs", "--thin", "--stdout", "-q", "--threads=1")
        return await in_thread(call_git, self._repository(attempt), *args, stdin=wanted)

    async def drop(self, attempt: AttemptName, job: WorkerJob) -> None:
        """Remove the clone of an attempt; see the port."""
        space = self._open.get(_plan_of(attempt))
        if space is not None:
            await space.attempts.drop(_attempt_of(attempt, job))

    async def _prepare(self, space: PlanWorkspace, job: WorkerJob) -> PreparedTree | None:
        """Run the repository's own preparation, as the engine does on its machine; None without one."""
        base = job.repository
        if base is None or not base.prepare or self._make_recipe is None:
            return None
        recipe = await self._make_recipe(base.prepare, job.profile.tier, required=job.profile.isolated_only)
        tree = await space.trees.tree_of(base.onto or base.commit)
        return await space.checkouts.environments.prepare(tree, recipe)

    async def close(self) -> None:
        """Free what is kept for the next attempts."""
        for space in self._open.values():
            await space.release()

    async def _open_plan(self, attempt: AttemptName, job: WorkerJob, remote: tuple[str, str]) -> PlanWorkspace:
        repository, plan = self._repository(attempt), _plan_of(attempt)
        await in_thread(_fetch, repository, job, remote)
        if plan not in self._open:
            home = self._root / FOLDER / plan
            settings = WorkspaceSettings(repository, plan, home, "base")
            self._open[plan] = await PlanWorkspace.open(settings)
            await self._open[plan].remove_incomplete()
        return self._open[plan]

    def _space(self, attempt: AttemptName) -> PlanWorkspace:
        space = self._open.get(_plan_of(attempt))
        if space is None:
            raise UsageError(Code.NAME_UNKNOWN, f"nothing of plan {attempt.plan_id} is laid out here")
        return space

    def _repository(self, attempt: AttemptName) -> Path:
        return self._root / "system_runtime" / "repositories" / f"{_plan_of(attempt)}.git"


def _plan_of(attempt: AttemptName) -> str:
    return attempt.plan_id


def _attempt_of(attempt: AttemptName, job: WorkerJob) -> WorkspaceAttempt:
    return WorkspaceAttempt(attempt.task_id, job.command.command_id, job.attempt, "", name_author(job.profile))


def _base_of(job: WorkerJob) -> str:
    if job.repository is None:
        raise InputError(Code.NAME_UNKNOWN, "the attempt has no repository")
    return job.repository.commit


def _fetch(repository: Path, job: WorkerJob, remote: tuple[str, str]) -> None:
    """Fetch the base of an attempt, if it has one."""
    if job.repository is not None:
        fetch_commit(repository, remote, job.repository.ref, _BASE, job.repository.commit)
    else:
        _ensure(repository)


def fetch_commit(repository: Path, remote: tuple[str, str], ref: str, own: str, commit: str) -> None:
    """Fetch a commit into a ref of ours. The header goes through the environment, where other users cannot read it."""
    _ensure(repository)
    address, header = remote
    shown = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.extraHeader", "GIT_CONFIG_VALUE_0": header}
    args = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--force", address)
    call_git(repository, *args, f"{ref}:{own}", environ=shown)
    call_git(repository, "cat-file", "-e", f"{commit}^{{commit}}")


def _ensure(repository: Path) -> None:
    if not (repository / "HEAD").exists():
        repository.mkdir(mode=0o700, parents=True, exist_ok=True)
        call_git(repository, "init", "--quiet", "--bare", "--initial-branch=base", str(repository))


def call_git(repository: Path, *args: str, stdin: bytes = b"", environ: dict[str, str] | None = None) -> bytes:
    """Call git on the repository of a plan, which no agent can write. No configuration of this user takes part."""
    own = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_DIR": str(repository),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "HOME": str(repository),
        "LC_ALL": "C",
        **(environ or {}),
    }
    command = ["git", "-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null", *args]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, env=own, timeout=_SECONDS, check=False)  # noqa: S603 - our own arguments
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(Code.FILE_UNREADABLE, f"git cannot be called: {error}") from error
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip()[-400:]
        raise MachineError(Code.FILE_UNREADABLE, f"git {args[0]} failed: {told}", hint="the next attempt tries again")
    return done.stdout
