"""The files of an artifact, and its hash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agenttalk.contracts.core import wire


def hash_files(files: Mapping[str, str]) -> str:
    """Compute the hash of an artifact from the paths and hashes of its files.

    The hash of an artifact with one file is that file's; otherwise it covers all paths and hashes.
    """
    hashes = list(files.values())
    return hashes[0] if len(hashes) == 1 else wire.sha256(wire.write(dict(sorted(files.items()))))


class ArtifactFile(NamedTuple):
    """A file of an artifact."""

    path: str
    sha256: str


def normalize_files(message_id: str, files: Iterable[ArtifactFile]) -> list[ArtifactFile]:
    """Remove a leading folder that is named like the message from the paths.

    Senders use that folder so that files of two messages never collide in an inbox. In the workspace they have to
    collide, because a newer version replaces the older one.
    """
    return [ArtifactFile(file.path.removeprefix(f"{message_id}/"), file.sha256) for file in files]
