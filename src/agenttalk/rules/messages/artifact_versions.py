"""What becomes of a second artifact for the same output.

Artifacts are compared within one command_seq: one of a higher seq always replaces the earlier, which is
archived, and one of a lower seq comes too late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agenttalk.contracts.dag import Versioning

VersionVerdict = Literal["accept", "replace", "duplicate", "conflict", "outdated"]


@dataclass(frozen=True, slots=True)
class ArtifactVersion:
    """One artifact of an output, as far as versions are concerned."""

    message_id: str
    seq: int
    digests: frozenset[tuple[str, str]]
    """Path and hash of each of its files."""
    tag: str | None = None


def judge(new: ArtifactVersion, earlier: Sequence[ArtifactVersion], versioning: Versioning) -> VersionVerdict:
    """Whether a new artifact is taken beside, or in place of, the earlier ones of its output; oldest first.

    `duplicate`: nothing is new in it. `conflict`: it differs from one that must not change. `outdated`: a
    later order has already been answered.
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
