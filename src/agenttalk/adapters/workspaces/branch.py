"""The plan branch: where it begins, what was merged into it, and how it follows the tip of the plan.

The store of the engine says which commit is the tip; `follow` brings the branch there. Beside it are the plan's own
refs, which `git branch` does not show: where the branch began, and where we moved it last. If it is elsewhere, others
did that.

Every program that can write the repository can make such a branch and such refs. So our own depot records where the
plan began: a branch that exists before we began comes from others, or from another root, and nothing on it was proven
here.
"""

from __future__ import annotations

import logging
import os
import threading
from datetime import datetime
from pathlib import Path
from typing import Final

from agenttalk.adapters.workspaces import merge, snapshots, user_folder
from agenttalk.adapters.workspaces.merge import is_ancestor
from agenttalk.adapters.workspaces.object_reader import missing_object
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.paths import WorkspaceFolder, WorkspaceSettings
from agenttalk.adapters.workspaces.results import PackedCommits
from agenttalk.adapters.workspaces.transport import tip_pack
from agenttalk.contracts.errors import Code, UsageError

LOG = logging.getLogger(__name__)
_NEAR: Final = 64
"""Commits that are followed one by one before git is asked."""


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
        self._waiting_for = ""
        """The last tip that it could not be moved to."""

    def tip(self) -> str:
        """Return the tip. Creates the branch if it is missing."""
        tip = self._objects.refs.resolve(self.ref)
        base = self._begun(tip)
        if tip:
            return tip
        start = self._objects.refs.resolve(f"{self.own}/tip") or base
        self._objects.refs.set(f"{self.own}/base", base)
        self._objects.refs.move(self.ref, start, None, why=f"plan {self.plan} begins", mark=f"{self.own}/tip")
        return self._objects.refs.resolve(self.ref) or start

    def base(self) -> str:
        """Return the commit that it began at."""
        return self._began or self._begun(self._objects.refs.resolve(self.ref))

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
        above = self.name.partition("/")[0]
        if self._objects.refs.resolve(f"refs/heads/{above}"):
            message = f"there is a branch {above}, beside which git can make no branch {self.name}"
            raise UsageError(Code.NAME_TAKEN, message, hint=f"rename it: git branch -m {above} NAME")
        if not os.access(self._objects.store, os.W_OK | os.X_OK):
            message = f"{str(self._objects.store)!r} cannot be written, and the work of the plan is kept there"
            hint = "give this user the right to write it, or name a clone as workspace.repo"
            raise UsageError(Code.FILE_UNWRITABLE, message, hint=hint)
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

    def find_merge(self, command: str, tip: str) -> str | None:
        """Find the commit that merged a command's work, by its trailers; None if there is none."""
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

    def list_arrivals(self, since: str, tip: str) -> list[tuple[str, str | None]]:
        """List the commits after a commit, oldest first, each with the task whose work it is."""
        return merge.list_arrivals(self._objects, self.plan, self.own, since, tip)

    def follow(self, tip: str, at: datetime) -> str | None:
        """Bring the branch to the tip of the plan; see `PlanWorkspace.follow`."""
        refs, mark = self._objects.refs, f"{self.own}/tip"
        if not self._began and self._noted_base() is None:
            return None
        while True:
            head, last = refs.resolve(self.ref), refs.resolve(mark)
            if head != tip and refs.resolve(tip) is None:
                return None
            if head == tip:
                if last != tip:  # a crash, or others who moved it to where it belongs
                    refs.set(mark, tip)
                return tip
            if head and last == tip:
                return head
            if head and not self._leads(head, tip):
                return head if is_ancestor(self._objects, tip, head) else self._join(tip, head, at)
            if self._is_held(tip):
                return tip
            if refs.move(self.ref, tip, head, why=f"plan {self.plan} goes on", mark=mark):
                return tip

    def withdraw(self) -> bool:
        """Delete the branch if nothing is on it; see `PlanWorkspace.withdraw`."""
        base = self._noted_base()
        if base is None or any(self._place.holders(self._objects, self.ref)):
            return False
        return self._objects.refs.delete(self.ref, base)

    def _is_held(self, tip: str) -> bool:
        """Return whether a work tree has the branch checked out. Logs it once for each tip."""
        holder = next(iter(self._place.holders(self._objects, self.ref)), None)
        if holder is not None and self._waiting_for != tip:
            self._waiting_for = tip
            LOG.warning(
                "%s is checked out in %s, and follows later", self.name, holder, extra={"action": "branch.follow"}
            )
        return holder is not None

    def _leads(self, older: str, newer: str) -> bool:
        """Return whether a commit is an ancestor of another one."""
        at = newer
        for _ in range(_NEAR):
            parents = self._objects.reader.commit(at).parents
            if older in parents:
                return True
            if not parents:
                break
            at = parents[0]
        return is_ancestor(self._objects, older, newer)

    def _join(self, tip: str, head: str, at: datetime) -> str:
        """Commit a merge of the tip with the commits of others."""
        tree = merge.join_trees(self._objects, tip, head)
        joined = self._objects.commit(tree, [tip, head], f"Join {self.name} with commits that no task made\n", at)
        self._objects.refs.set(f"{self.own}/joined", joined)
        return joined

    def pack_base(self) -> bytes:
        """Pack the commit that the branch began at, if it is one that we made of a folder; else empty."""
        base = self.base()
        if not self._place.plain and not self._settings.takes_uncommitted:
            return b""
        commit = self._objects.reader.commit(base)
        if commit.trailers.get(merge.PLAN) != self.plan:  # nothing was uncommitted: it is the user's own
            return b""
        parents = commit.parents
        return tip_pack.pack_commits(self._objects, parents[0] if parents else "", base)

    def pack_move(self, before: str, after: str) -> PackedCommits:
        """Pack what leads from one tip to the next."""
        trailers = self._objects.reader.commit(after).trailers
        is_own = trailers.get(merge.PLAN) == self.plan and merge.is_ours(self._objects, trailers, self.own)
        attempt = f"{trailers[merge.COMMAND]}-{trailers[merge.ATTEMPT]}" if is_own else ""
        made = trailers[merge.COMMIT] if is_own else ""
        return PackedCommits(after, attempt, made, tip_pack.pack_commits(self._objects, before, after, made))

    def restore(self, base: str, move: PackedCommits) -> None:
        """Take in a move of the tip; see `PlanWorkspace.restore`."""
        refs = self._objects.refs
        if move.pack and not all(refs.resolve(commit) for commit in (move.after, move.made) if commit):
            self._objects.call("index-pack", "--fix-thin", "--stdin", "--threads=1", stdin=move.pack)
        if refs.resolve(move.after) is None:
            raise missing_object(move.after)
        if move.attempt:
            refs.set(f"{self.own}/attempts/{move.attempt}", move.made)
        elif move.after == base:
            refs.set(f"{self.own}/base", base)
            self._objects.write_own_ref(f"{self.own}/base", base)

    def mend(self) -> dict[str, str]:
        """Remove the locks that a crash left; return the plan's own refs."""
        own = self._objects.refs.read(self.own)
        for ref in (*own, self.ref, f"{self.own}/base", f"{self.own}/tip"):
            self._objects.refs.unlock(ref)
        return own
