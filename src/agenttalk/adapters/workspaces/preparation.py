"""What checkouts need and no tree holds: `.venv`, `node_modules`, made once per content of the lock files.

What is installed often names its own place, and leads to the tree beside it (`pip install -e .`, workspaces of npm). So
the command is run in a folder of its own, an *environment*, and trees that are to be checked are laid out there, one
after the other, around what it made. What is to be checked at the same time gets another environment.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from agenttalk.adapters.workspaces import folders, installed_links, tree_reader
from agenttalk.adapters.workspaces.installed_links import OutsideLink
from agenttalk.adapters.workspaces.tree_reader import Listing
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.rules.core import scope

LOCK_FILES: Final = scope.read_globs(
    (
        *(
            "package.json",
            "package-lock.json",
            "npm-shrinkwrap.json",
            "yarn.lock",
            "pnpm-lock.yaml",
            "bun.lock",
            "bun.lockb",
        ),
        *("pyproject.toml", "setup.py", "setup.cfg", "requirements*.txt", "requirements/**", "constraints*.txt"),
        *("uv.lock", "poetry.lock", "pdm.lock", "Pipfile", "Pipfile.lock", "environment.yml", ".python-version"),
        *("Cargo.toml", "Cargo.lock", "go.mod", "go.sum", "Gemfile", "Gemfile.lock", "composer.json", "composer.lock"),
        *("pom.xml", "build.gradle*", "gradle.lockfile", "mix.exs", "mix.lock", ".nvmrc", "flake.lock"),
    )
)
"""What decides what is installed. A tree without any of them is prepared anew whenever it changes."""
_CACHES: Final = scope.read_globs(scope.CACHES)
_NAME: Final = re.compile(r"(?P<name>[0-9a-f]{32})-[0-9a-f]{8}\Z")
_NOTE: Final = "made.json"
_REPOSITORY: Final = ".git"


class PreparationRun(NamedTuple):
    """How a command line ended."""

    code: int
    said: str
    """The end of what it said."""


PreparationRunner: TypeAlias = Callable[[Path, str], Awaitable[PreparationRun]]
"""Runs a command line in a folder, which is all that it can write. Nothing of it lives on afterwards."""


@dataclass(frozen=True, slots=True)
class PreparationRecipe:
    """How checkouts are prepared."""

    command: str
    run: PreparationRunner
    isolated: bool = False
    """Whether it runs in a sandbox."""


@dataclass(frozen=True, slots=True)
class PreparedTree:
    """What is prepared for a tree."""

    key: str
    """The same key, the same lock files and command."""
    name: str
    """Under which environments are kept that were made of the same."""
    tree: str
    """What those are made of."""
    recipe: PreparationRecipe
    environment: PreparedEnvironment
    """The first of them."""

    @property
    def isolated(self) -> bool:
        """Whether it was prepared in a sandbox."""
        return self.recipe.isolated

    @property
    def bound(self) -> bool:
        """Whether some of it leads to the tree beside it, and so is of use only there."""
        return bool(self.environment.bound)


@dataclass(frozen=True, slots=True)
class PreparedEnvironment:
    """A folder in which a command was run."""

    folder: Path
    """Where it was made and stays, for what it holds may name its own place. Trees are laid out in there."""
    paths: tuple[str, ...]
    """What the command made in there. Read-only, and to be shown read-only."""
    bound: tuple[str, ...] = ()
    """What of it leads to the tree beside it."""


def preparation_key(listing: Listing, command: str) -> str:
    """What decides whether something prepared still fits."""
    locks = [path for path in sorted(listing) if LOCK_FILES.covers(path)] or sorted(listing)
    told = [command, *(f"{path}\0{listing[path].oid}" for path in locks)]
    return _hash(told)


def environment_name(key: str, recipe: PreparationRecipe, tree: str = "") -> str:
    """Under which environments are kept. `tree` is that of work which nobody has checked: only that one uses them."""
    return _hash([key, str(recipe.isolated), tree])


def _hash(told: list[str]) -> str:
    return sha256("\0\0".join(told).encode(errors="surrogateescape")).hexdigest()[:32]


def list_environments(home: Path, wanted: str) -> list[PreparedEnvironment]:
    """Environments of a name, also those that are not as they were left; see `is_intact`."""
    found = (_read_note(path) for path in sorted(home.glob(f"{wanted}-*")))
    return [each for each in found if each is not None]


def is_intact(environment: PreparedEnvironment) -> bool:
    """Whether it is as it was left. What somebody changed meanwhile is not used."""
    try:
        told = json.loads((environment.folder.parent / _NOTE).read_bytes())
        return bool(told["seal"] == _seal(environment))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _read_note(top: Path) -> PreparedEnvironment | None:
    try:
        told = json.loads((top / _NOTE).read_bytes())
        return PreparedEnvironment(top / "tree", tuple(told["paths"]), tuple(told["bound"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_environment(top: Path, listing: Listing, elsewhere: tuple[Path, ...]) -> PreparedEnvironment:
    """Note what a command made, and make it read-only. Raises UsageError for what leads to another copy of the tree."""
    folder = top / "tree"
    paths = tuple(list_new_paths(folder, listing))
    environment = PreparedEnvironment(folder, paths, tuple(_bound(folder, paths, elsewhere)))
    for path in paths:
        for each in folders.list_below(folder / path):
            if not each.is_symlink():
                each.chmod(each.stat().st_mode & ~0o222)
    told = {"paths": paths, "bound": environment.bound, "seal": _seal(environment)}
    folders.write(top / _NOTE, json.dumps(told).encode())
    return environment


def refuse_leads(top: Path, paths: tuple[str, ...], elsewhere: tuple[Path, ...], setting: str) -> None:
    """Raises UsageError when something that is used with a checkout leads to another copy of its tree."""
    for lead in installed_links.find_outside_links(top, paths):
        _refuse(lead, elsewhere, setting)


def _refuse(lead: OutsideLink, elsewhere: tuple[Path, ...], setting: str) -> None:
    if any(lead.target.is_relative_to(os.path.realpath(each)) for each in elsewhere):
        message = f"{setting}: {lead.where} leads to {lead.target}, so checks would look at that and not at the work"
        hint = "have workspace.prepare install it in the folder where it is run (such as `pip install -e .`)"
        raise UsageError(Code.LINK_LEADS_AWAY, message, hint=hint)


def _bound(folder: Path, paths: tuple[str, ...], elsewhere: tuple[Path, ...]) -> Iterator[str]:
    home = Path(os.path.realpath(folder))
    for lead in installed_links.find_outside_links(folder, paths):
        if lead.target.is_relative_to(home):
            yield str(lead.where)
        else:
            _refuse(lead, elsewhere, "workspace.prepare")


def sweep(home: Path, trash: Path) -> None:
    """Remove what was never finished, or is not as it was left."""
    for path in list(home.iterdir()) if home.is_dir() else []:
        found = _read_note(path) if _NAME.match(path.name) else None
        if found is None or not is_intact(found):
            folders.remove(path, trash)


def refuse_failure(ran: PreparationRun) -> None:
    """Raises MachineError when a command did not end well."""
    if ran.code:
        said = f"workspace.prepare ended with code {ran.code}: {ran.said or 'it said nothing'}"
        raise MachineError(Code.COMMAND_FAILED, said, hint="try it by hand")


def clear_environment(environment: PreparedEnvironment, trash: Path) -> None:
    """Remove everything from an environment but what its command made."""
    ways = {parent for path in environment.paths for parent in tree_reader.parents(path)}
    for each in list(_others(environment.folder, "", frozenset(environment.paths), ways)):
        folders.remove(each, trash) if each.is_dir() and not each.is_symlink() else each.unlink()


def _others(top: Path, path: str, kept: frozenset[str], ways: set[str]) -> Iterator[Path]:
    with os.scandir(top / path) as entries:
        for entry in entries:
            here = f"{path}/{entry.name}" if path else entry.name
            if here in ways and entry.is_dir(follow_symlinks=False):
                yield from _others(top, here, kept, ways)
            elif here not in kept:
                yield top / here


def list_new_paths(top: Path, listing: Listing) -> list[str]:
    """What lies in a folder beside a tree."""
    known = {parent for path in listing for parent in tree_reader.parents(path)}
    return sorted(_walk_new_paths(top, "", listing, known))


def _walk_new_paths(top: Path, path: str, listing: Listing, known: set[str]) -> Iterator[str]:
    with os.scandir(top / path) as entries:
        for entry in entries:
            here = f"{path}/{entry.name}" if path else entry.name
            folder = entry.is_dir(follow_symlinks=False)
            if folder and here in known:
                yield from _walk_new_paths(top, here, listing, known)
            elif here not in listing and here != _REPOSITORY and not _CACHES.covers(here, folder=folder):
                yield here


def _seal(environment: PreparedEnvironment) -> str:
    """Changes whenever any of it was touched: the time of change cannot be set by a program."""
    digest = sha256()
    for path in environment.paths:
        for each in folders.list_below(environment.folder / path):
            status = each.lstat()
            size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
            told = (str(each), status.st_mode, size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            digest.update(repr(told).encode(errors="surrogateescape"))
    return digest.hexdigest()
