"""The plan branch: where it begins, what came onto it, and how it moves on.

It is moved by `advance` alone. Beside it lie the plan's own refs, which `git branch` does not show: where it began, and
where it stood last, so that it comes back there when somebody deletes it.

Whoever can write the repository can make such a branch and such refs. So our own depot holds where the plan began: a
branch that is there before we began is somebody else's, or of another root, and nothing on it was proven here.
"""

from __future__ import annotations

import threading
from pathlib import Path

from agenttalk.adapters.workspaces import merge, snapshots, user_folder
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.paths import WorkspaceFolder
from agenttalk.adapters.workspaces.results import MergeCandidate
from agenttalk.adapters.workspaces.workspace_settings import WorkspaceSettings
from agenttalk.contracts.errors import Code, MachineError, UsageError


class PlanBranch:
    """The branch on which a plan's work comes together."""

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
        """Under which the plan's own refs lie."""
        self._beginning = threading.Lock()
        self._began = ""
        """The commit that it began at, as soon as that is known."""

    def tip(self) -> str:
        """Where it stands. It is made if it is missing."""
        found = self._objects.resolve(self.ref)
        base = self._begun(found)
        if found:
            return found
        start = self._objects.read_refs(self.own).get(f"{self.own}/tip") or base
        self._objects.set_ref(f"{self.own}/base", base)
        self._objects.move_ref(self.ref, start, None, why=f"plan {self.plan} begins")
        return self._objects.resolve(self.ref) or start

    def base(self) -> str:
        """The commit that it began at."""
        return self._begun(self._objects.resolve(self.ref))

    def _begun(self, found: str | None) -> str:
        """Where it began; it begins now if it did not before. Raises UsageError when it is there, and not by us."""
        with self._beginning:
            self._began = self._began or self._objects.find_noted(f"{self.own}/base") or self._begins(found)
        return self._began

    def _begins(self, found: str | None) -> str:
        if found:
            message = f"there is a branch {self.name} already, which this root did not make"
            hint = f"give the plan another plan_id, or delete what is there: git branch -D {self.name}"
            raise UsageError(Code.NAME_TAKEN, message, hint=hint)
        self._objects.drop_refs(self._objects.read_refs(self.own))  # of a plan whose branch somebody has deleted
        base = self._first()
        self._objects.keep_noted(f"{self.own}/base", base)
        return base

    def _first(self) -> str:
        if self._place.plain:
            return self._snapshot()
        name = self._settings.base or "HEAD"
        found = self._objects.resolve(name, git_dir=self._place.git_dir)
        if found is None:
            hint = "name a branch that exists as workspace.base" if self._settings.base else "make a first commit"
            raise UsageError(Code.NAME_UNKNOWN, f"{str(self._place.folder)!r} has no commit {name!r}", hint=hint)
        if not self._settings.takes_uncommitted:
            return found
        if found != self._objects.resolve("HEAD", git_dir=self._place.git_dir):
            message = f"what is not committed belongs to what is checked out, and workspace.base is {name!r}"
            raise UsageError(Code.OPTION_INVALID, message, hint="leave out workspace.base, or workspace.uncommitted")
        return user_folder.commit_work_tree(self._objects, self._place, found, self.plan)

    def _snapshot(self) -> str:
        """A plain folder as it is, as the first commit."""
        found = snapshots.keep_plain_folder(self._objects, self._place.folder, self._temporary, self._settings.limits)
        if not isinstance(found, str):
            told = "; ".join(f"{reason.path!r}: {reason.why}" for reason in found[:5])
            raise UsageError(Code.FILE_UNSAFE, f"{str(self._place.folder)!r} cannot be a workspace: {told}")
        message = f"The folder as plan {self.plan} found it\n\n{merge.PLAN}: {self.plan}\n"
        return self._objects.commit(found, (), message, merge.EPOCH)

    def find_merge(self, command: str) -> str | None:
        """The commit by which a command's work came onto it, told by its trailers; None if it did not."""
        tip = self.tip()
        own = self._objects.read_refs(self.own)
        for commit, told in merge.list_own_commits(self._objects, self.plan, self.base(), tip):
            if told.get(merge.COMMAND) == command and merge.is_ours(told, own, self.own):
                return commit
        return None

    def split_commits(self, since: str, tip: str) -> tuple[list[str], list[str]]:
        """Its commits behind `since`: those by which the plan's own work came there, and all others.

        Its own say so by their trailers, and name an attempt whose commit is kept under that name. The newest first.
        """
        own = self._objects.read_refs(self.own)
        ours: list[str] = []
        others: list[str] = []
        for commit, told in merge.walk_commits(self._objects, since, tip):
            is_ours = told.get(merge.PLAN) == self.plan and merge.is_ours(told, own, self.own)
            (ours if is_ours else others).append(commit)
        return ours, others

    def list_arrivals(self, since: str) -> list[tuple[str, str | None]]:
        """Everything that came onto it behind a commit, the oldest first, with the task whose work it is."""
        own = self._objects.read_refs(self.own)
        return merge.list_arrivals(self._objects, self.plan, own, self.own, since, self.tip())

    def advance(self, candidate: MergeCandidate) -> bool:
        """Move it to exactly a candidate's commit; see `Workspace.advance`."""
        tip = self.tip()
        if tip != candidate.commit and not self._objects.is_ancestor(candidate.commit, tip):
            if tip != candidate.onto:
                return False
            for holder in self._place.holders(self._objects, self.ref):
                message = f"the branch {self.name} is checked out in {str(holder)!r} and cannot be moved"
                raise MachineError(Code.FILE_UNWRITABLE, message, hint="switch to another branch there")
            why = f"{candidate.attempt.key} of {candidate.attempt.task}"
            if not self._objects.move_ref(self.ref, candidate.commit, tip, why=why):
                return False
        self._objects.set_ref(f"{self.own}/tip", self._objects.resolve(self.ref) or candidate.commit)
        return True

    def mend(self) -> dict[str, str]:
        """Finish what a death cut off; the plan's own refs, as they were before."""
        own = self._objects.read_refs(self.own)
        for ref in (*own, self.ref, f"{self.own}/base", f"{self.own}/tip"):
            self._objects.unlock(ref)
        tip = self._objects.resolve(self.ref)
        if tip and own.get(f"{self.own}/tip") != tip:  # a death between moving the branch and noting where it stands
            self._objects.set_ref(f"{self.own}/tip", tip)
        return own
