"""Finds links out of installed paths: symlinks, and files of Python installers that point to packages elsewhere."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from agenttalk.adapters.workspaces.folders import list_below

_LISTS: Final = (".pth", ".egg-link")
"""Files whose lines are folders."""
_FINDER: Final = "__editable__"
"""How the names of modules begin that find packages elsewhere."""
_QUOTED: Final = re.compile(r"""(['"])(/[^'"\n]+)\1""")
_PROGRAMS: Final = ("bin", ".bin")
"""Folders of links to programs, such as the interpreter. A package that they belong to has a link of its own."""
_LARGEST: Final = 1 << 20


class OutsideLink(NamedTuple):
    """Something that points elsewhere."""

    where: Path
    target: Path
    """A real path."""


def find_outside_links(top: Path, paths: Iterable[str]) -> Iterator[OutsideLink]:
    """Find what in some paths of a folder points out of those paths."""
    own = [Path(os.path.realpath(top / path)) for path in paths]
    for path in own:
        for entry in list_below(path):
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
