"""What checkouts need and no tree holds: `.venv`, `node_modules`, made once per content of the lock files."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias

from agenttalk.rules import scope
from agenttalk.workspaces import folders, taking
from agenttalk.workspaces.taking import Listing

LOCK_FILES: Final = scope.globs(
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
SECONDS: Final = 1800.0
_TAIL: Final = 4000
_CACHES: Final = scope.globs(scope.CACHES)
_NAME: Final = re.compile(r"(?P<key>[0-9a-f]{32})-[0-9a-f]{8}\Z")

Runner: TypeAlias = Callable[[Path, str], Awaitable[tuple[int, str]]]
"""Runs a command line in a folder; its exit code and the end of what it said."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was made."""

    folder: Path
    """Where it was made and stays, for what it holds may name its own place."""
    paths: tuple[str, ...]
    """What is new in there. Read-only, and to be shown read-only."""

    @property
    def key(self) -> str:
        """What it was made for: the same key, the same lock files and command."""
        return self.folder.parent.name.partition("-")[0]


def key(listing: Listing, command: str) -> str:
    """What decides whether something prepared still fits."""
    locks = [path for path in sorted(listing) if LOCK_FILES.covers(path)] or sorted(listing)
    told = [command, *(f"{path}\0{listing[path].oid}" for path in locks)]
    return sha256("\0\0".join(told).encode(errors="surrogateescape")).hexdigest()[:32]


def find(home: Path, wanted: str) -> Prepared | None:
    """What was made for a key, if it is as it was left. What somebody changed meanwhile is not used."""
    try:
        told = json.loads((home / f"{wanted}.json").read_bytes())
        found = Prepared(home / told["folder"] / "tree", tuple(told["paths"]))
        return found if told["seal"] == _seal(found) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(home: Path, wanted: str, top: Path, listing: Listing) -> Prepared:
    """Note what a command made, and make it read-only."""
    known = {parent for path in listing for parent in taking.parents(path)}
    prepared = Prepared(top / "tree", tuple(sorted(_new(top / "tree", "", listing, known))))
    for path in prepared.paths:
        for each in _below(prepared.folder / path):
            if not each.is_symlink():
                each.chmod(each.stat().st_mode & ~0o222)
    told = {"folder": top.name, "paths": prepared.paths, "seal": _seal(prepared)}
    folders.write(home / f"{wanted}.json", json.dumps(told).encode())
    return prepared


def sweep(home: Path, trash: Path) -> None:
    """Remove what was never finished, or is in use no more."""
    used = set()
    for note in home.glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            used.add(json.loads(note.read_bytes())["folder"])
    for path in list(home.iterdir()) if home.is_dir() else []:
        if _NAME.match(path.name) and path.name not in used:
            folders.remove(path, trash)
        elif path.name.endswith(".new"):
            path.unlink()


async def run(folder: Path, command: str, *, seconds: float = SECONDS) -> tuple[int, str]:
    """Run a command line with `sh -c`, without a sandbox, and kill what it leaves running in its group."""
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        command,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ},
        start_new_session=True,
    )
    tail = b""
    try:
        async with asyncio.timeout(seconds):
            assert process.stdout is not None  # noqa: S101 - for mypy: it is a pipe
            while piece := await process.stdout.read(1 << 16):
                tail = (tail + piece)[-_TAIL:]
            await process.wait()
    except TimeoutError:
        tail += f"\nit took longer than {seconds:g} seconds".encode()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return process.returncode or 0, tail.decode(errors="replace").strip()


def _new(top: Path, path: str, listing: Listing, known: set[str]) -> Iterator[str]:
    with os.scandir(top / path) as entries:
        for entry in entries:
            here = f"{path}/{entry.name}" if path else entry.name
            folder = entry.is_dir(follow_symlinks=False)
            if folder and here in known:
                yield from _new(top, here, listing, known)
            elif here not in listing and not _CACHES.covers(here, folder=folder):
                yield here


def _below(path: Path) -> Iterator[Path]:
    """A path and all that lies in it, the deepest first."""
    if path.is_dir() and not path.is_symlink():
        with os.scandir(path) as entries:
            inner = sorted(entry.name for entry in entries)
        for name in inner:
            yield from _below(path / name)
    yield path


def _seal(prepared: Prepared) -> str:
    """Changes whenever any of it was touched: the time of change cannot be set by a program."""
    digest = sha256()
    for path in prepared.paths:
        for each in _below(prepared.folder / path):
            status = each.lstat()
            size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
            told = (str(each), status.st_mode, size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            digest.update(repr(told).encode(errors="surrogateescape"))
    return digest.hexdigest()
