"""Decides about a second artifact for the same output.

Artifacts are compared within one command_seq. One of a higher seq always replaces the earlier, which is archived; one
of a lower seq is outdated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agenttalk.contracts.dag import Versioning

VersionVerdict = Literal["accept", "replace", "duplicate", "conflict", "outdated"]


@dataclass(frozen=True, slots=True)
class ArtifactVersion:
    """The fields of an artifact that decide about its version."""

    message_id: str
    seq: int
    digests: frozenset[tuple[str, str]]
    """Path and hash of each of its files."""
    tag: str | None = None


def judge(new: ArtifactVersion, earlier: Sequence[ArtifactVersion], versioning: Versioning) -> VersionVerdict:
    """Decide whether a new artifact is kept beside the earlier ones of its output, or replaces them; oldest first.

    `duplicate`: it has nothing new. `conflict`: it differs from one that must not change. `outdated`: a later command
    has an artifact already.
    """
    if not earlier:
        return "accept"
    newest = max(version.seq for version in earlier)
    if new.seq != newest:
        return "replace" if new.seq > newest else "outdated"
    peers = [version for version in earlier if version.seq == newest]
    if versioning.mode == "semver_tagged":
        peers = [version for version in peers if version.tag == new.tag]
    if versioning.mode == "immutable_by_message_id" or not peers:
        return "accept"
    if peers[-1].digests == new.digests:
        return "duplicate"
    if versioning.mode in {"keep_latest", "overwrite_by_name"}:
        return "replace"
    return "conflict"
