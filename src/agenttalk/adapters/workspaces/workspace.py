"""The trees of one plan: its branch, a private clone per attempt, merge candidates and sealed checkouts.

Every step may be cut off anywhere and be done again: what counts are refs, each moved at once, and folders, each
renamed into place when it is complete. What a crash leaves in `home` is removed by `sweep`.

Refs in the user's repository, all but the first invisible to `git branch`:

    refs/heads/agenttalk/<plan>                          the plan branch, moved by `advance` alone
    refs/agenttalk/<plan>/base, tip                      where it began, where it stood last
    refs/agenttalk/<plan>/attempts/<command>-<n>         the commit of an attempt; its parent is the tip it started from
    refs/agenttalk/<plan>/starts/<command>-<n>           what a re-execution began with, unless that was the tip
    refs/agenttalk/<plan>/candidates/<command>-<n>       what is or was to be merged
    refs/agenttalk/<plan>/landing/{from,to}              a merge into the user's branch that is under way
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from agenttalk.adapters.workspaces import clone_index, folders, landing, merge, preparation, snapshots, tree_reader
from agenttalk.adapters.workspaces import paths as workspaces_paths
from agenttalk.adapters.workspaces.async_methods import in_thread, threaded
from agenttalk.adapters.workspaces.branch import PlanBranch
from agenttalk.adapters.workspaces.checkouts import Checkouts
from agenttalk.adapters.workspaces.git import Git
from agenttalk.adapters.workspaces.landing import LandingRefusal, LandingResult
from agenttalk.adapters.workspaces.objects import TEXT_LIMIT, GitObjects, MergeConflict, TreeChange
from agenttalk.adapters.workspaces.preparation import PreparationRecipe, PreparedTree
from agenttalk.adapters.workspaces.results import (
    AttemptCommit,
    CandidateConflict,
    Clone,
    CoveredFiles,
    MergeCandidate,
    SealedCheckout,
    TreeRefusal,
    WorkspaceAttempt,
)
from agenttalk.adapters.workspaces.tree_reader import Listing
from agenttalk.adapters.workspaces.workspace_settings import WorkspaceSettings
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.rules.core.scope import Globs, PathMatcher

EVERYTHING: Final = Globs(otherwise=True)
NOTHING: Final = Globs()


class PlanWorkspace:
    """The trees of one plan. Open it once per process; its methods may be called at the same time."""

    def __init__(self, settings: WorkspaceSettings) -> None:
        """Look at the folder; see `open`."""
        self.settings = settings
        self.plan = settings.plan
        self._home = settings.home.absolute()
        nothing = self._home / "nothing"
        for path in (nothing, self._temporary):
            path.mkdir(parents=True, exist_ok=True)
        git = Git(nothing, settings.program, settings.seconds)
        workspaces_paths.check_version(git)
        self._place = workspaces_paths.find_workspace_folder(settings.folder.absolute(), self._home, git)
        self._objects = GitObjects(
            git,
            depot=self._home / "depot.git",
            refs=self._place.common,
            objects=self._place.objects,
            temporary=self._temporary,
        )
        # In a plain folder nobody expects lines to be merged: two changes of one file are a conflict.
        self._objects.ensure_depot(merging="-merge" if self._place.plain else "!merge")
        self._branch = PlanBranch(self._objects, self._place, settings, self._temporary)
        self.branch = self._branch.name
        self._own = self._branch.own
        self._checkouts = Checkouts(self._objects, self._home, self._trash, self._place.folder, settings.link)

    @classmethod
    async def open(cls, settings: WorkspaceSettings) -> PlanWorkspace:
        """The trees of a plan. A plain folder is kept in a repository in `home`; it is only read until `land`.

        Raises UsageError when the folder or the plan's name cannot be used, or git is too old.
        """
        settings.check()
        return await in_thread(cls, settings)

    # The plan branch

    @threaded
    def head(self) -> str:
        """Where the plan branch stands; empty when there is none."""
        return self._objects.resolve(self._branch.ref) or ""

    @threaded
    def ensure(self) -> str:
        """The tip of the plan branch. The branch is made from the base if it is missing.

        The base is looked up once, when the plan begins. A branch that was deleted comes back where it stood.
        """
        return self._branch.tip()

    @threaded
    def base(self) -> str:
        """The commit that the plan branch began at."""
        return self._branch.base()

    @threaded
    def find_merge(self, command: str) -> str | None:
        """The commit by which a command's work came into the plan branch, told by its trailers; None if it did not."""
        return self._branch.find_merge(command)

    @threaded
    def split_commits(self, since: str, tip: str) -> tuple[list[str], list[str]]:
        """Commits of the plan branch behind `since`: those by which its own work came there, and all others.

        Its own say so by their trailers, and name an attempt whose commit is kept under that name. The newest first.
        """
        return self._branch.split_commits(since, tip)

    @threaded
    def list_arrivals(self, since: str) -> list[tuple[str, str | None]]:
        """Everything that came onto the plan branch behind a commit, the oldest first, with the task whose work it is.

        None stands for what somebody else put there. There is nothing if the commit does not lead to the tip.
        """
        return self._branch.list_arrivals(since)

    @threaded
    def tree(self, commit: str) -> str:
        """The tree of a commit."""
        return self._objects.tree_of(commit)

    @threaded
    def commit(self, name: str) -> str:
        """The commit that a name stands for. Raises UsageError if there is none."""
        found = self._objects.resolve(name)
        if found is None:
            raise UsageError(Code.NAME_UNKNOWN, f"there is no commit {name!r}")
        return found

    # Attempts

    @threaded
    def begin(
        self,
        attempt: WorkspaceAttempt,
        *,
        at: datetime,
        previous: str | None = None,
        protected: PathMatcher = NOTHING,
        prepared: PreparedTree | None = None,
    ) -> Clone:
        """A fresh private clone at the tip. What an earlier call for the same attempt made is removed.

        It has its own .git, which borrows the objects of the user's repository, knows its tags, and has no remote.
        With `previous`, the commit of an attempt, that one is merged in, its `protected` paths put back; if it does
        not merge, the clone is the bare tip and `patch` tells what the attempt had changed. What was prepared is
        linked, unless it is bound to a tree; then `furnish` has to be called.
        """
        onto = self._branch.tip()
        start, patch = self._resumed(attempt, onto, previous, protected, at) if previous else (onto, "")
        listing = self._objects.listing(start)
        top = folders.make_fresh_folder(self._temporary)
        tree = top / "tree"
        tree.mkdir()
        self._objects.checkout(start, tree, top / "index")
        if not self._place.plain:
            workspaces_paths.clone_dir(self._objects, tree, self.branch, start, top / "index", attempt.author)
        links = self._checkouts.link_paths(tree, listing, None if prepared and prepared.bound else prepared)
        folders.write(top / "record.json", tree_reader.note_files(tree, listing, top / "mark"))
        state = {"attempt": attempt.key, "onto": onto, "start": start, "foreign": sorted(links)}
        folders.write(top / "state.json", json.dumps(state).encode())
        place = self._attempt(attempt)
        folders.remove(place, self._trash)
        place.parent.mkdir(exist_ok=True)
        top.rename(place)
        borrowed = () if self._place.plain else (self._place.objects,)
        return Clone(attempt, place / "tree", onto, start, patch, (*borrowed, *links.values()))

    def _resumed(
        self, attempt: WorkspaceAttempt, onto: str, previous: str, protected: PathMatcher, at: datetime
    ) -> tuple[str, str]:
        """What a re-execution starts from, and the patch if the previous attempt did not merge."""
        merged = merge.merge(self._objects, previous, onto, protected)
        if isinstance(merged, MergeConflict):
            tree = merge.restore_protected(self._objects, previous, protected).tree
            return onto, self._objects.diff(self._objects.parent_of(previous), tree)
        if merged.tree == self._objects.tree_of(onto):
            return onto, ""
        start = self._objects.commit(merged.tree, [onto], f"Where {attempt.key} starts: the previous attempt\n", at)
        self._objects.set_ref(f"{self._own}/starts/{attempt.key}", start)
        return start, ""

    @threaded
    def take_work(self, attempt: WorkspaceAttempt, *, at: datetime) -> AttemptCommit | TreeRefusal:
        """Keep what lies in an attempt's clone as one commit; its processes must be dead.

        Everything counts that was there at the start or is not ignored, by the .gitignore files of the tip that it
        started from and by the default excludes. Only files are looked at, never the clone's .git. Raises UsageError
        when the attempt has no clone.
        """
        place = self._attempt(attempt)
        state = self._state(attempt)
        if state is None:
            raise UsageError(Code.NAME_UNKNOWN, f"the attempt {attempt.key} has no clone")
        onto, start = str(state["onto"]), str(state["start"])
        known = self._objects.listing(start)
        rules = tree_reader.TreeRules(
            known=known,
            ignored=snapshots.ignored_by(self._objects, known if start == onto else self._objects.listing(onto)),
            hasher=self._objects.blob_id,
            foreign=frozenset(state["foreign"]),
            record=tree_reader.FolderRecord.read(place / "record.json"),
            limits=self.settings.limits,
            known_links=lambda: snapshots.links_of(self._objects, known),
        )
        found = snapshots.keep_tree(self._objects, place / "tree", rules, start, self._temporary)
        if not isinstance(found, str):
            return TreeRefusal(found)
        taken = self._kept(attempt, found, onto, at)
        if self._place.plain:
            return taken
        index = clone_index.read_index(self._objects, place / "tree", self._temporary)
        return replace(
            taken,
            left_out=index.added_in_vain(place / "tree", known, self._objects.listing(taken.tree)),
            veiled=index.find_veiled(change.path for change in taken.changes),
        )

    def _kept(self, attempt: WorkspaceAttempt, tree: str, onto: str, at: datetime) -> AttemptCommit:
        ref = f"{self._own}/attempts/{attempt.key}"
        commit = self._objects.resolve(ref)
        if not commit or self._objects.tree_of(commit) != tree or self._objects.parent_of(commit) != onto:
            commit = self._objects.commit(tree, [onto], merge.commit_message(self.plan, attempt), at, attempt.author)
            self._objects.set_ref(ref, commit)
        return AttemptCommit(attempt, commit, tree, onto, self._objects.changes(onto, tree))

    @threaded
    def find_taken(self, attempt: WorkspaceAttempt) -> AttemptCommit | None:
        """What `take` kept of an attempt, whether or not its clone is still there."""
        commit = self._objects.resolve(f"{self._own}/attempts/{attempt.key}")
        if commit is None:
            return None
        onto, tree = self._objects.parent_of(commit), self._objects.tree_of(commit)
        return AttemptCommit(attempt, commit, tree, onto, self._objects.changes(onto, tree))

    @threaded
    def drop(self, attempt: WorkspaceAttempt) -> None:
        """Remove an attempt's clone. Its commit stays."""
        if self._state(attempt) is not None:
            folders.remove(self._attempt(attempt), self._trash)

    # Merging

    @threaded
    def make_candidate(
        self, taken: AttemptCommit, *, at: datetime, protected: PathMatcher = NOTHING, since: str | None = None
    ) -> MergeCandidate | CandidateConflict:
        """What the plan branch would become, or the conflict.

        Protected paths are as at the baseline: changed ones are put back, added ones removed, deleted ones restored,
        and `restored` tells all of them (`before` is the baseline, `after` what the attempt made of it). The baseline
        is the tip where the attempt started, moved on by what others merged since; with `since`, the tip where the
        task's first attempt started, also what the task itself merged in between is put back.
        """
        tip = self._branch.tip()
        merged = merge.merge(self._objects, taken.commit, tip, protected)
        if isinstance(merged, MergeConflict):
            return CandidateConflict(tip, merged.paths, merged.text)
        tree, restored = merged.tree, {change.path: change for change in merged.restored}
        if since:
            commits = merge.list_own_commits(self._objects, self.plan, since, tip)
            undone = merge.find_own_changes(self._objects, commits, taken.attempt.task, protected)
            tree = self._objects.alter_tree(tree, {change.path: change.before for change in undone})
            restored |= {change.path: change for change in undone}
        told = tuple(restored[path] for path in sorted(restored))
        if tree == self._objects.tree_of(tip):
            return MergeCandidate(taken.attempt, tip, tree, tip, told)
        text = merge.commit_message(self.plan, taken.attempt, taken.commit)
        commit = self._objects.commit(tree, [tip], text, at, taken.attempt.author)
        self._objects.set_ref(f"{self._own}/candidates/{taken.attempt.key}", commit)
        return MergeCandidate(taken.attempt, commit, tree, tip, told)

    @threaded
    def vouch(
        self, candidate: MergeCandidate, taken: AttemptCommit, evidence: Sequence[str], *, at: datetime
    ) -> MergeCandidate:
        """The same candidate, whose commit names the evidence that it rests on. Its tree is the same."""
        if candidate.commit == candidate.onto:
            return candidate
        text = merge.commit_message(self.plan, candidate.attempt, taken.commit, evidence)
        commit = self._objects.commit(candidate.tree, [candidate.onto], text, at, candidate.attempt.author)
        return replace(candidate, commit=commit)

    @threaded
    def advance(self, candidate: MergeCandidate) -> bool:
        """Move the plan branch to exactly a candidate's commit. False when the tip is another one by now.

        Then make a new candidate. Doing it twice is harmless. Raises MachineError while the user has the plan branch
        checked out, because that would make the user's files look changed.
        """
        return self._branch.advance(candidate)

    # Looking at trees

    @asynccontextmanager
    async def open_sealed(self, tree: str, *, prepared: PreparedTree | None = None) -> AsyncIterator[SealedCheckout]:
        """A fresh folder with exactly a tree (or a commit's), apart from every agent's. It is removed afterwards."""
        sealed = await self._checkouts.seal(tree, prepared)
        try:
            yield sealed
        finally:
            await self._checkouts.remove(sealed)

    @threaded
    def changes(self, before: str, after: str) -> tuple[TreeChange, ...]:
        """What differs between two trees or commits, sorted by path."""
        return self._objects.changes(before, after)

    @threaded
    def diff(self, before: str, after: str, *, paths: Sequence[str] = (), limit: int = TEXT_LIMIT) -> str:
        """The same as text for people; what is over the limit in bytes is cut off, and says so."""
        return self._objects.diff(before, after, paths=paths, limit=limit)

    @threaded
    def find_covered(self, tree: str, globs: PathMatcher = EVERYTHING) -> CoveredFiles:
        """The files of a tree that globs cover, by their content."""
        return _covered(self._objects.listing(tree), globs)

    @threaded
    def hashes(self, tree: str, globs: Mapping[str, Globs]) -> dict[str, str]:
        """One hash for what each of some globs covers in a tree, by their names."""
        listing = self._objects.listing(tree) if globs else {}
        return {name: _covered(listing, each).digest for name, each in globs.items()}

    @threaded
    def read(self, tree: str, path: str) -> bytes | None:
        """A file of a tree; None if it has none there. Of a symlink, its target."""
        item = self._objects.listing(tree).get(path)
        return next(self._objects.contents([item.oid])) if item and item.mode != tree_reader.SUBMODULE else None

    # What checkouts need beside the tree

    async def prepare(self, tree: str, recipe: PreparationRecipe, *, onto: str | None = None) -> PreparedTree:
        """What a command makes of a clean copy of a tree: once per content of its lock files, then kept.

        What counts is every path that is there afterwards and was not before, e.g. `.venv` or `node_modules`. With
        `onto`, the tree is work that nobody has checked yet, and would come onto that commit: with the same lock files
        the commit is prepared in its place, and with others what is made of it is for this very tree alone. Raises
        MachineError (COMMAND_FAILED) when the command fails, and UsageError (LINK_LEADS_AWAY) when something of it
        leads to another copy of the tree; nothing is kept then.
        """
        return await self._checkouts.prepare(tree, recipe, onto)

    async def furnish(self, clone: Clone, prepared: PreparedTree) -> None:
        """Run the command in a clone itself: for what is bound to its tree. What it changes of the tree is put back."""
        preparation.refuse_failure(await prepared.recipe.run(clone.path, prepared.recipe.command))
        await self._furnished(clone)

    @threaded
    def _furnished(self, clone: Clone) -> None:
        place = self._attempt(clone.attempt)
        listing = self._objects.listing(clone.start)
        index = place / "index"
        index.unlink(missing_ok=True)
        self._objects.checkout(clone.start, clone.path, index)
        state = json.loads((place / "state.json").read_bytes())
        state["foreign"] = sorted({*state["foreign"], *preparation.list_new_paths(clone.path, listing)})
        folders.write(place / "record.json", tree_reader.note_files(clone.path, listing, place / "mark"))
        folders.write(place / "state.json", json.dumps(state).encode())

    async def prepare_key(self, tree: str, command: str) -> str:
        """What decides whether something that was prepared still fits a tree."""
        return await self._checkouts.prepare_key(tree, command)

    # The user's own branch

    @threaded
    def land(self, *, at: datetime, into: str | None = None, commit: str = "") -> LandingResult | LandingRefusal:
        """Bring the plan branch, or a `commit` of it, into the user's branch (`into`, by default what is checked out).

        By fast-forward, or by a merge commit if that has no conflict; and only if nothing in the user's work tree is
        changed and no untracked file is in the way. Else nothing is done, and the answer says why. If a crash cut it
        off, the next call finishes it. In a plain folder, the folder must be as the plan found it.
        """
        return self._landing().land(commit or self._branch.tip(), into, self.plan, at)

    def _landing(self) -> landing.Landing:
        return landing.Landing(self._objects, self._place, self._own, self._home, self.settings.limits)

    # Leftovers

    @threaded
    def sweep(self, keep: Collection[WorkspaceAttempt] = ()) -> None:
        """Remove what is left of earlier lives: half-made folders, checkouts, clones and candidates not in `keep`.

        A `land` that was cut off is finished. For a start, before anything else is done with the workspace. Commits of
        attempts stay.
        """
        keys = {attempt.key for attempt in keep}
        kept = {self._attempt(attempt) for attempt in keep if self._state(attempt) is not None}
        attempts = self._home / "attempts"
        for path in list(attempts.iterdir()) if attempts.is_dir() else []:
            if path not in kept:
                folders.remove(path, self._trash)
        for path in (self._temporary, self._trash):
            folders.empty_folder(path)
        self._checkouts.sweep()
        own = self._branch.mend()
        self._landing().recover()
        stale = [f"{self._own}/{kind}/" for kind in ("starts", "candidates")]
        self._objects.drop_refs(
            ref for ref in own if ref.startswith(tuple(stale)) and ref.rpartition("/")[2] not in keys
        )

    @threaded
    def forget(self) -> None:
        """Remove every ref of the plan but its branch: for a plan that is over. Its attempts can be collected then."""
        self._objects.drop_refs(self._objects.read_refs(self._own))

    @property
    def _temporary(self) -> Path:
        return self._home / "temporary"

    @property
    def _trash(self) -> Path:
        return self._home / "trash"

    def _attempt(self, attempt: WorkspaceAttempt) -> Path:
        """Where a task's clone lies: at one place in every attempt, so that an agent can go on with its session."""
        return self._home / "attempts" / attempt.task

    def _state(self, attempt: WorkspaceAttempt) -> dict[str, Any] | None:
        """What was written down of an attempt's clone; None if what lies there is another attempt's."""
        try:
            state: dict[str, Any] = json.loads((self._attempt(attempt) / "state.json").read_bytes())
        except (OSError, ValueError):
            return None
        return state if state.get("attempt") == attempt.key else None


def _covered(listing: Listing, globs: PathMatcher) -> CoveredFiles:
    found = {path: f"{item.mode} {item.oid}" for path, item in sorted(listing.items()) if globs.covers(path)}
    lines = b"".join(f"{told} ".encode() + os.fsencode(path) + b"\0" for path, told in found.items())
    return CoveredFiles(f"sha256:{sha256(lines).hexdigest()}", found)
