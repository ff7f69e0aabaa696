"""Finds the root of a command that names none."""

from __future__ import annotations

import os
from pathlib import Path

from agenttalk.contracts.errors import Code, UsageError

INIT = ".agenttalk"
"""The folder that `agenttalk init` creates in a repository."""
MARKS = ("agents", "system_runtime", "data", "agenttalk.toml")
"""A folder that contains one of these is a root."""


def find_root(here: Path) -> Path | None:
    """Return the root at or above a folder, or in a folder of `agenttalk init` there; None if there is none.

    Folders of other users are skipped, because their settings would decide which programs run here. An agent at work
    on a task finds no root: it acts with its own token.
    """
    if os.environ.get("AGENTTALK_TOKEN"):
        return None
    candidates = (root for folder in (here, *here.parents) for root in (folder / INIT, folder))
    return next((root for root in candidates if _is_root(root)), None)


def _is_root(folder: Path) -> bool:
    try:
        marked = (folder / "agenttalk.toml").is_file() or all((folder / mark).is_dir() for mark in MARKS[:2])
        return marked and folder.stat().st_uid == os.getuid()
    except OSError:  # the folder cannot be read
        return False


def resolve_root(given: Path | None) -> Path:
    """Return the root that was named, or the one of the current folder. Raises UsageError when there is neither."""
    folder = given or find_root(Path.cwd())
    if folder is None:
        raise UsageError(
            Code.OPTION_INVALID,
            "no root found here",
            hint="pass --root FOLDER or set AGENTTALK_ROOT, or run this in a folder that 'agenttalk init' has set up",
        )
    return folder
