"""Shows a sealed tree where the user's repository is: at its path, with a .git that answers, and a home of its own.

Code that behaves well only where it recognises the verification must not find it by its path, home or repository. Only
bubblewrap can mount, so nothing of this holds in another sandbox. What can still be recognised is listed in the threat
model.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from agenttalk.adapters import sandbox
from agenttalk.contracts.core import wire
from agenttalk.ports.agents import BindMount, UserPlace

_CACHES: Final = frozenset({".cache", ".npm", ".yarn", ".gradle", ".m2", ".ivy2", ".nuget", ".dotnet", ".sbt"})
"""Folders of a home folder that programs write to: a check gets none of them."""
_ENTRIES: Final = 150
"""Entries of a home folder, of which each is a mount. With more, the home folder is not mounted."""
_CLOCK: Final = ("TZ", "LC_ALL", "LC_CTYPE", "LANG")
_SHELL: Final = "/bin/sh"


def read_identity() -> dict[str, str]:
    """Return the variables that tell who the user is, and the clock and language of the machine, as outside."""
    try:
        user = pwd.getpwuid(os.getuid())
        named = {"USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell or _SHELL}
    except KeyError:
        named = {name: os.environ[name] for name in ("USER", "LOGNAME", "SHELL") if os.environ.get(name)}
    return named | {name: os.environ[name] for name in _CLOCK if os.environ.get(name)}


def hash_identity(place: str) -> str:
    """Hash what a command sees of the user and the machine, with the hash of its place."""
    return wire.sha256(wire.write({"outside": read_identity(), "place": place}))


class HomeView:
    """What one check sees at the user's paths. All paths are those that the engine sees, but for `top`."""

    def __init__(
        self, place: UserPlace, checkout: Path, top: Path, folder: Path, *, path: str, masked: Sequence[Path]
    ) -> None:
        """`top` is the checkout's path in its mount namespace; `folder` is a new one for what the check may write."""
        self._path = path
        self.place = place.path
        self._repository = place.repository
        self._links = place.links
        self._checkout = checkout
        self._top = top
        self._folder = folder
        self._masked = masked
        self.home = find_home(place.path)
        """The home folder that is seen, if one is mounted."""

    def list_mounts(
        self, writable: Sequence[Path], readonly: Sequence[Path], *, read_only: bool = False
    ) -> tuple[BindMount, ...]:
        """List the mounts, outermost first. The two lists hold paths of the checkout, below `top`."""
        return (
            *self._home_mounts(),
            BindMount(self._top, self.place, writable=not read_only),
            *(BindMount(each, self._seen(each), writable=True) for each in writable),
            *(BindMount(each, self._seen(each)) for each in readonly),
            *self._link_mounts(),
            *map(self._mount_own, self._own_programs()),
            *self._git_mounts(),
        )

    def filter_path(self) -> str:
        """Return PATH without folders that the work itself brings along."""
        return ":".join(
            part for part in self._path.split(":") if not self._is_inside(Path(part)) or self._first_absent(Path(part))
        )

    def filter_shown(self, paths: Sequence[Path]) -> tuple[Path, ...]:
        """Leave out what the work has in the place of the user's own."""
        return tuple(path for path in paths if not self._is_inside(path) or self._first_absent(path) is not None)

    def filter_hidden(self, paths: Sequence[Path]) -> tuple[Path, ...]:
        """Leave out what is not there any more, because something else is mounted in its place."""
        return tuple(path for path in paths if not self._is_inside(path))

    def _is_inside(self, path: Path) -> bool:
        return path == self.place or self.place in path.parents

    def _seen(self, path: Path) -> Path:
        return self.place / path.relative_to(self._top)

    def _first_absent(self, path: Path) -> Path | None:
        """Return the outermost part of a path of the user's repository that the tree does not have; None if it does."""
        here = Path()
        for step in path.relative_to(self.place).parts:
            here /= step
            if str(here) in self._links or not os.path.lexists(self._checkout / here):
                return self.place / here
            if (self._checkout / here).is_symlink():
                return None
        return None

    def _own_programs(self) -> Iterator[Path]:
        """List folders of the user's repository that PATH names and git does not have, such as `.venv`."""
        inside = (Path(part) for part in self._path.split(":") if part.startswith("/"))
        absent = (self._first_absent(part) for part in inside if self._is_inside(part))
        for each in dict.fromkeys(absent):
            if each is not None and each.is_dir() and not each.is_symlink():
                yield each

    def _link_mounts(self) -> Iterator[BindMount]:
        """Show the user's own folders in place of the links to them, which would lead to themselves here."""
        for link in self._links:
            laid, own = self._checkout / link, self.place / link
            if laid.is_symlink():
                laid.unlink()
            elif laid.exists():
                shutil.rmtree(laid)
            yield self._mount_own(own)

    def _mount_own(self, path: Path) -> BindMount:
        """Mount something of the user's folder in the tree, where a place for it may have to be made."""
        point = self._checkout / path.relative_to(self.place)
        point.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            point.mkdir(exist_ok=True)
        else:
            point.touch()
        return BindMount(path, path)

    def _home_mounts(self) -> Iterator[BindMount]:
        """Mount a home folder of its own over the user's, and what programs need of the user's in it, read-only."""
        if self.home is None:
            return
        own = self._folder / "home"
        own.mkdir(exist_ok=True)
        yield BindMount(own, self.home, writable=True)
        if any(above in sandbox.SHARED for above in (self.home, *self.home.parents)):
            return
        secret = {*sandbox.list_secrets(self.home)}
        for entry in sorted(os.scandir(self.home), key=lambda entry: entry.name):
            path = self.home / entry.name
            if path in secret or entry.name in _CACHES or (entry.name.startswith(".") and self._hides(entry)):
                continue
            if entry.is_symlink():
                (own / entry.name).symlink_to(path.readlink())
            elif entry.is_dir() or entry.is_file():
                yield BindMount(path, path)

    def _hides(self, entry: os.DirEntry[str]) -> bool:
        """Whether an entry is configuration of the user, or ours."""
        if not entry.is_dir():
            return True
        path = Path(entry.path)
        return any(path == masked or path in masked.parents for masked in self._masked)

    def _git_mounts(self) -> Iterator[BindMount]:
        if self._repository is None:
            return
        own, place = self._folder / "git", self.place / ".git"
        for name in ("", *self._repository.folders):
            (own / name).mkdir()
        for name, data in self._repository.files.items():
            (own / name).write_bytes(data)
        yield BindMount(own, place, writable=True)
        yield BindMount(self._repository.objects, place / self._repository.place)


def find_other_place(place: UserPlace, checkout: Path, path: str) -> Path | None:
    """Find another path for a tree; None where something that is used names the path that it has."""
    inside = any(Path(part).is_relative_to(place.path) for part in path.split(":") if part.startswith("/"))
    if place.path == checkout or place.links or inside:
        return None
    home = find_home(place.path)
    above = home if home is not None else Path("/tmp")  # noqa: S108 - the sandbox's own
    return above / secrets.token_hex(4) / f"{place.path.name}-{secrets.token_hex(2)}"


def find_home(place: Path) -> Path | None:
    """Find the user's home folder; None where nothing can be mounted over it."""
    try:
        home = Path(os.path.realpath(Path.home()))
        names = os.listdir(home)  # noqa: PTH208 - quick
    except (OSError, RuntimeError):
        return None
    if home == Path("/") or home == place or place in home.parents or len(names) > _ENTRIES:
        return None
    return home
