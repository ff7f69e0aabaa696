"""What becomes of the files of an artifact that arrived, and under which names things are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from agenttalk.contracts.core import root_layout
from agenttalk.rules.core.artifacts import ArtifactFile

NAME_BYTES: Final = 255
"""Longest name that a file system takes."""

Fate = Literal["new", "same", "replaces", "late"]


class CurrentFile(NamedTuple):
    """The current version of a file in the workspace."""

    sha256: str
    seq: int
    """Number of the command that it was made for; 0 without one."""
    message_id: str

    @property
    def is_retired(self) -> bool:
        """Whether the newest version has no such file any more."""
        return not self.sha256


@dataclass(frozen=True, slots=True)
class PathConflict:
    """Two contents claim one path, and nothing says which of them counts."""

    path: str
    message: str


def decide(
    files: Iterable[ArtifactFile], held: Mapping[str, CurrentFile], *, seq: int
) -> dict[str, Fate] | PathConflict:
    """What becomes of each file of an output, compared with what the workspace holds of that output.

    The same content is the same file. Of another content the one with the higher number counts, whichever
    comes first. With the same number nobody can say, and the whole message is refused.
    """
    fates: dict[str, Fate] = {}
    seen: dict[str, str] = {}
    for file in files:
        if seen.setdefault(file.path, file.sha256) != file.sha256:
            return PathConflict(file.path, "the message names it twice, with different content")
        fate = _fate(file, held.get(file.path), seq)
        if fate is None:
            return PathConflict(file.path, f"it came before with other content for the same command number {seq}")
        fates[file.path] = fate
    there = {path for path, each in held.items() if not each.is_retired}
    clash = _clash({*fates, *there})
    return PathConflict(clash, "it would be a file and a folder at once") if clash else fates


def find_retired(files: Iterable[ArtifactFile], held: Mapping[str, CurrentFile], *, seq: int) -> list[str]:
    """Files of the version before that the new one has not got any more: a newer version replaces all of it."""
    new = {file.path for file in files}
    return sorted(path for path, each in held.items() if not each.is_retired and each.seq < seq and path not in new)


def _fate(file: ArtifactFile, held: CurrentFile | None, seq: int) -> Fate | None:
    if held is None:
        return "new"
    if held.sha256 == file.sha256:
        return "same"
    if held.seq == seq:
        return None
    return "replaces" if held.seq < seq else "late"


def _clash(paths: set[str]) -> str | None:
    """A path that is also a folder on the way to another one."""
    for path in sorted(paths):
        parts = path.split("/")
        above = next((head for n in range(1, len(parts)) if (head := "/".join(parts[:n])) in paths), None)
        if above:
            return above
    return None


def make_claimed_name(message_id: str, name: str, copy: int = 0) -> str:
    """The name of a claimed message, cut in front so that a file system takes it and its ending stays."""
    whole = root_layout.claimed_name(message_id, name, copy)
    if len(whole.encode()) <= NAME_BYTES:
        return whole
    ending = f"__dup_{copy}" if copy else ""
    room = NAME_BYTES - len(f"{message_id}__{ending}".encode())
    return f"{message_id}__{name.encode()[-room:].decode(errors='ignore')}{ending}"


def original_name(message_id: str, kept: str) -> str:
    """The name that a message had before it was claimed."""
    name = kept.removeprefix(f"{message_id}__")
    head, mark, number = name.rpartition("__dup_")
    return head if mark and number.isdigit() else name
