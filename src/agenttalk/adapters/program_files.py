"""Finds the files that a program needs to start: itself, the links to it, and the interpreter in its first line.

They are visible in every sandbox, wherever they are installed: below /tmp, or in a folder that is otherwise hidden.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

_FIRST_LINE: Final = 512
_LINKS: Final = 10
_FOLDERS: Final = frozenset({"bin", "sbin", "Scripts"})
_PACKAGES: Final = "node_modules"


def resolve_program(argv: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """Find the program's path. Never searches the working directory."""
    if not argv or "/" in argv[0]:
        return argv
    return (_which(argv[0], env) or argv[0], *argv[1:])


def _which(name: str, env: Mapping[str, str]) -> str | None:
    return shutil.which(name, path=":".join(part for part in env.get("PATH", "").split(":") if part))


def list_needed_files(
    argv: Sequence[str], env: Mapping[str, str], *, masked: Sequence[Path], temporary: Sequence[Path]
) -> tuple[Path, ...]:
    """List the files and folders without which it does not start, if they lie in something masked.

    A file among its arguments may be a script. What lies beside it in a folder for temporary files may belong to it.
    """
    passing = {Path(os.path.realpath(path)) for path in temporary}
    hidden = {Path(os.path.realpath(path)) for path in masked} | passing
    places = [place for path in _chain(Path(argv[0]), env, _LINKS) for place in _installation(path, hidden)]
    for part in argv:
        path = Path(os.path.realpath(part))
        if part.startswith("/") and path.is_file():
            places += [path, *([path.parent] if path.parent not in hidden and _is_in(path.parent, passing) else [])]
    return tuple(dict.fromkeys(place for place in places if _is_in(place, hidden)))


def list_named_programs(command: str, path: str) -> tuple[Path, ...]:
    """List the files and folders of programs that a command line names, if they lie in a folder for temporary files.

    A virtual environment below /tmp is one. Programs elsewhere are visible in a sandbox anyway.
    """
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return ()
    temporary = (Path(tempfile.gettempdir()),)
    found = [_which(word, {"PATH": path}) for word in dict.fromkeys(words) if word and "/" not in word]
    needed = [
        list_needed_files([program], {"PATH": path}, masked=(), temporary=temporary) for program in found if program
    ]
    return tuple(dict.fromkeys(place for places in needed for place in places))


def _is_in(place: Path, folders: set[Path]) -> bool:
    return not folders.isdisjoint(place.parents)


def _chain(program: Path, env: Mapping[str, str], depth: int) -> Iterator[Path]:
    """List the program, each link on the way to its file, and the same for its interpreter."""
    if not depth or not program.is_absolute():
        return
    yield Path(os.path.realpath(program.parent), program.name)
    try:
        if program.is_symlink():
            yield from _chain(program.parent / program.readlink(), env, depth - 1)
            return
        with program.open("rb") as file:
            line = file.read(_FIRST_LINE).split(b"\n", 1)[0]
    except OSError:
        return
    for word in _starters(line):
        starter = word if "/" in word else _which(word, env)
        if starter:
            yield from _chain(Path(starter), env, depth - 1)


def _starters(line: bytes) -> list[str]:
    """Read the program that a first line names, and the one that `env` starts in its place."""
    if not line.startswith(b"#!"):
        return []
    try:
        words = shlex.split(os.fsdecode(line[2:]))
    except ValueError:
        return []
    if words and words[0].rpartition("/")[2] == "env":
        looked_for = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return [words[0], *looked_for[:1]]
    return words[:1]


def _installation(program: Path, hidden: set[Path]) -> Iterator[Path]:
    """Return the installation that a program belongs to, or the file alone if that holds something hidden."""
    yield program
    inside = [above for above in program.parents if above.name == _PACKAGES]
    whole = inside[-1] if inside else program.parent.parent if program.parent.name in _FOLDERS else None
    if whole is not None and not any(place == whole or whole in place.parents for place in hidden):
        yield whole
