"""Finds the root, or the plan file, of a command that names none."""

from __future__ import annotations

import os
from pathlib import Path

from agenttalk.contracts.errors import Code, UsageError

INIT = ".agenttalk"
"""The folder that `agenttalk init` creates in a repository."""
PLAN = "agenttalk.yaml"
"""The plan file of a repository, which `agenttalk run` takes where none is named."""
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
        from agenttalk.rules.text import cli_words

        hint = cli_words.ERRORS["no_root_hint"]()
        raise UsageError(Code.OPTION_INVALID, cli_words.ERRORS["no_root"](), hint=hint)
    return folder


def resolve_plan_file(given: Path | None) -> Path:
    """Return the plan file that was named, or that of the current folder, or of the top of its repository.

    Raises UsageError when there is none.
    """
    if given is not None:
        return given
    here = Path.cwd()
    top = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    found = next((path for folder in (here, top) if (path := folder / PLAN).is_file()), None)
    if found is None:
        from agenttalk.rules.text import cli_words

        errors = cli_words.ERRORS
        message = errors["no_plan_here"](plan=PLAN) if top == here else errors["no_plan_in"](plan=PLAN, top=top)
        raise UsageError(Code.FILE_UNREADABLE, message, hint=errors["no_plan_here_hint"]())
    if found.stat().st_uid != os.getuid():  # it says which programs run
        from agenttalk.rules.text import cli_words

        errors = cli_words.ERRORS
        hint = errors["plan_of_other_hint"](path=found)
        raise UsageError(Code.FILE_UNSAFE, errors["plan_of_other"](path=found), hint=hint)
    return found
