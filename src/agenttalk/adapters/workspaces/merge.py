"""Compares trees, and merges commits: an attempt's onto a tip with protected paths restored."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, NamedTuple

from agenttalk.adapters.workspaces import tree_reader
from agenttalk.adapters.workspaces.objects import GitObjects, Kind, TreeChange
from agenttalk.adapters.workspaces.results import WorkspaceAttempt
from agenttalk.adapters.workspaces.tree_reader import TreeEntry
from agenttalk.contracts.core.base import is_id
from agenttalk.rules.changes import changed_files
from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.checks import test_runners
from agenttalk.rules.core.scope import PathMatcher

PLAN, TASK, COMMAND, ATTEMPT, COMMIT, EVIDENCE = (
    f"AgentTalk-{name}" for name in ("Plan", "Task", "Command", "Attempt", "Commit", "Evidence")
)
SUBJECT: Final = 72
"""Characters of the first line of a commit."""
_FAR: Final = 2_000
"""Commits that are followed one by one."""
_MOST_TESTS: Final = 2_000
_NO_FILES: Final = frozenset({tree_reader.SUBMODULE, tree_reader.LINK})
TEXT_LIMIT: Final = 256 * 1024
"""Characters of a diff or a conflict, at most."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The date of temporary commits, which are only inputs of a merge."""


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """A merge that needs a decision."""

    paths: tuple[str, ...]
    text: str
    """The messages of git, then each file with its conflict marks."""


class MergedTree(NamedTuple):
    """A tree, and which protected paths were restored in it."""

    tree: str
    restored: tuple[TreeChange, ...]


def commit_message(plan: str, attempt: WorkspaceAttempt, commit: str = "", evidence: Sequence[str] = ()) -> str:
    """Write the message of a commit.

    `commit` is that of the attempt, in the one that is merged; `evidence` names what that merge rests on.
    """
    trailers = [(PLAN, plan), (TASK, attempt.task), (COMMAND, attempt.command), (ATTEMPT, str(attempt.number))]
    trailers += [(COMMIT, commit)] if commit else []
    trailers += [(EVIDENCE, " ".join(item.split())) for item in evidence]
    lines = "".join(f"{name}: {value}\n" for name, value in trailers)
    return f"{_subject(attempt)}\n\n{lines}"


def _subject(attempt: WorkspaceAttempt) -> str:
    """Return the task's title on one line; without one, the attempt's own name."""
    title = " ".join("".join(char if char.isprintable() else " " for char in attempt.title).split())
    if not title:
        return f"{attempt.task}: {attempt.command}, attempt {attempt.number}"
    return title if len(title) <= SUBJECT else f"{title[: SUBJECT - 1].rsplit(' ', 1)[0]}…"


def list_own_commits(objects: GitObjects, plan: str, first: str, tip: str) -> Iterator[tuple[str, dict[str, str]]]:
    """List commits that the plan put on its branch after `first`, newest first, with their trailers."""
    return ((commit, trailers) for commit, trailers in walk_commits(objects, first, tip) if trailers.get(PLAN) == plan)


def walk_commits(objects: GitObjects, first: str, tip: str) -> Iterator[tuple[str, dict[str, str]]]:
    """List all commits of a branch after `first`, newest first, with their trailers."""
    found = _walk_back(objects, first, tip)
    if found is not None:
        yield from found
        return
    wanted = ("rev-list", "--first-parent", f"{first}..{tip}")  # `first` came by a merge
    for commit in objects.call(*wanted).out.decode().split():
        yield commit, objects.reader.commit(commit).trailers


def _walk_back(objects: GitObjects, first: str, tip: str) -> list[tuple[str, dict[str, str]]] | None:
    """Follow first parents from the tip to a commit; None when they do not lead there soon."""
    found: list[tuple[str, dict[str, str]]] = []
    at = tip
    while at != first:
        commit = objects.reader.commit(at)
        found.append((at, commit.trailers))
        if not commit.parents or len(found) > _FAR:
            return None
        at = commit.parents[0]
    return found


def is_ours(objects: GitObjects, trailers: Mapping[str, str], own: str) -> bool:
    """Return whether the trailers of a commit name an attempt of the plan, and the very commit that was kept of it."""
    if not trailers.get(COMMIT) or not is_id(trailers.get(COMMAND, "")) or not trailers.get(ATTEMPT, "").isdigit():
        return False
    return objects.refs.resolve(f"{own}/attempts/{trailers[COMMAND]}-{trailers[ATTEMPT]}") == trailers[COMMIT]


def list_arrivals(objects: GitObjects, plan: str, own: str, since: str, tip: str) -> list[tuple[str, str | None]]:
    """List commits on a plan's branch after `since`, oldest first, each with the task whose work it is.

    The task is None for commits that no task made. The list is empty if `since` does not lead to the tip.
    """
    if objects.refs.resolve(since) is None:
        return []
    if _walk_back(objects, since, tip) is None and not is_ancestor(objects, since, tip):
        return []
    found = [
        (commit, trailers.get(TASK) if trailers.get(PLAN) == plan and is_ours(objects, trailers, own) else None)
        for commit, trailers in walk_commits(objects, since, tip)
    ]
    return found[::-1]


def restore_protected(objects: GitObjects, commit: str, protected: PathMatcher) -> MergedTree:
    """Restore the protected paths of an attempt's tree, as they were where it started."""
    changes = objects.changes(objects.parent_of(commit), commit)
    meant = {change for change in changes if protected.covers(change.path)}
    above = {parent for change in meant if change.before for parent in tree_reader.parents(change.path)}
    meant |= {
        change for change in changes if change.path in above and change.after
    }  # files that are where folders must be
    tree = objects.alter_tree(commit, {change.path: change.before for change in meant})
    return MergedTree(tree, tuple(sorted(meant)))


def is_ancestor(objects: GitObjects, older: str, newer: str) -> bool:
    """Return whether a commit is another one, or an ancestor of it."""
    return older == newer or objects.call("merge-base", "--is-ancestor", older, newer, ok=(0, 1)).code == 0


def merge_commits(objects: GitObjects, ours: str, theirs: str) -> str | MergeConflict:
    """Merge two commits; return the tree, or the conflict. Checks nothing out."""
    wanted = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages", "--allow-unrelated-histories")
    answer = objects.call(*wanted, ours, theirs, ok=(0, 1))
    tree, _, rest = answer.out.partition(b"\0")
    if answer.code == 0:
        return tree.decode()
    named, _, messages = rest.partition(b"\0\0")
    paths = tuple(dict.fromkeys(os.fsdecode(path) for path in named.split(b"\0") if path))
    return MergeConflict(paths, _describe_conflict(objects, tree.decode(), paths, messages))


def join_trees(objects: GitObjects, ours: str, theirs: str) -> str:
    """Merge two commits; return the tree. If they conflict, it has all that the second one changed."""
    merged = merge_commits(objects, ours, theirs)
    if isinstance(merged, str):
        return merged
    base = objects.call("merge-base", ours, theirs, ok=(0, 1)).line
    if not base:
        return objects.tree_of(theirs)
    before = objects.listing(ours)
    files = dict(before)
    folders = tree_reader.list_folders(before)
    for change in objects.changes(base, theirs):
        if change.after is None:
            files.pop(change.path, None)
            continue
        if change.path in folders:
            for path in [path for path in files if change.path in tree_reader.parents(path)]:
                del files[path]
        for parent in tree_reader.parents(change.path):
            files.pop(parent, None)
        files[change.path] = change.after
    paths = (path for path in {*files, *before} if files.get(path) != before.get(path))
    return objects.alter_tree(ours, {path: files.get(path) for path in paths})


def _describe_conflict(objects: GitObjects, tree: str, paths: Sequence[str], messages: bytes) -> str:
    fields = messages.split(b"\0")
    lines = []
    while len(fields) > 3 and fields[0].isdigit():
        count = int(fields[0])
        lines.append(fields[count + 2].decode(errors="replace").strip())
        fields = fields[count + 3 :]
    listing = objects.listing(tree)
    parts = ["\n".join(lines)]
    left = TEXT_LIMIT
    for path in paths:
        item = listing.get(path)
        if item is None or item.mode not in {tree_reader.FILE, tree_reader.PROGRAM} or left <= 0:
            continue
        text = next(objects.contents([item.oid]))
        if b"\0" not in text[:8000]:
            parts.append(f"--- {path}\n{text[:left].decode(errors='replace')}")
            left -= len(text)
    return "\n".join(parts) + "\n"


def merge(objects: GitObjects, commit: str, tip: str, protected: PathMatcher) -> MergedTree | MergeConflict:
    """Merge an attempt's commit onto a tip, with protected paths as on the tip."""
    tree, restored = restore_protected(objects, commit, protected)
    before = objects.parent_of(commit)
    if before == tip:
        return MergedTree(tree, restored)
    merged = merge_commits(objects, tip, objects.commit(tree, [before], "what an attempt left\n", EPOCH))
    return merged if isinstance(merged, MergeConflict) else MergedTree(merged, restored)


def find_own_changes(
    objects: GitObjects, commits: Iterator[tuple[str, dict[str, str]]], task: str, protected: PathMatcher
) -> tuple[TreeChange, ...]:
    """Find protected paths that a task itself changed by the commits (newest first), and no other task after it."""
    versions: dict[str, tuple[TreeEntry | None, TreeEntry | None]] = {}
    for commit, trailers in reversed(list(commits)):
        for change in objects.changes(objects.parent_of(commit), commit):
            if trailers.get(TASK) != task:
                versions.pop(change.path, None)
            elif protected.covers(change.path):
                first, _ = versions.get(change.path, (change.before, None))
                versions[change.path] = (first, change.after)
    return tuple(
        TreeChange(path, change_kind(before, after), before, after)
        for path, (before, after) in versions.items()
        if before != after
    )


def change_kind(before: TreeEntry | None, after: TreeEntry | None) -> Kind:
    """Return what happened to a path."""
    return "added" if before is None else "deleted" if after is None else "changed"


def show_patch(
    objects: GitObjects, before: str, after: str, *, paths: Sequence[str] = (), limit: int = TEXT_LIMIT
) -> str:
    """Return the difference of two trees as a patch. Cuts it at the limit, and says so."""
    wanted = ("diff-tree", "-r", "-p", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv")
    answer = objects.call(*wanted, "--no-color", before, after, "--", *paths, most=limit)
    text = answer.out.decode(errors="replace")
    return f"{text}\n[cut off after {limit:,} bytes]\n" if answer.cut else text


def hash_patch(objects: GitObjects, before: str, after: str) -> str:
    """Hash a patch without what changes when other lines of its files do: line numbers, and ids of text files."""
    wanted = ("diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv")
    digest = sha256()
    index = b""
    for line in objects.call(*wanted, "--no-color", before, after).out.splitlines(keepends=True):
        if line.startswith(b"index "):
            index = line
            continue
        digest.update(index if line.startswith(b"GIT binary") else b"")
        digest.update(b"@@\n" if line.startswith(b"@@ ") else line)
    return f"sha256:{digest.hexdigest()}"


def read_changed_files(objects: GitObjects, changes: Sequence[TreeChange]) -> tuple[ChangedFile, ...]:
    """Read the contents of changed files, before and after the change."""
    return changed_files.pair_moves(
        [
            ChangedFile(change.path, _read_content(objects, change.before), _read_content(objects, change.after))
            for change in changes
        ]
    )


def read_tests(objects: GitObjects, tree: str) -> tuple[bytes, ...]:
    """Read the tests of a tree, as far as their names tell, the first of them by path."""
    listing = objects.listing(tree)
    paths = sorted(path for path in listing if test_runners.is_test(path) and listing[path].mode not in _NO_FILES)
    return tuple(data for data in objects.contents([listing[path].oid for path in paths[:_MOST_TESTS]]) if data)


def _read_content(objects: GitObjects, entry: TreeEntry | None) -> bytes | None:
    if entry is None:
        return None
    if entry.mode == tree_reader.SUBMODULE:  # its commit is all that the repository knows
        return entry.oid.encode()
    data = next(objects.contents([entry.oid]))
    return data + b"\n\0mode " + entry.mode.encode() if entry.mode == tree_reader.LINK else data
