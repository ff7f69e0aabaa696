"""A look at a user's folder before a plan begins there: what the plan would begin with, and what it would not see."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agenttalk.errors import Code, MachineError, UsageError
from agenttalk.rules.scope import DEFAULT_EXCLUDES, globs
from agenttalk.workspaces import merging, places
from agenttalk.workspaces.git import At, Git
from agenttalk.workspaces.objects import Objects
from agenttalk.workspaces.places import Place

_LEFT_BEHIND: Final = globs(DEFAULT_EXCLUDES)
_LIMIT: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Survey:
    """What lies in a user's folder."""

    paths: tuple[str, ...] = ()
    """Files with which a plan would begin."""
    uncommitted: tuple[str, ...] = ()
    """Files that differ from the last commit, or are in none: a plan does not see that."""


def survey(folder: Path, base: str | None = None) -> Survey:
    """Look at a folder. Raises UsageError when it is none, or has no such base."""
    with tempfile.TemporaryDirectory(prefix="agenttalk-") as home:
        nothing = Path(home) / "nothing"
        nothing.mkdir()
        git = Git(nothing)
        place = places.find(folder.absolute(), Path(home), git)
        if place.plain:
            return Survey(tuple(_walked(folder)))
        listed = git.call(
            *("ls-tree", "-r", "--name-only", "-z", "--full-tree", base or "HEAD"),
            at=At(place.git_dir),
            ok=(0, 128),
            most=_LIMIT,
        )
        if listed.code:
            hint = "name a branch that exists as workspace.base" if base else "make a first commit"
            raise UsageError(Code.NAME_UNKNOWN, f"{str(folder)!r} has no commit {base or 'HEAD'!r}", hint=hint)
        paths = tuple(os.fsdecode(path) for path in listed.out.split(b"\0") if path)
        return Survey(paths, uncommitted(git, place))


def uncommitted(git: Git, place: Place) -> tuple[str, ...]:
    """Files of a work tree that differ from the last commit, or are in none. Nothing of a bare repository."""
    if not (place.folder / ".git").exists():
        return ()
    wanted = ("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all")
    with _index(place) as index:
        told = git.call(*wanted, at=At(place.git_dir, index=index, tree=place.folder), most=_LIMIT).out
    found = (os.fsdecode(entry[3:]) for entry in told.split(b"\0") if len(entry) > 3)
    return tuple(path for path in found if not _LEFT_BEHIND.covers(path))


def taken_along(objects: Objects, place: Place, head: str, plan: str) -> str:
    """A commit of a work tree as it is, on top of what is checked out. Neither branch nor index of the user moves.

    The commit itself if there is nothing to take along.
    """
    if not uncommitted(objects.git, place):
        return head
    with _index(place) as index:
        at = At(place.git_dir, index=index, tree=place.folder)
        try:
            objects.git.call("add", "--all", "--", ".", at=at)
            tree = objects.git.call("write-tree", at=at).line
        except MachineError as error:
            message = f"what is not committed in {str(place.folder)!r} cannot be taken along: {error.message}"
            hint = "commit it, or finish the merge that is under way"
            raise UsageError(Code.FILE_UNSAFE, message, hint=hint) from error
    message = f"What was not committed when plan {plan} began\n\n{merging.PLAN}: {plan}\n"
    return objects.commit(tree, [head], message, merging.EPOCH)


@contextmanager
def _index(place: Place) -> Iterator[Path]:
    """A copy of a user's index, which git may change."""
    with tempfile.TemporaryDirectory(prefix="agenttalk-") as home:
        copy = Path(home) / "index"
        if (place.git_dir / "index").exists():
            shutil.copyfile(place.git_dir / "index", copy)
        yield copy


def _walked(folder: Path) -> Iterator[str]:
    for top, inner, names in os.walk(folder):
        here = os.path.relpath(top, folder)
        inner[:] = [name for name in inner if not _LEFT_BEHIND.covers(name, folder=True)]
        yield from (name if here == "." else f"{here}/{name}" for name in names)
