"""Selects the command by which a repository is checked: the one that a person named, or one that was found."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agenttalk.contracts.errors import AgentTalkError, Code, UsageError

if TYPE_CHECKING:
    from agenttalk.adapters.workspaces.user_folder import UserRepository
    from agenttalk.contracts.promise import RunCheck, TestsCheck
    from agenttalk.rules.changes.check_discovery import CheckCandidate

_LARGEST: Final = 1024 * 1024
"""Bytes of a file that says how a repository is checked."""


def find_checks(repository: UserRepository) -> tuple[CheckCandidate, ...]:
    """Find the commands that check a repository as it is in its folder, the most telling first."""
    from agenttalk.adapters.mailbox.fsio import SafeFolder
    from agenttalk.rules.changes import check_discovery

    contents = {}
    with SafeFolder.open(repository.top) as folder:
        for path in check_discovery.list_wanted(repository.paths):
            try:
                contents[path] = folder.read(path, _LARGEST)
            except AgentTalkError:  # it is too large, or leads elsewhere: what cannot be read says nothing
                continue
    files = check_discovery.ProjectFiles(repository.paths, contents, repository.ignored)
    return check_discovery.find_checks(files)


def make_check(repository: UserRepository, command: str) -> CheckCandidate:
    """Make the check of a command that a person named in the folder where they are."""
    from agenttalk.rules.changes import check_discovery
    from agenttalk.rules.checks.protection import FileTree

    return check_discovery.make_candidate(command, FileTree.from_paths(repository.paths), cwd=repository.inside)


def choose_links(repository: UserRepository, named: tuple[str, ...] | None) -> tuple[str, ...]:
    """Choose the ignored paths of the folder that every checkout gets. Raises UsageError for one that cannot be had."""
    from agenttalk.rules.changes import change_plan

    if named is None:
        found = change_plan.find_links(repository.ignored)
        return tuple(dict.fromkeys([*found, *_find_on_path(repository)]))
    links = tuple(path.rstrip("/") for path in named if path != "none")
    for path in links:
        where = Path(os.path.normpath(repository.top / path))
        if path.startswith("/") or not where.exists() or not where.is_relative_to(repository.top):
            message = f"--link {path}: there is no such path in {repository.top}"
            raise UsageError(Code.OPTION_INVALID, message, hint="name it from the top of the repository")
        if any(known == path or known.startswith(f"{path}/") for known in repository.paths):
            message = f"--link {path}: it is part of the repository, so every clone has it"
            raise UsageError(Code.OPTION_INVALID, message, hint="link only what git ignores")
    return links


def lead_to_programs(
    repository: UserRepository, candidate: CheckCandidate, links: tuple[str, ...]
) -> RunCheck | TestsCheck:
    """Make the check of a candidate, led to programs that are only in linked folders."""
    from agenttalk.rules.changes import change_plan

    check = candidate.to_check()
    places = change_plan.list_program_folders(candidate.cwd)
    programs = {place: _names_in(repository.top / place) for place in places}
    run = change_plan.lead_to_programs(check.run, _program_of(check.run), links, programs, candidate.cwd)
    return check if run == check.run else check.model_copy(update={"run": run})


def _find_on_path(repository: UserRepository) -> list[str]:
    """Find ignored folders of the repository in which programs are found, such as an activated environment."""
    places = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    inside = [str(place.relative_to(repository.top)) for place in places if place.is_relative_to(repository.top)]
    return [path for path in repository.ignored if any(f"{each}/".startswith(f"{path}/") for each in inside)]


def _names_in(folder: Path) -> frozenset[str]:
    try:
        return frozenset(path.name for path in folder.iterdir())
    except OSError:
        return frozenset()


def _program_of(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return next((word for word in words if "=" not in word), "")
