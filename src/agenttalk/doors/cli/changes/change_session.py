"""Proves one change from the command line: opens the repository, selects the check, runs it, and cleans up."""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.doors.cli.changes import check_selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agenttalk.adapters.proving.change_trees import ChangeEnds, ChangeTrees
    from agenttalk.adapters.workspaces.user_folder import UserRepository
    from agenttalk.rules.changes.change_proof import ChangePolicy
    from agenttalk.rules.changes.change_report import ChangeReport
    from agenttalk.rules.changes.check_discovery import CheckCandidate
    from agenttalk.rules.checks.protection import FileTree
    from agenttalk.rules.text.message import Message

_FOLDER: Final = "prove"
"""Below the state folder: one folder for each run."""


class NothingToProveError(UsageError):
    """The change is empty."""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """What a person wants to have proven."""

    policy: ChangePolicy
    head: str | None = None
    """The commit with the work; None for the work tree."""
    base: str | None = None
    check: str | None = None
    link: tuple[str, ...] = ()
    """Ignored paths that the check gets; empty for those that checks usually need."""
    env: tuple[tuple[str, str], ...] = ()
    prepare: str = ""
    seconds: int | None = None
    work: str = ""
    """How the work is called; empty for a name that follows from it."""
    fetch: tuple[str, tuple[str, ...], tuple[str, str] | None] | None = None
    """What has to be fetched first: the address, its refs, and a user with its token."""


class ChangeSession:
    """One change of the repository of a folder, while it is proven."""

    def __init__(
        self, repository: UserRepository, trees: ChangeTrees, request: ChangeRequest, links: tuple[str, ...]
    ) -> None:
        """Find the ends of the change. `links` are ignored paths that every checkout gets."""
        self._links = links
        self._repository = repository
        self._trees = trees
        self._request = request
        if request.fetch is not None:
            trees.fetch(*request.fetch)
        self.ends: ChangeEnds = trees.find_ends(request.head, request.base)

    @property
    def tree(self) -> str:
        """The hash of the tree with the work."""
        return self._trees.tree_of(self.ends.head)

    def prove(self, announce: Callable[[str], None]) -> ChangeReport:
        """Prove the change. Raises NothingToProveError when it is empty, and UsageError for bad input."""
        from agenttalk.rules.changes.change_proof import ChangeUnderProof
        from agenttalk.rules.changes.change_report import ChangeReport
        from agenttalk.rules.changes.suspicions import may_hold_answers
        from agenttalk.rules.checks.protection import FileTree
        from agenttalk.rules.text import cli_words
        from agenttalk.wiring.provers import make_change_prover

        files = self._trees.read_change(self.ends.base, self.ends.head)
        if not files:
            errors = cli_words.ERRORS
            message = errors["nothing_to_prove"](base=self._base_shown())
            raise NothingToProveError(Code.OPTION_INVALID, message, hint=errors["nothing_to_prove_hint"]())
        tree = FileTree.from_paths(self._trees.list_paths(self.ends.base))
        candidate, remarks = self._select_check(tree)
        more = {"env": dict(self._request.env) or None, "timeout": self._request.seconds}
        check = check_selection.lead_to_programs(self._repository, candidate, self._links).model_copy(update=more)
        tests = self._trees.read_tests(self.ends.base) if may_hold_answers(files) else ()
        change = ChangeUnderProof(files, check, tree, self._request.policy, tests)
        announce(cli_words.PROVE["check"](command=check.run, why=candidate.why))
        prover = make_change_prover(self._trees, self._repository.top, self._request.prepare)
        remarks = [*remarks, *self._find_remarks()]
        proven = asyncio.run(prover.prove(change, self.ends, remarks, announce))
        return ChangeReport(
            change,
            proven.proof,
            self._request.work or self._name_work(),
            self.ends.head,
            self.ends.base,
            self.ends.base_name if self.ends.base_name != self.ends.base else "",
            candidate.tool,
            candidate.why,
            proven.output,
        )

    def _base_shown(self) -> str:
        return self.ends.base_name or self.ends.base[:10]

    def _name_work(self) -> str:
        if self._request.head is not None:
            return self._request.head
        name = self._repository.branch or self._repository.head[:10]
        count = len(self.ends.uncommitted)
        if not count:
            return name
        from agenttalk.rules.text import change_words

        return (
            change_words.WORK_TREE_OF_ONE(name=name) if count == 1 else change_words.WORK_TREE(name=name, count=count)
        )

    def _select_check(self, tree: FileTree) -> tuple[CheckCandidate, list[Message]]:
        """Select the check: the named one, or the first that the base has. Only where it has none, the work may say."""
        from agenttalk.rules.changes import check_discovery
        from agenttalk.rules.text import change_words, cli_words

        if self._request.check is not None:
            if not self._request.check.strip():
                message = cli_words.ERRORS["empty_option"](option="--check")
                raise UsageError(Code.OPTION_INVALID, message, hint=cli_words.ERRORS["write_check"]())
            return check_discovery.make_candidate(self._request.check, tree, cwd=self._repository.inside), []
        for commit, remarks in ((self.ends.base, []), (self.ends.head, [change_words.CHECK_OF_WORK()])):
            found = self._trees.find_checks(commit, self._repository.ignored)
            if found:
                return found[0], remarks
        errors = cli_words.ERRORS
        raise UsageError(Code.NAME_UNKNOWN, errors["no_check_anywhere"](), hint=errors["no_check_anywhere_hint"]())

    def _find_remarks(self) -> list[Message]:
        from agenttalk.rules.core import scope
        from agenttalk.rules.text import change_words
        from agenttalk.rules.text.message import join_names

        remarks = []
        if submodules := self._trees.list_submodules(self.ends.head):
            names = join_names([scope.display_path(path) for path in submodules])
            remarks.append(change_words.UNCHECKED_SUBMODULES(names=names))
        if self._trees.uses_lfs(self.ends.head):
            remarks.append(change_words.UNCHECKED_LFS())
        if self._links:
            remarks.append(change_words.UNCHECKED_LINKS(names=join_names(self._links)))
        return remarks


@contextmanager
def open_session(here: Path, request: ChangeRequest) -> Iterator[ChangeSession]:
    """Open a change of the repository of a folder. What is needed for it is removed afterwards."""
    from agenttalk.adapters.proving.change_trees import ChangeTrees
    from agenttalk.adapters.workspaces import user_folder
    from agenttalk.contracts.errors import MachineError

    repository = user_folder.find_repository(here)
    named = ("none",) if request.prepare and not request.link else request.link or None
    links = check_selection.choose_links(repository, named)
    with _make_home(repository.top) as home:
        trees = ChangeTrees(repository, home, links)
        try:
            yield ChangeSession(repository, trees, request, links)
        except UsageError as error:
            if error.code is Code.LINK_LEADS_AWAY:
                message = error.message.replace("workspace.link", "--link").replace("workspace.prepare", "--prepare")
                hint = "make the environment in the checkout (--prepare 'python3 -m venv .venv && …'), or --link none"
                raise UsageError(error.code, message, hint=hint) from error
            raise
        except MachineError as error:
            if error.code is Code.COMMAND_FAILED:
                message = error.message.replace("workspace.prepare", "--prepare")
                raise MachineError(error.code, message, hint=error.hint) from error
            raise
        finally:
            trees.close()


def prove_one(here: Path, request: ChangeRequest, announce: Callable[[str], None]) -> ChangeReport:
    """Prove one change."""
    with open_session(here, request) as session:
        return session.prove(announce)


@contextmanager
def _make_home(repository: Path) -> Iterator[Path]:
    """Make the folder of a run, and remove it afterwards; and those of runs that were killed."""
    from agenttalk.adapters.proving.change_trees import remove_home
    from agenttalk.wiring.state_folder import find_state_folder

    top = find_state_folder(repository) / _FOLDER
    top.mkdir(mode=0o700, exist_ok=True)
    for lock in top.glob("*.lock"):
        _sweep(lock)
    name = secrets.token_hex(8)
    lock = top / f"{name}.lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        (top / name).mkdir(mode=0o700)
        yield top / name
    finally:
        remove_home(top / name)
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _sweep(lock: Path) -> None:
    """Remove the folder of a run whose process is gone: its lock is free."""
    from agenttalk.adapters.proving.change_trees import remove_home

    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_home(lock.with_suffix(""))
        lock.unlink(missing_ok=True)
    except (OSError, AgentTalkError):
        return
    finally:
        os.close(descriptor)
