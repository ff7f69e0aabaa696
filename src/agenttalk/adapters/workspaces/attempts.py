"""A private clone for each attempt, and the commit that keeps what the attempt left there."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from agenttalk.adapters.workspaces import folders, merge, paths, preparation, snapshots, tree_reader
from agenttalk.adapters.workspaces.async_methods import threaded
from agenttalk.adapters.workspaces.branch import PlanBranch
from agenttalk.adapters.workspaces.checkouts import Checkouts
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.paths import WorkspaceFolder, WorkspaceHome
from agenttalk.adapters.workspaces.preparation import PreparedTree
from agenttalk.adapters.workspaces.results import AttemptCommit, Clone, TreeRefusal, WorkspaceAttempt
from agenttalk.adapters.workspaces.sealed_trees import WarmTree, clean_warm, folder_rights
from agenttalk.adapters.workspaces.transport.pack_size import PackLimits
from agenttalk.adapters.workspaces.transport.submitted_tree import PackReceiver, SubmittedTree
from agenttalk.adapters.workspaces.tree_reader import FolderRecord, Listing, TreeLimits
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.rules.core.scope import Globs, PathMatcher

NOTHING: Final = Globs()
_SPARE: Final = 4
"""Clones of landed work that are kept for the next attempts."""


class FreshClone(NamedTuple):
    """How we made a clone. Only our memory keeps that, so no program that can write our folders can forge it."""

    attempt: str
    rights: tuple[object, ...]
    """The rights of its folders."""
    digest: bytes
    """The hash of the index that says how each file was when it was written."""


class AttemptClones:
    """The clones of a plan's attempts, in the plan's home."""

    def __init__(
        self,
        objects: GitObjects,
        branch: PlanBranch,
        checkouts: Checkouts,
        place: WorkspaceFolder,
        home: WorkspaceHome,
        limits: TreeLimits,
    ) -> None:
        self._objects = objects
        self._branch = branch
        self._checkouts = checkouts
        self._place = place
        self._home = home
        self._limits = limits
        self.receiver = PackReceiver(objects, home, PackLimits(object_bytes=limits.file_bytes, bytes=limits.new_bytes))
        """Takes trees of agents elsewhere."""
        self._guard = threading.Lock()
        self._fresh: dict[str, FreshClone] = {}
        """By task."""
        self._spare: list[tuple[Path, FreshClone]] = []
        """Clones of landed work, which the next attempts can have."""

    @threaded
    def begin(
        self,
        attempt: WorkspaceAttempt,
        *,
        at: datetime,
        onto: str = "",
        previous: str | None = None,
        protected: PathMatcher = NOTHING,
        prepared: PreparedTree | None = None,
        shared: bool = False,
    ) -> Clone:
        """Make a fresh private clone at the tip (`onto`). Removes what an earlier call for the same attempt made.

        The clone has its own .git, which borrows the objects of the user's repository, knows its tags and has no
        remote. With `previous`, the commit of an attempt, that one is merged in, with its `protected` paths restored;
        if it does not merge, the clone is the bare tip and `patch` shows what the attempt had changed. What was
        prepared is linked, unless it is bound to a tree; then `furnish` has to be called. With `shared`, files may be
        copied from the tree that checks share.
        """
        onto = onto or self._branch.tip()
        start, patch = self._resume(attempt, onto, previous, protected, at) if previous else (onto, "")
        listing = self._objects.listing(start)
        top, rights = self._reuse(start, listing) or self._check_out(start, shared=shared)
        tree = top / "tree"
        fresh = FreshClone(attempt.key, rights, sha256((top / "index").read_bytes()).digest())
        if not self._place.plain:
            paths.clone_dir(self._objects, self._home, tree, self._branch.name, start, top / "index", attempt.author)
        linked = None if prepared and prepared.bound else prepared
        links = self._checkouts.link_paths(tree, listing, linked, final=self._folder(attempt) / "tree")
        state = {"attempt": attempt.key, "onto": onto, "start": start, "foreign": sorted(links)}
        folders.write(top / "state.json", json.dumps(state).encode())
        # The clone is complete: one rename puts it into its place, so a crash leaves no half clone there.
        folder = self._folder(attempt)
        with self._guard:  # `drop` of an earlier attempt may go on meanwhile
            folders.remove(folder, self._home.trash)
            folder.parent.mkdir(exist_ok=True)
            top.rename(folder)
            self._fresh[attempt.task] = fresh
        borrowed = () if self._place.plain else (self._place.objects,)
        return Clone(attempt, folder / "tree", onto, start, patch, (*borrowed, *links.values()))

    def _check_out(self, start: str, *, shared: bool) -> tuple[Path, tuple[object, ...]]:
        """Check a commit out in a new folder; return where, and the rights of a folder there."""
        top = folders.make_fresh_folder(self._home.temporary)
        tree = top / "tree"
        tree.mkdir()
        rights = folder_rights(tree)
        if not self._checkouts.write_clone(start, tree, top / "index", shared=shared):
            if any(tree.iterdir()):  # a part was written
                folders.remove(top, self._home.trash)
                return self._check_out(start, shared=False)
            self._objects.checkout(start, tree, top / "index")
        return top, rights

    def _reuse(self, start: str, listing: Listing) -> tuple[Path, tuple[object, ...]] | None:
        """Check a commit out in a clone whose work has landed, after proving it clean; None if that is not worth it.

        Only files that were not touched since git wrote them stay; everything else goes, the .git folder as well.
        """
        with self._guard:
            if not self._spare:
                return None
            top, fresh = self._spare.pop()
        try:
            index = (top / "index").read_bytes()
            if sha256(index).digest() == fresh.digest:
                record = FolderRecord.read(top / "index", self._objects.algorithm)
                if clean_warm(WarmTree(top, fresh.rights, record), listing) is not None:
                    self._objects.checkout(start, top / "tree", top / "index")
                    return top, fresh.rights
        except (OSError, MachineError):  # what was left there cannot be removed, or is in git's way
            pass
        folders.remove(top, self._home.trash)
        return None

    def _resume(
        self, attempt: WorkspaceAttempt, onto: str, previous: str, protected: PathMatcher, at: datetime
    ) -> tuple[str, str]:
        """Make the commit that a re-execution starts from. Returns it, and a patch if `previous` does not merge."""
        merged = merge.merge(self._objects, previous, onto, protected)
        if isinstance(merged, merge.MergeConflict):
            tree = merge.restore_protected(self._objects, previous, protected).tree
            return onto, merge.show_patch(self._objects, self._objects.parent_of(previous), tree)
        if merged.tree == self._objects.tree_of(onto):
            return onto, ""
        start = self._objects.commit(merged.tree, [onto], f"Where {attempt.key} starts: the previous attempt\n", at)
        self._objects.refs.set(f"{self._branch.own}/starts/{attempt.key}", start)
        return start, ""

    async def furnish(self, clone: Clone, prepared: PreparedTree) -> None:
        """Run the preparation in the clone itself, for what is bound to its tree. Undoes its changes of the tree."""
        preparation.refuse_failure(await prepared.recipe.run(clone.path, prepared.recipe.command))
        await self._record_furnished(clone)

    @threaded
    def _record_furnished(self, clone: Clone) -> None:
        folder = self._folder(clone.attempt)
        listing = self._objects.listing(clone.start)
        index = folder / "index"
        index.unlink(missing_ok=True)
        self._objects.checkout(clone.start, clone.path, index)
        state = json.loads((folder / "state.json").read_bytes())
        state["foreign"] = sorted({*state["foreign"], *preparation.list_new_paths(clone.path, listing)})
        folders.write(folder / "state.json", json.dumps(state).encode())

    @threaded
    def take_work(self, attempt: WorkspaceAttempt, *, at: datetime) -> AttemptCommit | TreeRefusal:
        """Keep the content of an attempt's clone as one commit; its processes must be dead.

        A file counts when it was there at the start or is not ignored, by the .gitignore files of the tip that the
        attempt started from and by the default excludes. The clone's .git is never trusted. Raises UsageError when
        the attempt has no clone.
        """
        folder = self._folder(attempt)
        state = self._read_state(attempt)
        if state is None:
            raise UsageError(Code.NAME_UNKNOWN, f"the attempt {attempt.key} has no clone")
        onto, start = str(state["onto"]), str(state["start"])
        known = self._objects.listing(start)
        rules = tree_reader.TreeRules(
            known=known,
            ignored=snapshots.ignored_by(self._objects, known if start == onto else self._objects.listing(onto)),
            hasher=self._objects.blob_id,
            foreign=frozenset(state["foreign"]),
            record=tree_reader.FolderRecord.read(folder / "index", self._objects.algorithm),
            limits=self._limits,
            known_links=lambda: snapshots.links_of(self._objects, known),
        )
        tree = snapshots.keep_tree(self._objects, folder / "tree", rules, start, self._home.temporary)
        if not isinstance(tree, str):
            return TreeRefusal(tree)
        taken = self._keep(attempt, tree, onto, at)
        if self._place.plain:
            return taken
        index = snapshots.read_index(self._objects, folder, self._home.temporary, known)
        return replace(
            taken,
            left_out=index.added_in_vain(folder / "tree", known, self._objects.listing(taken.tree)),
            veiled=index.find_veiled(change.path for change in taken.changes),
        )

    @threaded
    def start_elsewhere(
        self,
        attempt: WorkspaceAttempt,
        *,
        at: datetime,
        onto: str,
        previous: str | None = None,
        protected: PathMatcher = NOTHING,
        kept: str = "",
    ) -> tuple[str, str]:
        """Return the commit that an agent elsewhere begins with, and the previous attempt as a patch; see `begin`.

        With `kept`, what it began with already, that one stays.
        """
        start, patch = self._resume(attempt, onto, previous, protected, at) if previous else (onto, "")
        if kept and kept not in {start, onto}:
            self._objects.refs.set(f"{self._branch.own}/starts/{attempt.key}", kept)
        return kept or start, patch

    @threaded
    def take_submitted(
        self, attempt: WorkspaceAttempt, pack: Path | None, *, start: str, onto: str, at: datetime
    ) -> AttemptCommit | TreeRefusal:
        """Keep the tree of a pack of an agent elsewhere as one commit. Without a pack it changed nothing.

        Raises UsageError when the pack is not one commit on `start`.
        """
        found = self.receiver.receive(pack, start, onto, keep=True) if pack is not None else SubmittedTree(start, {})
        if not isinstance(found, SubmittedTree):
            return TreeRefusal(found)
        taken = self._keep(attempt, self._objects.alter_tree(start, found.changes), onto, at)
        return replace(taken, left_out=found.left_out)

    def _keep(self, attempt: WorkspaceAttempt, tree: str, onto: str, at: datetime) -> AttemptCommit:
        """Commit a tree, unless the same commit is there from an earlier try."""
        ref = self._ref(attempt)
        commit = self._objects.refs.resolve(ref)
        if not commit or self._objects.tree_of(commit) != tree or self._objects.parent_of(commit) != onto:
            message = merge.commit_message(self._branch.plan, attempt)
            commit = self._objects.commit(tree, [onto], message, at, attempt.author)
            self._objects.refs.set(ref, commit)
        return AttemptCommit(attempt, commit, tree, onto, self._objects.changes(onto, tree))

    @threaded
    def find_taken(self, attempt: WorkspaceAttempt) -> AttemptCommit | None:
        """Find what `take_work` kept of an attempt, even if its clone is gone."""
        commit = self._objects.refs.resolve(self._ref(attempt))
        if commit is None:
            return None
        onto, tree = self._objects.parent_of(commit), self._objects.tree_of(commit)
        return AttemptCommit(attempt, commit, tree, onto, self._objects.changes(onto, tree))

    @threaded
    def drop(self, attempt: WorkspaceAttempt, *, keep: bool = False) -> None:
        """Remove an attempt's clone. Its commit stays. With `keep`, the next attempt may have the files."""
        with self._guard:
            if self._read_state(attempt) is None:
                return
            fresh = self._fresh.pop(attempt.task, None)
            top = self._home.temporary / folders.new_name()
            self._folder(attempt).rename(top)
            if keep and fresh is not None and fresh.attempt == attempt.key and len(self._spare) < _SPARE:
                self._spare.append((top, fresh))
                return
        folders.remove(top, self._home.trash)

    @threaded
    def remove_spare(self) -> None:
        """Remove the clones that are kept for the next attempts."""
        with self._guard:
            spare, self._spare = self._spare, []
        for top, _ in spare:
            folders.remove(top, self._home.trash)

    def sweep(self, keep: Collection[WorkspaceAttempt]) -> None:
        """Remove all clones but those of `keep`."""
        kept = {self._folder(attempt) for attempt in keep if self._read_state(attempt) is not None}
        for path in list(self._home.attempts.iterdir()) if self._home.attempts.is_dir() else []:
            if path not in kept:
                folders.remove(path, self._home.trash)

    def _ref(self, attempt: WorkspaceAttempt) -> str:
        return f"{self._branch.own}/attempts/{attempt.key}"

    def _folder(self, attempt: WorkspaceAttempt) -> Path:
        """Return the folder of a task's clone: the same in every attempt, so that an agent can resume its session."""
        return self._home.attempts / attempt.task

    def _read_state(self, attempt: WorkspaceAttempt) -> dict[str, Any] | None:
        """Read the state of an attempt's clone; None if the clone belongs to another attempt."""
        try:
            state: dict[str, Any] = json.loads((self._folder(attempt) / "state.json").read_bytes())
        except (OSError, ValueError):
            return None
        return state if state.get("attempt") == attempt.key else None
