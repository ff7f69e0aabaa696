"""Merges an attempt's commit onto a tip, with protected paths restored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from agenttalk.adapters.workspaces import tree_reader
from agenttalk.adapters.workspaces.objects import GitObjects, Kind, MergeConflict, TreeChange
from agenttalk.adapters.workspaces.results import WorkspaceAttempt
from agenttalk.adapters.workspaces.tree_reader import TreeEntry
from agenttalk.contracts.core.base import is_id
from agenttalk.rules.core.scope import PathMatcher

PLAN, TASK, COMMAND, ATTEMPT, COMMIT, EVIDENCE = (
    f"AgentTalk-{name}" for name in ("Plan", "Task", "Command", "Attempt", "Commit", "Evidence")
)
SUBJECT: Final = 72
"""Characters of the first line of a commit."""
_FAR: Final = 2_000
"""Commits that are followed one by one."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The date of temporary commits, which are only inputs of a merge."""


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
    if _walk_back(objects, since, tip) is None and not objects.is_ancestor(since, tip):
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


def merge(objects: GitObjects, commit: str, tip: str, protected: PathMatcher) -> MergedTree | MergeConflict:
    """Merge an attempt's commit onto a tip, with protected paths as on the tip."""
    tree, restored = restore_protected(objects, commit, protected)
    before = objects.parent_of(commit)
    if before == tip:
        return MergedTree(tree, restored)
    merged = objects.merge(tip, objects.commit(tree, [before], "what an attempt left\n", EPOCH))
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
