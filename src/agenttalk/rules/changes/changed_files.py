"""The files of a change, before and after it: which lines are new, which are gone, and what kind of file each is."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple

ChangeKind = Literal["added", "changed", "deleted", "moved"]
LARGEST: Final = 512 * 1024
"""Bytes of a file that is compared line by line, at most."""
_DOCUMENT: Final = re.compile(r".*\.(?:md|markdown|rst|adoc)\Z", re.IGNORECASE)
_PICTURED: Final = re.compile(r".*\.(?:md|markdown|rst|adoc|txt|png|jpe?g|gif|svg|webp)\Z", re.IGNORECASE)
_NAMED_DOCUMENT: Final = re.compile(
    r"(?:README|LICEN[CS]E|NOTICE|AUTHORS|CHANGELOG|CHANGES|CONTRIBUTING|SECURITY)(?:[.-][\w.-]+)?\Z", re.IGNORECASE
)
_DOCUMENT_FOLDERS: Final = frozenset({"doc", "docs"})


class NumberedLine(NamedTuple):
    """A line of a file, with its number from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class ChangedFile:
    """A file that a change touches."""

    path: str
    before: bytes | None
    """Its content at the base; None where it did not exist."""
    after: bytes | None
    """Its content after the change; None where it is gone."""
    moved_from: str = ""
    """Where the same content was at the base, if the file was only moved."""

    @property
    def kind(self) -> ChangeKind:
        """How it changed."""
        if self.moved_from:
            return "moved"
        return "added" if self.before is None else "deleted" if self.after is None else "changed"

    @cached_property
    def is_readable(self) -> bool:
        """Whether it is a text that can be compared line by line."""
        versions = [data for data in (self.before, self.after) if data is not None]
        return all(len(data) <= LARGEST and b"\0" not in data for data in versions)

    @cached_property
    def _lines(self) -> tuple[Sequence[str], Sequence[str]]:
        if not self.is_readable:
            return (), ()
        before, after = [(data or b"").decode(errors="replace").splitlines() for data in (self.before, self.after)]
        return before, after

    @cached_property
    def added_lines(self) -> tuple[NumberedLine, ...]:
        """The lines that are there after the change and were not before, in their order."""
        before, after = self._lines
        if self.is_extension:
            rest = iter(before)
            awaited = next(rest, None)
            found = []
            for number, text in enumerate(after, 1):
                if awaited is not None and text == awaited:
                    awaited = next(rest, None)
                else:
                    found.append(NumberedLine(number, text))
            return tuple(found)
        return _surplus(after, before)

    @cached_property
    def removed_lines(self) -> tuple[NumberedLine, ...]:
        """The lines that were there before the change and are gone, with their numbers of before."""
        before, after = self._lines
        return _surplus(before, after)

    @cached_property
    def is_extension(self) -> bool:
        """Whether every line of before is still there, in its order: lines were only added."""
        if self.before is None or self.after is None or not self.is_readable:
            return False
        before, after = self._lines
        rest = iter(after)
        return all(any(line == text for line in rest) for text in before)


def _surplus(lines: Sequence[str], others: Sequence[str]) -> tuple[NumberedLine, ...]:
    """Return the lines that are not among others, each as often as it is missing there."""
    left = Counter(others)
    found = []
    for number, text in enumerate(lines, 1):
        if left[text]:
            left[text] -= 1
        else:
            found.append(NumberedLine(number, text))
    return tuple(found)


def pair_moves(files: Iterable[ChangedFile]) -> tuple[ChangedFile, ...]:
    """Join each deleted file with an added one of the same content: it was moved. Empty files are not joined."""
    known = list(files)
    gone: dict[bytes, list[str]] = {}
    for file in known:
        if file.kind == "deleted" and file.before:
            gone.setdefault(file.before, []).append(file.path)
    moved: dict[str, str] = {}
    for file in known:
        places = gone.get(file.after or b"") if file.kind == "added" else None
        if places:
            same = next((place for place in places if posixpath.basename(place) == posixpath.basename(file.path)), None)
            old = same or places[0]
            places.remove(old)
            moved[file.path] = old
    taken = set(moved.values())
    return tuple(
        ChangedFile(file.path, file.after, file.after, moved[file.path]) if file.path in moved else file
        for file in known
        if file.path not in taken
    )


def follow_moves(test: str, moves: Mapping[str, str]) -> frozenset[str]:
    """Return the ids that a test may have after files were moved: old path → new path."""
    found = set()
    for old, new in moves.items():
        for before, after in zip(_spellings(old), _spellings(new), strict=True):
            if re.search(rf"(?<![\w/.-]){re.escape(before)}(?![\w-])", test):
                found.add(test.replace(before, after, 1))
    return frozenset(found)


def _spellings(path: str) -> tuple[str, str, str]:
    """Return how test runners write a path: as it is, without its ending, and with dots."""
    stem = posixpath.splitext(path)[0]
    return path, stem, stem.replace("/", ".")


def is_documentation(path: str) -> bool:
    """Whether a file is for people to read: a text at the top or in a folder of documentation, a README, a licence."""
    *folders, name = path.split("/")
    if _NAMED_DOCUMENT.match(name):
        return name.rpartition(".")[2].lower() not in {"py", "js", "ts", "sh", "json", "toml", "yaml", "yml"}
    if folders and folders[0] in _DOCUMENT_FOLDERS:
        return _PICTURED.match(name) is not None
    return not folders and _DOCUMENT.match(name) is not None
