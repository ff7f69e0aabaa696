"""Prepares what checkouts need and no tree holds: `.venv`, `node_modules`, made once per content of the lock files.

Installed files often contain their own path, and point to the tree beside them (`pip install -e .`, workspaces of npm).
So the command runs in a folder of its own, an *environment*, and the trees to check are checked out there, one after
the other, around what it made. Trees that are checked at the same time get different environments.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from agenttalk.adapters.workspaces import folders, tree_reader
from agenttalk.adapters.workspaces.async_methods import threaded
from agenttalk.adapters.workspaces.objects import GitObjects
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
"""Files that decide what is installed. A tree without any of them is prepared again whenever it changes."""
_LISTS: Final = (".pth", ".egg-link")
"""Files whose lines are folders."""
_FINDER: Final = "__editable__"
"""How the names of modules begin that find packages elsewhere."""
_QUOTED: Final = re.compile(r"""(['"])(/[^'"\n]+)\1""")
_PROGRAMS: Final = ("bin", ".bin")
"""Folders of links to programs, such as the interpreter. A package that they belong to has a link of its own."""
_LARGEST: Final = 1 << 20
_CACHES: Final = scope.read_globs(scope.CACHES)
_NAME: Final = re.compile(r"(?P<name>[0-9a-f]{32})-[0-9a-f]{8}\Z")
_NOTE: Final = "made.json"
_REPOSITORY: Final = ".git"


class PreparationRun(NamedTuple):
    """How a command line ended."""

    code: int
    said: str
    """The end of its output."""


PreparationRunner: TypeAlias = Callable[[Path, str], Awaitable[PreparationRun]]
"""Runs a command line in a folder, which is all that it can write. No process of it survives."""


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
    """Equal keys mean equal lock files and commands."""
    name: str
    """The name of environments that were made from the same."""
    tree: str
    """The tree that they were made from."""
    recipe: PreparationRecipe
    environment: PreparedEnvironment
    """The first of them."""

    @property
    def isolated(self) -> bool:
        """Whether it was prepared in a sandbox."""
        return self.recipe.isolated

    @property
    def bound(self) -> bool:
        """Whether some of it points to the tree beside it, so that it is useful only there."""
        return bool(self.environment.bound)


@dataclass(frozen=True, slots=True)
class PreparedEnvironment:
    """A folder in which a command ran."""

    folder: Path
    """Where it was made and stays, because its content may contain its own path. Trees are checked out there."""
    paths: tuple[str, ...]
    """What the command made there. Read-only, also in a sandbox."""
    bound: tuple[str, ...] = ()
    """What of it points to the tree beside it."""


def preparation_key(listing: Listing, command: str) -> str:
    """Compute the key that says whether something prepared still fits."""
    locks = [path for path in sorted(listing) if LOCK_FILES.covers(path)] or sorted(listing)
    parts = [command, *(f"{path}\0{listing[path].oid}" for path in locks)]
    return _hash(parts)


def environment_name(key: str, recipe: PreparationRecipe, tree: str = "") -> str:
    """Return the name of environments. `tree` is that of unchecked work: only that one uses them."""
    return _hash([key, str(recipe.isolated), tree])


def _hash(told: list[str]) -> str:
    return sha256("\0\0".join(told).encode(errors="surrogateescape")).hexdigest()[:32]


def list_environments(home: Path, wanted: str) -> list[PreparedEnvironment]:
    """List the environments of a name, including changed ones; see `is_intact`."""
    environments = (_read_note(path) for path in sorted(home.glob(f"{wanted}-*")))
    return [environment for environment in environments if environment is not None]


def is_intact(environment: PreparedEnvironment) -> bool:
    """Return whether it is as it was left. A changed one is not used."""
    try:
        note = json.loads((environment.folder.parent / _NOTE).read_bytes())
        return bool(note["seal"] == _seal(environment))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _read_note(top: Path) -> PreparedEnvironment | None:
    try:
        note = json.loads((top / _NOTE).read_bytes())
        return PreparedEnvironment(top / "tree", tuple(note["paths"]), tuple(note["bound"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_environment(top: Path, listing: Listing, elsewhere: tuple[Path, ...]) -> PreparedEnvironment:
    """Record what a command made, and make it read-only. Raises UsageError if it points to another copy of the tree."""
    folder = top / "tree"
    paths = tuple(list_new_paths(folder, listing))
    environment = PreparedEnvironment(folder, paths, tuple(_bound(folder, paths, elsewhere)))
    for path in paths:
        for entry in folders.list_below(folder / path):
            if not entry.is_symlink():
                entry.chmod(entry.stat().st_mode & ~0o222)
    note = {"paths": paths, "bound": environment.bound, "seal": _seal(environment)}
    folders.write(top / _NOTE, json.dumps(note).encode())
    return environment


def refuse_lead(lead: OutsideLink, elsewhere: tuple[Path, ...], setting: str) -> None:
    """Raise UsageError when something that is used with a checkout leads to another copy of its tree."""
    if any(lead.target.is_relative_to(os.path.realpath(copy)) for copy in elsewhere):
        message = f"{setting}: {lead.where} leads to {lead.target}, so checks would test that and not the work"
        hint = "have workspace.prepare install it in the folder where it is run (such as `pip install -e .`)"
        raise UsageError(Code.LINK_LEADS_AWAY, message, hint=hint)


def _bound(folder: Path, paths: tuple[str, ...], elsewhere: tuple[Path, ...]) -> Iterator[str]:
    home = Path(os.path.realpath(folder))
    for lead in find_outside_links(folder, paths):
        if lead.target.is_relative_to(home):
            yield str(lead.where)
        else:
            refuse_lead(lead, elsewhere, "workspace.prepare")


def refuse_failure(ran: PreparationRun) -> None:
    """Raise MachineError when a command failed."""
    if ran.code:
        message = f"workspace.prepare ended with code {ran.code}: {ran.said or 'no output'}"
        raise MachineError(Code.COMMAND_FAILED, message, hint="run it by hand to see the error")


def clear_environment(environment: PreparedEnvironment, trash: Path) -> None:
    """Remove everything from an environment but what its command made."""
    ways = tree_reader.list_folders(environment.paths)
    for entry in list(_others(environment.folder, "", frozenset(environment.paths), ways)):
        folders.remove(entry, trash) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _others(top: Path, path: str, kept: frozenset[str], ways: set[str]) -> Iterator[Path]:
    with os.scandir(top / path) as entries:
        for entry in entries:
            here = f"{path}/{entry.name}" if path else entry.name
            if here in ways and entry.is_dir(follow_symlinks=False):
                yield from _others(top, here, kept, ways)
            elif here not in kept:
                yield top / here


def list_new_paths(top: Path, listing: Listing) -> list[str]:
    """List what a folder contains beside a tree."""
    known = tree_reader.list_folders(listing)
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
    """Hash what changes whenever a file is touched: no program can set the time of change."""
    digest = sha256()
    for path in environment.paths:
        for entry in folders.list_below(environment.folder / path):
            status = entry.lstat()
            size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
            facts = (str(entry), status.st_mode, size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            digest.update(repr(facts).encode(errors="surrogateescape"))
    return digest.hexdigest()


class OutsideLink(NamedTuple):
    """Something that points elsewhere."""

    where: Path
    target: Path
    """A real path."""


def find_outside_links(top: Path, paths: Iterable[str]) -> Iterator[OutsideLink]:
    """Find what in some paths of a folder points out of those paths."""
    own = [Path(os.path.realpath(top / path)) for path in paths]
    for path in own:
        for entry in folders.list_below(path):
            for target in _targets(entry):
                real = Path(os.path.realpath(target))
                if not any(real.is_relative_to(home) for home in own):
                    yield OutsideLink(entry, real)


def _targets(path: Path) -> Iterator[Path]:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        if path.parent.name not in _PROGRAMS or not path.is_file():
            yield path
    elif stat.S_ISREG(mode) and (path.suffix in _LISTS or path.name.startswith(_FINDER)):
        with suppress(OSError):
            text = path.read_bytes()[:_LARGEST].decode(errors="replace")
            yield from (Path(target) for _, target in _QUOTED.findall(text))
            if path.suffix in _LISTS:
                yield from (path.parent / line.strip() for line in text.splitlines() if _is_folder(line))


def _is_folder(line: str) -> bool:
    return bool(line.strip()) and not line.startswith(("#", "import ", "import\t")) and "\0" not in line


class PreparedEnvironments:
    """Makes environments below `home`, and says which of them are in use. `copies` are other places of their trees."""

    def __init__(self, objects: GitObjects, home: Path, trash: Path, copies: tuple[Path, ...]) -> None:
        self._objects = objects
        self._home = home
        self._trash = trash
        self._copies = copies
        self._taken: set[Path] = set()
        """Those that are in use."""
        self._preparing = asyncio.Lock()

    async def prepare(self, tree: str, recipe: PreparationRecipe, *, onto: str | None = None) -> PreparedTree:
        """Run a command in a clean copy of a tree, once per content of its lock files, and keep what it makes.

        Kept is every path that is there afterwards and was not before, for example `.venv` or `node_modules`. With
        `onto`, the tree is unchecked work on top of that commit: with the same lock files the commit is prepared
        instead, and with others the result is for this tree alone. Raises MachineError (COMMAND_FAILED) when the
        command fails, and UsageError (LINK_LEADS_AWAY) when the result refers to another copy of the tree; nothing is
        kept then.
        """
        key, name, source = await self._named(tree, recipe, onto)
        async with self._preparing:
            intact = await self._intact(name, frozenset())
            environment = intact or await self._make(name, source, recipe)
        return PreparedTree(key, name, source, recipe, environment)

    @threaded
    def prepare_key(self, tree: str, command: str) -> str:
        """Compute the key that says whether something prepared still fits a tree."""
        return preparation_key(self._objects.listing(tree), command)

    @threaded
    def _named(self, tree: str, recipe: PreparationRecipe, onto: str | None) -> tuple[str, str, str]:
        """Return the key, the name, and the tree to prepare: that of the branch, if its lock files are the same."""
        key = preparation_key(self._objects.listing(tree), recipe.command)
        if onto is None or key == preparation_key(self._objects.listing(onto), recipe.command):
            return key, environment_name(key, recipe), onto or tree
        return key, environment_name(key, recipe, self._objects.tree_of(tree)), tree

    @asynccontextmanager
    async def open(self, prepared: PreparedTree) -> AsyncIterator[PreparedEnvironment]:
        """Reserve an environment that is not in use. Afterwards nothing is left in it but what its command made."""
        environment = await self._reserve(prepared)
        try:
            try:
                yield environment
            finally:
                await self._clear(environment)
        finally:
            self._taken.discard(environment.folder)

    async def _reserve(self, prepared: PreparedTree) -> PreparedEnvironment:
        async with self._preparing:
            intact = await self._intact(prepared.name, frozenset(self._taken))
            environment = intact or await self._make(prepared.name, prepared.tree, prepared.recipe)
            self._taken.add(environment.folder)
            return environment

    @threaded
    def _intact(self, name: str, taken: frozenset[Path]) -> PreparedEnvironment | None:
        free = (environment for environment in list_environments(self._home, name) if environment.folder not in taken)
        return next((environment for environment in free if is_intact(environment)), None)

    async def _make(self, name: str, tree: str, recipe: PreparationRecipe) -> PreparedEnvironment:
        top = await self._copy(name, tree)
        try:
            refuse_failure(await recipe.run(top / "tree", recipe.command))
            return await self._keep(top, tree)
        except BaseException:
            await self._remove(top)
            raise

    @threaded
    def _copy(self, name: str, tree: str) -> Path:
        top = self._home / f"{name}-{os.urandom(4).hex()}"
        (top / "tree").mkdir(parents=True)
        self._objects.checkout(tree, top / "tree", top / "index")
        return top

    @threaded
    def _keep(self, top: Path, tree: str) -> PreparedEnvironment:
        return keep_environment(top, self._objects.listing(tree), self._copies)

    @threaded
    def _clear(self, environment: PreparedEnvironment) -> None:
        clear_environment(environment, self._trash)

    @threaded
    def _remove(self, top: Path) -> None:
        folders.remove(top, self._trash)

    def sweep(self) -> None:
        """Remove what was never finished, or has changed."""
        for path in list(self._home.iterdir()) if self._home.is_dir() else []:
            environment = _read_note(path) if _NAME.match(path.name) else None
            if environment is None or not is_intact(environment):
                folders.remove(path, self._trash)
