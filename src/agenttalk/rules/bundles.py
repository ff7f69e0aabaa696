"""The hash by which an artifact of several files is known."""

from __future__ import annotations

from collections.abc import Mapping

from agenttalk.contracts import wire


def bundle(files: Mapping[str, str]) -> str:
    """The hash of an artifact, from its files' paths and hashes: that of its only file, else one over all of them."""
    hashes = list(files.values())
    return hashes[0] if len(hashes) == 1 else wire.sha256(wire.write(dict(sorted(files.items()))))
