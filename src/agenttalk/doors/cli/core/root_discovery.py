"""Which root a command is about when nobody names one."""

from __future__ import annotations

import os
from pathlib import Path

from agenttalk.contracts.errors import Code, UsageError

INIT = ".agenttalk"
"""The folder that `agenttalk init` makes in a repository."""
MARKS = ("agents", "system_runtime", "data", "agenttalk.toml")
"""What makes a folder a root: one of these."""


def find_root(here: Path) -> Path | None:
    """The root of the folder where somebody works: in it, above it, or in the folder that `agenttalk init` makes there.

    Folders of other people are passed over: their settings would decide what is run here. An agent that works on a task
    does not find one: what it may do it does by its own token.
    """
    if os.environ.get("AGENTTALK_TOKEN"):
        return None
    return next((each for folder in (here, *here.parents) for each in (folder / INIT, folder) if _is_root(each)), None)


def _is_root(folder: Path) -> bool:
    try:
        marked = (folder / "agenttalk.toml").is_file() or all((folder / mark).is_dir() for mark in MARKS[:2])
        return marked and folder.stat().st_uid == os.getuid()
    except OSError:  # it cannot even be looked at
        return False


def resolve_root(given: Path | None) -> Path:
    """The folder that somebody named, or the root where they work. Raises UsageError when there is neither."""
    folder = given or find_root(Path.cwd())
    if folder is None:
        raise UsageError(
            Code.OPTION_INVALID,
            "which root?",
            hint="give --root FOLDER or AGENTTALK_ROOT, or work in a folder that 'agenttalk init' has set up",
        )
    return folder
