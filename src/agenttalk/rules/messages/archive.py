"""Decides what happens to the files of an artifact that arrived, and names claimed messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from agenttalk.contracts.core import root_layout
from agenttalk.rules.core.artifacts import ArtifactFile

NAME_BYTES: Final = 255
"""The longest name that file systems allow."""

Fate = Literal["new", "same", "replaces", "late"]


class CurrentFile(NamedTuple):
    """The current version of a file in the workspace."""

    sha256: str
    seq: int
    """The number of the command that it was made for; 0 without one."""
    message_id: str

    @property
    def is_retired(self) -> bool:
        """Whether the newest version no longer has this file."""
        return not self.sha256


@dataclass(frozen=True, slots=True)
class PathConflict:
    """Two contents claim one path, and no rule decides between them."""

    path: str
    message: str


def decide(
    files: Iterable[ArtifactFile], held: Mapping[str, CurrentFile], *, seq: int
) -> dict[str, Fate] | PathConflict:
    """Decide the fate of each file of an output, compared with the files of that output in the workspace.

    The same content is the same file. Of different contents the one with the higher command number counts, in any
    order of arrival. Different contents with the same number are a conflict, and the whole message is refused.
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
    current = {path for path, file in held.items() if not file.is_retired}
    clash = _clash({*fates, *current})
    return PathConflict(clash, "it would be a file and a folder at once") if clash else fates


def find_retired(files: Iterable[ArtifactFile], held: Mapping[str, CurrentFile], *, seq: int) -> list[str]:
    """Find the files of older versions that a new version lacks. A newer version replaces an older one as a whole."""
    new = {file.path for file in files}
    return sorted(path for path, file in held.items() if not file.is_retired and file.seq < seq and path not in new)


def _fate(file: ArtifactFile, held: CurrentFile | None, seq: int) -> Fate | None:
    if held is None:
        return "new"
    if held.sha256 == file.sha256:
        return "same"
    if held.seq == seq:
        return None
    return "replaces" if held.seq < seq else "late"


def _clash(paths: set[str]) -> str | None:
    """Find a path that is also a folder on the way to another path."""
    for path in sorted(paths):
        parts = path.split("/")
        above = next((head for n in range(1, len(parts)) if (head := "/".join(parts[:n])) in paths), None)
        if above:
            return above
    return None


def make_claimed_name(message_id: str, name: str, copy: int = 0) -> str:
    """Make the name of a claimed message. If it is too long, its beginning is cut, so that its ending stays."""
    whole = root_layout.claimed_name(message_id, name, copy)
    if len(whole.encode()) <= NAME_BYTES:
        return whole
    ending = f"__dup_{copy}" if copy else ""
    room = NAME_BYTES - len(f"{message_id}__{ending}".encode())
    return f"{message_id}__{name.encode()[-room:].decode(errors='ignore')}{ending}"


def original_name(message_id: str, kept: str) -> str:
    """Return the name that a message had before it was claimed."""
    name = kept.removeprefix(f"{message_id}__")
    head, mark, number = name.rpartition("__dup_")
    return head if mark and number.isdigit() else name
