"""Lays out what git ignores and checkouts share, so that imports reach the tree of the checkout.

Most of it is one link to the user's folder. But what a package manager installs may lead back to the tree beside it: an
editable installation names its folder, a workspace of npm is a link to it, a script names its interpreter. A link to
such a folder would lead every check to the user's own files, and not to the work. So the folders on the way to such an
entry are made in the checkout, the entry is written with the path of the checkout, and all else in them is a link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agenttalk.adapters.workspaces import folders, preparation

_CONFIGURATION: Final = "pyvenv.cfg"
_PROGRAMS: Final = "bin"
_LARGEST: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LinkLayout:
    """How the shared paths of a user's folder are laid out in a checkout."""

    folder: Path
    links: Mapping[str, Path]
    """Path in a checkout → what it shows."""
    leads: frozenset[Path] = frozenset()
    """Entries that lead to the folder, and have to lead to the checkout."""
    above: frozenset[Path] = field(default=frozenset())
    """Folders on the way to them."""

    @classmethod
    def find(cls, folder: Path, links: Mapping[str, Path], elsewhere: tuple[Path, ...]) -> LinkLayout:
        """Find out how to lay paths out. Raises UsageError when one leads to `elsewhere`: another copy of the tree."""
        leads = set()
        home = Path(os.path.realpath(folder))
        for lead in preparation.find_outside_links(folder, links):
            if lead.target.is_relative_to(home):
                leads.add(_unresolved(lead.where, folder, links))
            else:
                preparation.refuse_lead(lead, elsewhere, "workspace.link")
        if leads:
            leads |= {script for source in links.values() for script in _list_scripts(source, folder)}
        tops = {*links.values()}
        above = {parent for lead in leads for parent in _parents(lead, tops)}
        return cls(folder, links, frozenset(leads), frozenset(above))

    def lay_out(self, top: Path, tree: Path) -> None:
        """Lay all paths out in a folder, which will be the `tree`."""
        for path, source in self.links.items():
            place = top / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if source in self.above:
                self._lay_folder(source, place, tree)
            else:
                place.symlink_to(source)

    def _lay_folder(self, source: Path, place: Path, tree: Path) -> None:
        place.mkdir()
        with os.scandir(source) as entries:
            found = list(entries)
        for entry in found:
            path, new = source / entry.name, place / entry.name
            if entry.is_symlink():
                new.symlink_to(self._lead_to(path, tree))
            elif path in self.above:
                self._lay_folder(path, new, tree)
            elif path in self.leads:
                new.write_bytes(self._rewrite(path.read_bytes(), tree))
                new.chmod(stat.S_IMODE(path.stat().st_mode))
            else:
                new.symlink_to(path)

    def _lead_to(self, path: Path, tree: Path) -> str:
        """Return the target of a link as it is meant in a tree."""
        target = os.readlink(path)  # noqa: PTH115 - as it is written
        meant = Path(os.path.normpath(path.parent / target))
        for top in (self.folder, Path(os.path.realpath(self.folder))):
            if meant.is_relative_to(top):
                return target if not target.startswith("/") else str(tree / meant.relative_to(top))
        return str(meant)

    def _rewrite(self, data: bytes, tree: Path) -> bytes:
        """Write the path of a tree in place of that of the folder."""
        for top in {os.fsencode(self.folder), os.fsencode(os.path.realpath(self.folder))}:
            data = data.replace(top + b"/", os.fsencode(tree) + b"/").replace(top + b"\n", os.fsencode(tree) + b"\n")
        return data


def _unresolved(where: Path, folder: Path, links: Mapping[str, Path]) -> Path:
    """Return an entry below the path by which it is linked."""
    for path, source in links.items():
        real = Path(os.path.realpath(folder / path))
        if where.is_relative_to(real):
            return source / where.relative_to(real)
    return where


def _list_scripts(source: Path, folder: Path) -> Iterator[Path]:
    """List programs of an environment of Python whose first line names an interpreter in a folder."""
    programs = source / _PROGRAMS
    if not (source / _CONFIGURATION).is_file() or not programs.is_dir():
        return
    marks = {b"#!" + os.fsencode(top) + b"/" for top in (folder, Path(os.path.realpath(folder)))}
    for path in folders.list_below(programs):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _LARGEST:
            with path.open("rb") as file:
                first = file.readline(4096)
            if any(first.startswith(mark) for mark in marks):
                yield path


def _parents(path: Path, tops: Collection[Path]) -> Iterator[Path]:
    for parent in path.parents:
        yield parent
        if parent in tops:
            return
