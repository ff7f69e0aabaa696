"""Trees that are checked out away from agents, with what a checkout needs beside the tree."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from agenttalk.adapters.workspaces import folders, preparation, tree_reader
from agenttalk.adapters.workspaces.async_methods import threaded
from agenttalk.adapters.workspaces.link_layout import LinkLayout
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.paths import WorkspaceFolder
from agenttalk.adapters.workspaces.preparation import PreparedEnvironment, PreparedEnvironments, PreparedTree
from agenttalk.adapters.workspaces.results import SealedCheckout
from agenttalk.adapters.workspaces.sealed_trees import (
    CheckRepositories,
    LayeredTree,
    LayeredTrees,
    WarmTree,
    lay_over_warm,
    write_fresh,
)
from agenttalk.adapters.workspaces.tree_reader import Listing
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.ports.agents import UserPlace

_MANY: Final = 1_000
"""Files below which a checkout costs next to nothing."""
_IDLE: Final = 8
"""Folders that are kept for the next tree."""


class Checkouts:
    """Makes checkouts below `home`. `link` names paths of the user's folder that are linked into each."""

    def __init__(
        self,
        objects: GitObjects,
        home: Path,
        trash: Path,
        folder: Path,
        link: tuple[str, ...],
        overlay_files: int = 0,
        place: WorkspaceFolder | None = None,
        base: Callable[[], str] = str,
    ) -> None:
        """With a `place`, sandboxed checks see trees there, with a .git whose history begins at `base`."""
        self._objects = objects
        self._sealed = home / "sealed"
        self._trash = trash
        self._folder = folder
        self._links = {path: folder / path for path in link}
        self._copies = (folder, home)
        """Where other copies of the tree are."""
        self._layout: LinkLayout | None = None
        self.environments = PreparedEnvironments(objects, home / "prepared", trash, self._copies)
        self._guard = threading.Lock()
        self._idle: list[WarmTree] = []
        """Folders for trees that are not in use."""
        self._layered = LayeredTrees(objects, self._sealed, trash)
        self._overlay_files = overlay_files
        self._place = place
        self._repositories = CheckRepositories(objects, place, home / "temporary", base) if place is not None else None

    @asynccontextmanager
    async def open_sealed(
        self, tree: str, *, prepared: PreparedTree | None = None, layered: bool = False
    ) -> AsyncIterator[SealedCheckout]:
        """Open a folder with exactly a tree (or a commit's), out of reach of agents.

        What was left there is removed before the next tree is laid out in it. A `layered` one may be an overlay, which
        only programs in its `namespace` see.
        """
        if prepared is None:
            opened: list[LayeredTree | WarmTree] = []  # also what was opened for a caller that was cancelled meanwhile
            try:
                yield await self._seal(tree, opened, layered=layered)
            finally:
                for each in opened:
                    await self._set_aside(each)
            return
        async with self.environments.open(prepared) as environment:
            yield await self._lay(tree, environment)

    @threaded
    def _seal(self, tree: str, opened: list[LayeredTree | WarmTree], *, layered: bool) -> SealedCheckout:
        """Lay a tree out: in an overlay, or in a folder that was used before and is proven clean, or in a fresh one."""
        listing = self._objects.listing(tree)
        overlay = self._layered.open(tree) if layered and len(listing) >= self._overlay_files else None
        if overlay is not None:
            opened.append(overlay)
            top = overlay.path.resolve()
            links = self.link_paths(overlay.path, listing, final=top)
            place = self._find_place(tree, top)
            return SealedCheckout(overlay.path, tuple(links.values()), namespace=overlay.namespace, place=place)
        with self._guard:
            old = self._idle.pop() if self._idle else None
        warm = None
        if old is not None:
            try:
                warm = lay_over_warm(self._objects, old, listing)
            except (OSError, MachineError):  # what was left there cannot be removed, or is in git's way
                warm = None
            if warm is None:
                folders.remove(old.top, self._trash)
        if warm is None:
            warm = write_fresh(self._objects, tree, self._sealed)
        opened.append(warm)
        links = self.link_paths(warm.path, listing)
        return SealedCheckout(
            warm.path, tuple(links.values()), place=self._find_place(tree, warm.path) if layered else None
        )

    def write_clone(self, tree: str, target: Path, index: Path, *, shared: bool) -> bool:
        """Write a tree for an agent into an empty folder, where that costs less than a checkout; see `copy_tree`.

        With `shared`, sandboxed checks will need a pristine tree anyway.
        """
        count = len(self._objects.listing(tree))
        if not shared or count < max(_MANY, self._overlay_files) or not self._objects.are_loose(count):
            return False
        return self._layered.copy(tree, target, index)

    def _find_place(self, tree: str, top: Path, *, prepared: bool = False) -> UserPlace | None:
        """Find where sandboxed checks see a tree. What was prepared may name its own folder, so it stays there."""
        if self._place is None or self._repositories is None or self._place.git_dir == self._place.folder:
            return None
        path, links = (top, ()) if prepared else (self._place.folder, tuple(self._links))
        return UserPlace(Path(os.path.realpath(path)), self._repositories.find(tree), links)

    @threaded
    def hash_place(self) -> str:
        """Hash what sandboxed checks see of the user's repository beside a tree; empty where they do not."""
        return self._repositories.hash() if self._repositories is not None else ""

    @threaded
    def _set_aside(self, opened: LayeredTree | WarmTree) -> None:
        """Remove an overlay. Keep a folder for the next tree, unless there are enough."""
        if isinstance(opened, LayeredTree):
            self._layered.close(opened)
            return
        with self._guard:
            if len(self._idle) < _IDLE:
                self._idle.append(opened)
                return
        folders.remove(opened.top, self._trash)

    @threaded
    def remove_idle(self) -> None:
        """Remove the folders that are kept for the next tree."""
        with self._guard:
            idle, self._idle = self._idle, []
        for warm in idle:
            folders.remove(warm.top, self._trash)
        self._layered.release()

    @threaded
    def _lay(self, tree: str, environment: PreparedEnvironment) -> SealedCheckout:
        """Check a tree out around what was prepared."""
        folder = environment.folder
        preparation.clear_environment(environment, self._trash)
        listing = self._objects.listing(tree)
        self._refuse_taken(listing, environment.paths)
        index = folder.parent / "index"
        index.unlink(missing_ok=True)
        self._objects.checkout(tree, folder, index)
        links = self.link_paths(folder, listing)
        made = tuple(folder / path for path in environment.paths)
        return SealedCheckout(folder, tuple(links.values()), made, place=self._find_place(tree, folder, prepared=True))

    def link_paths(
        self, top: Path, listing: Listing, prepared: PreparedTree | None = None, *, final: Path | None = None
    ) -> dict[str, Path]:
        """Link paths of the folder, and prepared ones, into a checkout; return their targets.

        `final` is where the checkout will be, if that is elsewhere.
        """
        if self._layout is None:
            self._layout = LinkLayout.find(self._folder, self._links, self._copies)
        made = prepared.environment if prepared else None
        own = {path: made.folder / path for path in made.paths} if made else {}
        self._refuse_taken(listing, {**self._links, **own})
        self._layout.lay_out(top, final or top)
        for path, source in own.items():
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).symlink_to(source)
        return {**self._links, **own}

    @staticmethod
    def _refuse_taken(listing: Listing, paths: Iterable[str]) -> None:
        """Raise UsageError when a path is part of a tree."""
        if not (paths := list(paths)):
            return
        folders_of = tree_reader.list_folders(listing)
        for path in paths:
            if path in listing or path in folders_of or any(parent in listing for parent in tree_reader.parents(path)):
                message = f"{path!r} is part of the tree and cannot be linked into it"
                hint = "take it out of workspace.link or workspace.prepare, or out of the tree"
                raise UsageError(Code.NAME_TAKEN, message, hint=hint)

    def remove_leftovers(self) -> None:
        """Remove checkouts that earlier processes left. Nothing may be checked meanwhile."""
        with self._guard:
            self._idle.clear()
        self._layered.release()
        folders.empty_folder(self._sealed)

    def sweep(self) -> None:
        """Remove what earlier processes left, also prepared environments that are not complete."""
        self.remove_leftovers()
        self.environments.sweep()
