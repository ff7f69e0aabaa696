"""Trees laid out in folders, apart from those of agents, and what checkouts need beside a tree."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from agenttalk.errors import Code, MachineError, UsageError
from agenttalk.workspaces import folders, preparing, taking
from agenttalk.workspaces.answers import Sealed
from agenttalk.workspaces.objects import Objects
from agenttalk.workspaces.preparing import Prepared, Runner
from agenttalk.workspaces.taking import Listing
from agenttalk.workspaces.threads import threaded


class Checkouts:
    """Makes checkouts below `home`. `links` are paths of the user's folder that are linked into each."""

    def __init__(self, objects: Objects, home: Path, trash: Path, links: dict[str, Path]) -> None:
        self._objects = objects
        self._sealed = home / "sealed"
        self._prepared = home / "prepared"
        self._trash = trash
        self._links = links
        self._preparing = asyncio.Lock()

    @threaded
    def seal(self, tree: str, prepared: Prepared | None) -> Sealed:
        """A fresh folder with exactly a tree."""
        top = folders.fresh(self._sealed)
        path = top / "tree"
        path.mkdir()
        self._objects.checkout(tree, path, top / "index")
        links = self.linked(path, self._objects.listing(tree), prepared)
        return Sealed(path, tuple(links.values()))

    @threaded
    def remove(self, tree: Path) -> None:
        """Remove one, by the folder that its tree lies in."""
        folders.remove(tree.parent, self._trash)

    def linked(self, top: Path, listing: Listing, prepared: Prepared | None) -> dict[str, Path]:
        """Put links to the folder's and to prepared paths into a checkout; where each of them leads."""
        sources = dict(self._links)
        sources |= {path: prepared.folder / path for path in prepared.paths} if prepared else {}
        tracked = {*listing, *(parent for path in listing for parent in taking.parents(path))} if sources else set()
        for path, source in sources.items():
            if path in tracked:
                message = f"{path!r} is part of the tree and cannot be linked into it"
                raise UsageError(Code.NAME_TAKEN, message, hint="take it out of workspace.link, or out of the tree")
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).symlink_to(source)
        return sources

    async def prepare(self, tree: str, command: str, run: Runner) -> Prepared:
        """What a command makes of a clean copy of a tree; see `Workspace.prepare`."""
        async with self._preparing:
            key = await self.prepare_key(tree, command)
            return await self._found(key) or await self._make(key, tree, command, run)

    @threaded
    def prepare_key(self, tree: str, command: str) -> str:
        """What decides whether something that was prepared still fits a tree."""
        return preparing.key(self._objects.listing(tree), command)

    @threaded
    def _found(self, key: str) -> Prepared | None:
        return preparing.find(self._prepared, key)

    async def _make(self, key: str, tree: str, command: str, run: Runner) -> Prepared:
        top = await self._copy(key, tree)
        code, said = await run(top / "tree", command)
        if code:
            await self.remove(top / "tree")
            raise MachineError(
                Code.COMMAND_FAILED, f"workspace.prepare ended with code {code}: {said}", hint="try it by hand"
            )
        return await self._keep(key, top, tree)

    @threaded
    def _copy(self, key: str, tree: str) -> Path:
        top = self._prepared / f"{key}-{os.urandom(4).hex()}"
        (top / "tree").mkdir(parents=True)
        self._objects.checkout(tree, top / "tree", top / "index")
        return top

    @threaded
    def _keep(self, key: str, top: Path, tree: str) -> Prepared:
        return preparing.keep(self._prepared, key, top, self._objects.listing(tree))

    def sweep(self) -> None:
        """Remove what is left of earlier lives."""
        folders.empty(self._sealed)
        preparing.sweep(self._prepared, self._trash)
