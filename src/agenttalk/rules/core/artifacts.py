"""The files of an artifact, and the hash by which it is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agenttalk.contracts.core import wire


def hash_files(files: Mapping[str, str]) -> str:
    """The hash of an artifact, from its files' paths and hashes: that of its only file, else one over all of them."""
    hashes = list(files.values())
    return hashes[0] if len(hashes) == 1 else wire.sha256(wire.write(dict(sorted(files.items()))))


class ArtifactFile(NamedTuple):
    """A file of an artifact."""

    path: str
    sha256: str


def normalize_files(message_id: str, files: Iterable[ArtifactFile]) -> list[ArtifactFile]:
    """The files as they are kept: a folder named like the message itself is left out of their paths.

    Senders use such a folder so that two messages never meet in a box. In the workspace they must meet, because
    there a newer version takes the place of the one before.
    """
    return [ArtifactFile(file.path.removeprefix(f"{message_id}/"), file.sha256) for file in files]
