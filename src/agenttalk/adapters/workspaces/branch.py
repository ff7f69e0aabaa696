"""The plan branch: where it begins, what was merged into it, and how it moves.

Only `advance` moves it. Beside it are the plan's own refs, which `git branch` does not show: where the branch began,
and where it was last, so that a deleted branch is restored there.

Every program that can write the repository can make such a branch and such refs. So our own depot records where the
plan began: a branch that exists before we began comes from others, or from another root, and nothing on it was proven
here.
"""

from __future__ import annotations

import threading
from pathlib import Path

from agenttalk.adapters.workspaces import merge, snapshots, user_folder
from agenttalk.adapters.workspaces.merge import is_ancestor
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.paths import WorkspaceFolder
from agenttalk.adapters.workspaces.results import MergeCandidate
from agenttalk.adapters.workspaces.workspace_settings import WorkspaceSettings
from agenttalk.contracts.errors import Code, MachineError, UsageError


class PlanBranch:
    """The branch that collects a plan's work."""

    def __init__(
        self, objects: GitObjects, place: WorkspaceFolder, settings: WorkspaceSettings, temporary: Path
    ) -> None:
        self._objects = objects
        self._place = place
        self._settings = settings
        self._temporary = temporary
        self.plan = settings.plan
        self.name = f"agenttalk/{self.plan}"
        self.ref = f"refs/heads/{self.name}"
        self.own = f"refs/agenttalk/{self.plan}"
        """The prefix of the plan's own refs."""
        self._beginning = threading.Lock()
        self._began = ""
        """The commit that it began at, once that is known."""

    def tip(self) -> str:
        """Return the tip. Creates the branch if it is missing."""
        tip = self._objects.refs.resolve(self.ref)
        base = self._begun(tip)
        if tip:
            return tip
        start = self._objects.refs.resolve(f"{self.own}/tip") or base
        self._objects.refs.set(f"{self.own}/base", base)
        self._objects.refs.move(self.ref, start, None, why=f"plan {self.plan} begins")
        return self._objects.refs.resolve(self.ref) or start

    def base(self) -> str:
        """Return the commit that it began at."""
        return self._begun(self._objects.refs.resolve(self.ref))

    def _begun(self, tip: str | None) -> str:
        """Return where it began, or begin now. Raises UsageError when the branch exists and we did not make it."""
        with self._beginning:
            self._began = self._began or self._noted_base() or self._begins(tip)
        return self._began

    def _noted_base(self) -> str | None:
        """Return the base that our own depot keeps, which no other program writes."""
        return self._objects.read_own_ref(f"{self.own}/base")

    def _begins(self, tip: str | None) -> str:
        if tip:
            message = f"there is a branch {self.name} already, which this root did not make"
            hint = f"give the plan another plan_id, or delete what is there: git branch -D {self.name}"
            raise UsageError(Code.NAME_TAKEN, message, hint=hint)
        self._objects.refs.drop(self._objects.refs.read(self.own))  # left by a plan whose branch was deleted
        base = self._first()
        self._objects.write_own_ref(f"{self.own}/base", base)
        return base

    def _first(self) -> str:
        if self._place.plain:
            return self._snapshot()
        name = self._settings.base or "HEAD"
        commit = self._objects.refs.resolve(name, git_dir=self._place.git_dir)
        if commit is None:
            hint = "name a branch that exists as workspace.base" if self._settings.base else "make a first commit"
            raise UsageError(Code.NAME_UNKNOWN, f"{str(self._place.folder)!r} has no commit {name!r}", hint=hint)
        if not self._settings.takes_uncommitted:
            return commit
        if commit != self._objects.refs.resolve("HEAD", git_dir=self._place.git_dir):
            message = f"uncommitted work belongs to the checked-out commit, but workspace.base is {name!r}"
            raise UsageError(Code.OPTION_INVALID, message, hint="leave out workspace.base, or workspace.uncommitted")
        return user_folder.commit_work_tree(self._objects, self._place, commit, self.plan)

    def _snapshot(self) -> str:
        """Commit a plain folder as it is, as the first commit."""
        tree = snapshots.keep_plain_folder(self._objects, self._place.folder, self._temporary, self._settings.limits)
        if not isinstance(tree, str):
            reasons = "; ".join(f"{reason.path!r}: {reason.why}" for reason in tree[:5])
            raise UsageError(Code.FILE_UNSAFE, f"{str(self._place.folder)!r} cannot be a workspace: {reasons}")
        message = f"The folder as plan {self.plan} found it\n\n{merge.PLAN}: {self.plan}\n"
        return self._objects.commit(tree, (), message, merge.EPOCH)

    def find_merge(self, command: str) -> str | None:
        """Find the commit that merged a command's work, by its trailers; None if there is none."""
        tip = self.tip()
        for commit, trailers in merge.list_own_commits(self._objects, self.plan, self.base(), tip):
            if trailers.get(merge.COMMAND) == command and merge.is_ours(self._objects, trailers, self.own):
                return commit
        return None

    def split_commits(self, since: str, tip: str) -> tuple[list[str], list[str]]:
        """Split the commits after `since` into merges of the plan's own work and all others, newest first.

        Own merges say so by their trailers, and name an attempt whose commit is kept under that name.
        """
        ours: list[str] = []
        others: list[str] = []
        for commit, trailers in merge.walk_commits(self._objects, since, tip):
            is_ours = trailers.get(merge.PLAN) == self.plan and merge.is_ours(self._objects, trailers, self.own)
            (ours if is_ours else others).append(commit)
        return ours, others

    def list_arrivals(self, since: str, tip: str = "") -> list[tuple[str, str | None]]:
        """List the commits after a commit, oldest first, each with the task whose work it is."""
        return merge.list_arrivals(self._objects, self.plan, self.own, since, tip or self.tip())

    def advance(self, candidate: MergeCandidate) -> bool:
        """Move it to exactly a candidate's commit; see `PlanWorkspace.advance`."""
        tip = self.tip()
        if tip not in {candidate.onto, candidate.commit} and not is_ancestor(self._objects, candidate.commit, tip):
            return False
        if tip == candidate.onto != candidate.commit:
            for holder in self._place.holders(self._objects, self.ref):
                message = f"the branch {self.name} is checked out in {str(holder)!r} and cannot be moved"
                raise MachineError(Code.FILE_UNWRITABLE, message, hint="switch to another branch there")
            why = f"{candidate.attempt.key} of {candidate.attempt.task}"
            if not self._objects.refs.move(self.ref, candidate.commit, tip, why=why):
                return False
        self._objects.refs.set(f"{self.own}/tip", self._objects.refs.resolve(self.ref) or candidate.commit)
        return True

    def mend(self) -> dict[str, str]:
        """Finish what a crash cut off; return the plan's own refs, as they were before."""
        own = self._objects.refs.read(self.own)
        for ref in (*own, self.ref, f"{self.own}/base", f"{self.own}/tip"):
            self._objects.refs.unlock(ref)
        tip = self._objects.refs.resolve(self.ref)
        if tip and own.get(f"{self.own}/tip") != tip:  # a crash between moving the branch and recording its tip
            self._objects.refs.set(f"{self.own}/tip", tip)
        return own
