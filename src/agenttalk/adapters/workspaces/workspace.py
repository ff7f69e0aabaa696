"""The trees of one plan: its branch, a private clone per attempt, merge candidates and sealed checkouts.

A crash may stop every step anywhere, and the step can be repeated. Only refs count, each moved atomically, and
folders, each renamed into place when it is complete. `sweep` removes what a crash leaves in `home`.

Refs in the user's repository, all but the first invisible to `git branch`:

    refs/heads/agenttalk/<plan>                          the plan branch, moved by `follow` alone
    refs/agenttalk/<plan>/base, tip                      where it started, where we moved it last
    refs/agenttalk/<plan>/joined                         the last merge with commits of others
    refs/agenttalk/<plan>/attempts/<command>-<n>         the commit of an attempt; its parent is the tip it started from
    refs/agenttalk/<plan>/starts/<command>-<n>           what a re-execution started with, unless that was the tip
    refs/agenttalk/<plan>/candidates/<command>-<n>       what is being merged, or was
    refs/agenttalk/<plan>/landing/{from,to}              a merge into the user's branch that is under way
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Final

from agenttalk.adapters.workspaces import folders, merge, paths, tree_reader, user_branch
from agenttalk.adapters.workspaces.async_methods import in_thread, threaded
from agenttalk.adapters.workspaces.attempts import NOTHING, AttemptClones
from agenttalk.adapters.workspaces.branch import PlanBranch
from agenttalk.adapters.workspaces.checkouts import Checkouts
from agenttalk.adapters.workspaces.git import Git
from agenttalk.adapters.workspaces.merge import TEXT_LIMIT, MergeConflict
from agenttalk.adapters.workspaces.object_reader import ObjectCache
from agenttalk.adapters.workspaces.objects import GitObjects, TreeChange
from agenttalk.adapters.workspaces.paths import WorkspaceHome, WorkspaceSettings
from agenttalk.adapters.workspaces.results import (
    AttemptCommit,
    CandidateConflict,
    CoveredFiles,
    MergeCandidate,
    PackedCommits,
    WorkspaceAttempt,
)
from agenttalk.adapters.workspaces.transport.upload_pack import UploadPack
from agenttalk.adapters.workspaces.tree_reader import Listing
from agenttalk.adapters.workspaces.user_branch import LandingRefusal, LandingResult
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.checks.protection import FileTree, Protection
from agenttalk.rules.core.scope import Globs, PathMatcher

EVERYTHING: Final = Globs(otherwise=True)
_FILE_TREES: Final = 4
"""Trees whose paths are remembered."""
_PROTECTIONS: Final = 16
"""Protections whose files are remembered."""


class PlanTrees:
    """Reads trees and commits of a plan."""

    def __init__(self, objects: GitObjects) -> None:
        self._objects = objects
        self._files: ObjectCache[str, FileTree] = ObjectCache(_FILE_TREES)
        self._protected: ObjectCache[Protection, tuple[frozenset[str], frozenset[str]]] = ObjectCache(_PROTECTIONS)
        """The files of a tree, and those of them that are protected."""

    @threaded
    def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
        return self._objects.tree_of(commit)

    @threaded
    def resolve(self, name: str) -> str:
        """Return the commit that a name stands for. Raises UsageError if there is none."""
        commit = self._objects.refs.resolve(name)
        if commit is None:
            raise UsageError(Code.NAME_UNKNOWN, f"there is no commit {name!r}")
        return commit

    @threaded
    def changes(self, before: str, after: str) -> tuple[TreeChange, ...]:
        """Return what differs between two trees or commits, sorted by path."""
        return self._objects.changes(before, after)

    @threaded
    def diff(self, before: str, after: str, *, paths: Sequence[str] = (), limit: int = TEXT_LIMIT) -> str:
        """Return the difference as text for people. Cuts it at the limit in bytes, and says so."""
        return merge.show_patch(self._objects, before, after, paths=paths, limit=limit)

    @threaded
    def hash_own_changes(self, before: str, after: str) -> str:
        """Hash the lines of a change and those next to them. Other changes of the same files do not matter."""
        return merge.hash_patch(self._objects, before, after)

    @threaded
    def read_changes(self, before: str, after: str) -> tuple[ChangedFile, ...]:
        """Read the files that differ between two trees or commits, with their contents before and after."""
        return merge.read_changed_files(self._objects, self._objects.changes(before, after))

    @threaded
    def read_tests(self, tree: str) -> tuple[bytes, ...]:
        """Read the tests of a tree or commit."""
        return merge.read_tests(self._objects, tree)

    @threaded
    def find_covered(self, tree: str, globs: PathMatcher = EVERYTHING) -> CoveredFiles:
        """Find the files of a tree that globs cover, by their content."""
        return _find_covered(self._objects.listing(tree), globs)

    @threaded
    def list_files(self, tree: str) -> FileTree:
        """List the paths of the files of a tree."""
        tree = self._objects.tree_of(tree)
        known = self._files.get(tree)
        return known or self._files.put(tree, FileTree.from_paths(self._objects.listing(tree)))

    @threaded
    def find_protected(self, tree: str, protected: Protection) -> frozenset[str]:
        """Find the protected files of a tree. Of one that was asked about before, only other paths are compared."""
        paths = frozenset(self._objects.listing(tree))
        before, known = self._protected.get(protected) or (frozenset[str](), frozenset[str]())
        found = (known & paths) | frozenset(protected.filter_paths(paths - before))
        self._protected.put(protected, (paths, found))
        return found

    @threaded
    def hash_covered(self, tree: str, globs: Mapping[str, Globs]) -> dict[str, str]:
        """Hash what each of some globs covers in a tree, by their names."""
        listing = self._objects.listing(tree) if globs else {}
        return {name: _find_covered(listing, matcher).digest for name, matcher in globs.items()}

    @threaded
    def read(self, tree: str, path: str) -> bytes | None:
        """Read a file of a tree, or the target of a symlink; None if the tree has no such file."""
        entry = self._objects.listing(tree).get(path)
        return next(self._objects.contents([entry.oid])) if entry and entry.mode != tree_reader.SUBMODULE else None


class PlanWorkspace:
    """The trees of one plan. Open it once per process; its methods may be called concurrently."""

    def __init__(self, settings: WorkspaceSettings) -> None:
        """Inspect the folder; see `open`."""
        self.settings = settings
        self.plan = settings.plan
        self._home = home = WorkspaceHome(settings.home.absolute())
        for path in (home.nothing, home.temporary):
            path.mkdir(parents=True, exist_ok=True)
        git = Git(home.nothing, settings.program, settings.seconds)
        paths.check_version(git)
        place = paths.find_workspace_folder(settings.folder.absolute(), home.folder, git)
        self._objects = objects = GitObjects(
            git,
            depot=home.folder / "depot.git",
            refs=place.common,
            objects=place.objects,
            temporary=home.temporary,
            algorithm=place.algorithm,
        )
        # In a plain folder people do not expect that lines are merged: two changes of one file are a conflict.
        objects.ensure_depot(merging="-merge" if place.plain else "!merge")
        self._branch = PlanBranch(objects, place, settings, home.temporary)
        self.branch = self._branch.name
        self._landing = user_branch.Landing(objects, place, self._branch.own, home.folder, settings.limits)
        self.checkouts = Checkouts(
            objects,
            home.folder,
            home.trash,
            place.folder,
            settings.link,
            settings.overlay_files,
            place,
            self._branch.base,
        )
        self.attempts = AttemptClones(objects, self._branch, self.checkouts, place, home, settings.limits)
        self.trees = PlanTrees(objects)
        self.uploads = UploadPack(objects, self._branch.name, home)
        """Serves commits to agents elsewhere."""

    @classmethod
    async def open(cls, settings: WorkspaceSettings) -> PlanWorkspace:
        """Open the trees of a plan. A plain folder is kept in a repository in `home`, and only read until `land`.

        Raises UsageError when the folder or the plan's name cannot be used, or git is too old.
        """
        settings.check()
        return await in_thread(cls, settings)

    # The plan branch

    @threaded
    def head(self) -> str:
        """Return the tip of the plan branch; empty when the branch does not exist."""
        return self._objects.refs.resolve(self._branch.ref) or ""

    @threaded
    def ensure(self) -> str:
        """Return the tip of the plan branch. Creates the branch from the base if it is missing.

        The base is resolved once, when the plan begins. A deleted branch is restored where it was.
        """
        return self._branch.tip()

    @threaded
    def base(self) -> str:
        """Return the commit that the plan branch began at."""
        return self._branch.base()

    @threaded
    def find_merge(self, command: str, tip: str = "") -> str | None:
        """Find the commit that merged a command's work into the plan branch, by its trailers; None if there is none."""
        return self._branch.find_merge(command, tip or self._branch.tip())

    @threaded
    def split_commits(self, since: str, tip: str) -> tuple[list[str], list[str]]:
        """Split the commits after `since` into merges of the plan's own work and all others, newest first.

        Own merges say so by their trailers, and name an attempt whose commit is kept under that name.
        """
        return self._branch.split_commits(since, tip)

    @threaded
    def list_arrivals(self, since: str, tip: str = "") -> list[tuple[str, str | None]]:
        """List the commits on the plan branch after a commit, oldest first, each with the task whose work it is.

        The task is None for commits that no task made. The list is empty if the commit does not lead to the tip, or to
        the candidate that is named as `tip`.
        """
        return self._branch.list_arrivals(since, tip or self._branch.tip())

    # Merging

    @threaded
    def make_candidate(
        self,
        taken: AttemptCommit,
        *,
        at: datetime,
        protected: PathMatcher = NOTHING,
        since: str | None = None,
        onto: str = "",
    ) -> MergeCandidate | CandidateConflict:
        """Make the commit that the plan branch would become, or return the conflict.

        It is built on the tip, or on another candidate (`onto`) that lands before it.

        Protected paths are as at the baseline: changed ones are reverted, added ones removed, deleted ones restored,
        and `restored` lists them (`before` is the baseline, `after` the attempt's version). The baseline is the tip
        where the attempt started, with what others merged since. With `since`, the tip where the task's first attempt
        started, what the task itself merged in between is reverted, too.
        """
        tip = onto or self._branch.tip()
        merged = merge.merge(self._objects, taken.commit, tip, protected)
        if isinstance(merged, MergeConflict):
            return CandidateConflict(tip, merged.paths, merged.text)
        tree, restored = merged.tree, {change.path: change for change in merged.restored}
        if since:
            commits = merge.list_own_commits(self._objects, self.plan, since, tip)
            undone = merge.find_own_changes(self._objects, commits, taken.attempt.task, protected)
            tree = self._objects.alter_tree(tree, {change.path: change.before for change in undone})
            restored |= {change.path: change for change in undone}
        listed = tuple(restored[path] for path in sorted(restored))
        if tree == self._objects.tree_of(tip):
            return MergeCandidate(taken.attempt, tip, tree, tip, listed)
        text = merge.commit_message(self.plan, taken.attempt, taken.commit)
        commit = self._objects.commit(tree, [tip], text, at, taken.attempt.author)
        self._objects.refs.set(f"{self._branch.own}/candidates/{taken.attempt.key}", commit)
        return MergeCandidate(taken.attempt, commit, tree, tip, listed)

    @threaded
    def vouch(
        self, candidate: MergeCandidate, taken: AttemptCommit, evidence: Sequence[str], *, at: datetime, onto: str = ""
    ) -> MergeCandidate:
        """Return the candidate with a commit that names its evidence. The tree stays the same.

        What it was built on has landed as the commit `onto` meanwhile, which has the same tree.
        """
        onto = onto or candidate.onto
        if candidate.commit == candidate.onto:
            return replace(candidate, commit=onto, onto=onto)
        text = merge.commit_message(self.plan, candidate.attempt, taken.commit, evidence)
        commit = self._objects.commit(candidate.tree, [onto], text, at, candidate.attempt.author)
        # The store may call it the tip before the branch follows, so git must not delete it meanwhile.
        self._objects.refs.set(f"{self._branch.own}/candidates/{candidate.attempt.key}", commit)
        return replace(candidate, commit=commit, onto=onto)

    @threaded
    def follow(self, tip: str, *, at: datetime) -> str | None:
        """Bring the plan branch to the tip of the plan, and return what the tip is now.

        None when the repository does not have the tip, or does not know where the plan began: `restore` brings both.

        That is `tip`, unless others have moved the branch: to a commit that becomes the tip as it is, or, when the tip
        has moved as well, one that a new merge joins with it. Nothing that others committed is overwritten. Repeating
        it is harmless. The branch stays where it is while the user has it checked out, because moving it would make
        the user's files look changed.
        """
        return self._branch.follow(tip, at)

    @threaded
    def pack_base(self) -> bytes:
        """Pack the commit that the branch began at, if it is one that we made of a folder; else empty."""
        return self._branch.pack_base()

    @threaded
    def pack_move(self, before: str, after: str) -> PackedCommits:
        """Pack what leads from one tip of the branch to the next."""
        return self._branch.pack_move(before, after)

    @threaded
    def restore(self, base: str, move: PackedCommits) -> None:
        """Take in a move of the tip, in a repository that lost it, in their order. Repeating it is harmless.

        Raises MachineError when its commit is missing in spite of that.
        """
        self._branch.restore(base, move)

    @threaded
    def withdraw(self) -> bool:
        """Delete the plan branch if it is where it began and no work tree has it checked out; return whether it was.

        It comes back when the plan goes on.
        """
        return self._branch.withdraw()

    # The user's own branch

    @threaded
    def land(self, *, at: datetime, into: str | None = None, commit: str = "") -> LandingResult | LandingRefusal:
        """Bring the plan branch, or a `commit` of it, into the user's branch (`into`, by default what is checked out).

        By fast-forward, or by a merge commit if that has no conflict; and only if nothing in the user's work tree is
        changed and no untracked file is in the way. Otherwise nothing is done, and the result says why. If a crash
        stopped it, the next call finishes it. A plain folder must be as the plan found it.
        """
        return self._landing.land(commit or self._branch.tip(), into, self.plan, at)

    # Leftovers

    async def release(self) -> None:
        """Free what is kept for the next call: trees, clones, and processes of git. They come back when needed."""
        await self.checkouts.remove_idle()
        await self.attempts.remove_spare()
        await in_thread(self._objects.close)

    @threaded
    def remove_incomplete(self) -> None:
        """Remove folders that a process left which died. Call it first, before any other method."""
        for path in (self._home.temporary, self._home.trash):
            folders.empty_folder(path)
        self.checkouts.remove_leftovers()

    @threaded
    def sweep(self, keep: Collection[WorkspaceAttempt] = ()) -> None:
        """Remove what earlier processes left: incomplete folders, checkouts, clones and candidates not in `keep`.

        Finishes a `land` that was cut off. Call it first, before any other method. Commits of attempts stay.
        """
        keys = {attempt.key for attempt in keep}
        self.attempts.sweep(keep)
        for path in (self._home.temporary, self._home.trash):
            folders.empty_folder(path)
        self.checkouts.sweep()
        refs = self._branch.mend()
        self._landing.recover()
        stale = tuple(f"{self._branch.own}/{kind}/" for kind in ("starts", "candidates"))
        self._objects.refs.drop(ref for ref in refs if ref.startswith(stale) and ref.rpartition("/")[2] not in keys)

    @threaded
    def forget(self) -> None:
        """Remove every ref of a finished plan but its branch. Git may then delete its attempts."""
        self._objects.refs.drop(self._objects.refs.read(self._branch.own))


def _find_covered(listing: Listing, globs: PathMatcher) -> CoveredFiles:
    files = {path: f"{entry.mode} {entry.oid}" for path, entry in sorted(listing.items()) if globs.covers(path)}
    lines = b"".join(f"{content} ".encode() + os.fsencode(path) + b"\0" for path, content in files.items())
    return CoveredFiles(f"sha256:{sha256(lines).hexdigest()}", files)
