"""Selects the command by which a repository is checked: the one that a person named, or one that was found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agenttalk.contracts.errors import AgentTalkError

if TYPE_CHECKING:
    from agenttalk.adapters.workspaces.user_folder import UserRepository
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
    from agenttalk.rules.proof.protection import FileTree

    return check_discovery.make_candidate(command, FileTree.from_paths(repository.paths), cwd=repository.inside)
