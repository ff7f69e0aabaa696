"""Takes the tree of an agent elsewhere out of a pack. The pack is hostile until every rule has been checked.

git unpacks it in a quarantine: a repository of its own, which borrows the user's objects and is removed afterwards.
Of the pack only contents of files go into the user's repository, and these only when the work is taken. The engine
makes trees and the commit itself. So a pack can change a tree and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from agenttalk.adapters.workspaces import folders, names, snapshots, tree_reader
from agenttalk.adapters.workspaces.git import Git, GitLocation, make_git_dir
from agenttalk.adapters.workspaces.object_reader import Folder, GitCommit, ObjectReader, TreeItem
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.paths import WorkspaceHome
from agenttalk.adapters.workspaces.transport.pack_size import PackLimits, measure_pack, refuse_pack
from agenttalk.adapters.workspaces.tree_reader import (
    FILE,
    LINK,
    MAX_DEPTH,
    PROGRAM,
    SUBMODULE,
    Reason,
    TreeCheck,
    TreeEntry,
    TreeRules,
)
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.rules.core.scope import IgnoreRules
from agenttalk.rules.text import check_words

_SECONDS: Final = 120.0
"""Seconds that git may take for a pack."""
_PIECE: Final = 1 << 20
_LONGEST_LINK: Final = 4096
MOST_CHANGES: Final = 200_000
"""Paths that one attempt may change."""


class ObjectFact(NamedTuple):
    """What a name in a pack stands for."""

    kind: str
    size: int


class TreeDifference(NamedTuple):
    """A path that the agent changed."""

    was: TreeItem | None
    now: TreeItem | None


@dataclass(frozen=True, slots=True)
class SubmittedTree:
    """What a pack changes."""

    commit: str
    changes: dict[str, TreeEntry | None]
    """Path → what is there now; None if it is gone."""
    left_out: tuple[str, ...] = ()
    """New paths that are ignored: they are not part of the work."""


class PackReceiver:
    """Takes trees out of packs that are built on commits of one plan."""

    def __init__(self, objects: GitObjects, home: WorkspaceHome, limits: PackLimits) -> None:
        self._objects = objects
        self._home = home
        self._limits = limits

    def receive(self, pack: Path, start: str, onto: str, *, keep: bool) -> SubmittedTree | tuple[Reason, ...]:
        """Take the tree out of a pack, or return why it is refused. `keep` copies the contents of its new files.

        The pack has to hold one commit, whose only parent is `start`. What is ignored is decided by `onto`. Raises
        UsageError for any other pack.
        """
        end = measure_pack(pack, self._limits, self._id_bytes)
        with self._quarantined(pack) as location:
            facts = self._list_objects(location, end)
            reader = ObjectReader(lambda: self._git.start("cat-file", "--batch", at=location), self._git.limit)
            try:
                commit = self._find_commit(reader, facts, start)
                found = dict(self._compare(reader, facts, start, reader.commit(commit).tree))
                check = _ChangeCheck(self._rules(start, onto), facts, self._limits)
                check.run(found, reader)
                if check.reasons:
                    return tuple(check.reasons)
                if keep:
                    self._objects.write_blobs(_read_contents(reader, check.new_contents))
                return SubmittedTree(commit, check.changes, tuple(check.left_out))
            finally:
                reader.close()

    @property
    def _id_bytes(self) -> int:
        return 20 if self._objects.algorithm == "sha1" else 32

    @property
    def _git(self) -> Git:
        return replace(self._objects.git, limit=_SECONDS)

    @contextmanager
    def _quarantined(self, pack: Path) -> Iterator[GitLocation]:
        """Unpack a pack into a repository of its own."""
        top = folders.make_fresh_folder(self._home.temporary)
        try:
            make_git_dir(top, self._objects.algorithm)
            (top / "objects" / "info" / "alternates").write_text(f"{self._objects.store}\n")
            shallow = self._objects.refs.location.git_dir / "shallow"
            if shallow.exists():
                (top / "shallow").write_bytes(shallow.read_bytes())
            at = GitLocation(top)
            wanted = ("index-pack", "--strict", "--fix-thin", "--threads=1", "--stdin")
            answer = self._git.call(*wanted, at=at, stdin=_read_pieces(pack), ok=(0, 1, 128))
            if answer.code:
                raise refuse_pack(f"git refuses it: {answer.error[:400] or 'it cannot be unpacked'}")
            yield at
        finally:
            folders.remove(top, self._home.trash)

    def _list_objects(self, at: GitLocation, end: int) -> dict[str, ObjectFact]:
        """List what was sent; behind `end` lies what git added to complete deltas."""
        [index] = (at.git_dir / "objects" / "pack").glob("*.idx")
        with index.open("rb") as file:
            lines = self._git.call("show-index", f"--object-format={self._objects.algorithm}", at=at, stdin=file.read())
        sent = [name for offset, name, *_ in map(bytes.split, lines.out.splitlines()) if int(offset) < end]
        asked = b"".join(name + b"\n" for name in sent)
        told = self._git.call("cat-file", "--batch-check", at=at, stdin=asked).out.decode().splitlines()
        return {name: ObjectFact(kind, int(size)) for name, kind, size in map(str.split, told)}

    def _find_commit(self, reader: ObjectReader, facts: dict[str, ObjectFact], start: str) -> str:
        """Return the one commit of a pack. Raises UsageError unless it is built on `start` alone."""
        if any(fact.kind == "tag" for fact in facts.values()):
            raise refuse_pack("it has a tag")
        commits = [name for name, fact in facts.items() if fact.kind == "commit"]
        if len(commits) != 1:
            raise refuse_pack(f"it has {len(commits)} commits, and has to have one")
        commit: GitCommit = reader.commit(commits[0])
        if commit.parents != (start,):
            named = ", ".join(parent[:12] for parent in commit.parents[:5]) or "none"
            raise refuse_pack(f"the parent of its commit has to be the base {start[:12]} alone, and it names {named}")
        return commits[0]

    def _compare(
        self, reader: ObjectReader, facts: dict[str, ObjectFact], start: str, tree: str
    ) -> Iterator[tuple[str, TreeDifference]]:
        """Iterate over the paths that differ. Raises UsageError when there are too many, or it looks elsewhere.

        A tree can name itself through others so often that no machine could list it, and can name trees of the
        repository that the agent was never given.
        """
        base = self._objects.reader
        given = self._given_folders(base, base.tree_of(start))
        pending: list[tuple[str, str, str, int]] = [("", base.tree_of(start), tree, 0)]
        count = 0
        while pending:
            top, before, after, depth = pending.pop()
            if depth > MAX_DEPTH:
                raise refuse_pack(f"{top[:200]!r}: {check_words.TOO_NESTED(depth=MAX_DEPTH)}")
            if after and after not in facts and after not in given:
                raise refuse_pack(f"{top[:200] or 'the tree'!r} is neither in the pack nor in the base")
            old: Folder = base.folder(before) if before else {}
            new: Folder = reader.folder(after) if after else {}
            for name in sorted(old.keys() | new.keys()):
                was, now = old.get(name), new.get(name)
                if was == now:
                    continue
                count += 1
                if count > MOST_CHANGES:
                    raise refuse_pack(f"it changes more than {MOST_CHANGES:,} paths")
                path = top + os.fsdecode(name)
                folder_was, folder_now = was is not None and was.is_folder, now is not None and now.is_folder
                if folder_was or folder_now:
                    pending.append(
                        (
                            f"{path}/",
                            was.oid if was and folder_was else "",
                            now.oid if now and folder_now else "",
                            depth + 1,
                        )
                    )
                file_was, file_now = (None if folder_was else was), (None if folder_now else now)
                if file_was is not None or file_now is not None:
                    yield path, TreeDifference(file_was, file_now)

    @staticmethod
    def _given_folders(reader: ObjectReader, tree: str) -> set[str]:
        """Return every tree of the base."""
        found, pending = set(), [tree]
        while pending:
            oid = pending.pop()
            if oid not in found:
                found.add(oid)
                pending += [item.oid for item in reader.folder(oid).values() if item.is_folder]
        return found

    def _rules(self, start: str, onto: str) -> TreeRules:
        known = self._objects.listing(start)
        return TreeRules(
            known=known,
            ignored=snapshots.ignored_by(self._objects, known if start == onto else self._objects.listing(onto)),
            hasher=self._objects.blob_id,
            known_links=lambda: snapshots.links_of(self._objects, known),
        )


class _ChangeCheck(TreeCheck):
    """Judges the paths that an agent elsewhere changed, as `FolderWalk` judges those of a clone."""

    def __init__(self, rules: TreeRules, facts: dict[str, ObjectFact], limits: PackLimits) -> None:
        super().__init__(rules)
        self._facts = facts
        self._limits = limits
        self._ignored: IgnoreRules = rules.ignored
        self._given = {item.oid for item in rules.known.values()}
        self.listing = dict(rules.known)
        self.changes: dict[str, TreeEntry | None] = {}
        self.left_out: list[str] = []
        self.new_contents: dict[str, None] = {}
        """Names of contents that the repository does not have from the base, in their order."""

    def run(self, found: dict[str, TreeDifference], reader: ObjectReader) -> None:
        """Read the changes into `changes`, `left_out` and `reasons`."""
        for path, (_, now) in sorted(found.items()):
            if now is None:
                if self._known[path].mode != SUBMODULE:
                    self._set(path, None)
                else:
                    self._refuse(path, check_words.IS_SUBMODULE())
            elif self._is_accepted(path):
                self._enter(path, now)
        if len(self.listing) > self._rules.limits.paths:
            self._refuse("", check_words.TOO_MANY_FILES(limit=self._rules.limits.paths))
        if self.reasons:
            self.reasons.sort()
            return
        known = self._rules.known_links()
        for path, item in self.listing.items():
            if item.mode == LINK:
                same = self._known.get(path) == item and path in known
                self._links[path] = known[path] if same else os.fsdecode(reader.read(item.oid)[1])
        self._check_links()
        self._check_names()
        self._check_collisions()
        self.reasons.sort()

    def _set(self, path: str, item: TreeEntry | None) -> None:
        self.changes[path] = item
        if item is None:
            self.listing.pop(path, None)
        else:
            self.listing[path] = item

    def _is_accepted(self, path: str) -> bool:
        """Return whether a path is part of the work. One that is ignored is left out, one with a bad name refused."""
        steps = path.split("/")
        for at in range(1, len(steps) + 1):
            here, folder = "/".join(steps[:at]), at < len(steps)
            known = self._is_known(here)
            if not known and names.is_git_name(steps[at - 1]):
                self._refuse(here, names.describe_refusal(here))
                return False
            ignored = (folder or not known) and self._ignored.ignores(here, folder=folder)
            if ignored and path not in self._known:
                self.left_out.append(path)
                return False
            if not known and (why := names.describe_refusal(here)):
                self._refuse(here, why)
                return False
        return True

    def _enter(self, path: str, item: TreeItem) -> None:
        was = self._known.get(path)
        if item.mode == SUBMODULE or (was is not None and was.mode == SUBMODULE):
            self._refuse(path, check_words.IS_SUBMODULE())
            return
        if item.mode not in {FILE, PROGRAM, LINK}:
            self._refuse(path, check_words.NO_PLAIN_FILE())
            return
        fact = self._facts.get(item.oid)
        if fact is None and item.oid not in self._given:
            self._refuse(path, check_words.NOT_GIVEN())
            return
        most = _LONGEST_LINK if item.mode == LINK else self._limits.object_bytes
        if fact is not None and (fact.kind != "blob" or fact.size > most):
            self._refuse(path, check_words.TOO_LARGE(limit=most))
            return
        if item.oid not in self._given:
            self.new_contents[item.oid] = None
        self._set(path, TreeEntry(item.mode, item.oid))

    def _check_collisions(self) -> None:
        """Find names of one folder that some file system would take for the same."""
        new = {path for path, item in self.changes.items() if item is not None and path not in self._known}
        touched = {above for path in new for above in ("", *tree_reader.parents(path))}
        met: dict[str, dict[str, str]] = {folder: {} for folder in touched}
        for path in (*self._known.keys() & self.listing.keys(), *sorted(new)):
            child = path
            for above in (*tree_reader.parents(path), ""):
                if above in met:
                    self._collide(met[above], child, child.rpartition("/")[2])
                child = above


def _read_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _read_contents(reader: ObjectReader, oids: Iterable[str]) -> Iterator[bytes]:
    for oid in oids:
        kind, data = reader.read(oid)
        if kind != "blob":
            raise MachineError(Code.PACK_REFUSED, "a content changed while it was read")
        yield data
