"""Confines a program of an agent to its attempt's folder, and where it works to the scope of its promise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout
from agenttalk.contracts.errors import Code, InputError
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.core.attempt_paths import AttemptPaths, EngineAddress
from agenttalk.ports.agents import Confinement
from agenttalk.ports.folders import Folder, FolderEntry
from agenttalk.rules.agents import writable_view
from agenttalk.rules.agents.writable_view import TreeListing, WritableView
from agenttalk.rules.checks import hidden_checks
from agenttalk.rules.text import check_words

_REPOSITORY: Final = ".git"
_DEEPEST: Final = 200


@dataclass(frozen=True, slots=True)
class ConfinementBuilder:
    """Finds out what a turn may touch."""

    seat: AgentInPlan
    profile: AgentProfile
    layout: AttemptPaths
    command: Command
    api: EngineAddress | None = None
    needs: tuple[Path, ...] = ()
    """Places elsewhere that the working directory needs."""

    async def build(self) -> Confinement:
        """Build what the turn may touch. Raises InputError for a tree that is too deep."""
        hides = bool(hidden_checks.list_hidden(self.command.promise))
        if self.profile.tier == "plain" and hides:
            raise InputError(Code.CHECK_CANNOT_RUN, check_words.HIDDEN_NEEDS_SANDBOX())
        if self.profile.tier == "plain":
            return Confinement("plain", required=self.profile.isolated_only, network=self.profile.network == "on")
        view = await asyncio.to_thread(self._view)
        return self._drawn(view)

    def _view(self) -> WritableView:
        root, cwd = self.seat.root, self.layout.cwd
        promise = self.command.promise
        scope = (promise.allowed_scope, promise.disallowed_scope) if promise else ((), ())
        if not any(scope):  # the whole tree is writable
            return writable_view.build_view(*scope, TreeListing())
        skipped = {_REPOSITORY, self._turns.rpartition("/")[2]}
        folders: set[str] = set()
        files: set[str] = set()
        links: set[str] = set()
        for path, entry in _walk(root, cwd, "", skipped, _DEEPEST):
            {"folder": folders, "regular": files}.get(entry.kind, links).add(path)
        view = writable_view.build_view(*scope, TreeListing(frozenset(folders), frozenset(files), frozenset(links)))
        for folder in view.make:
            root.make_folder(f"{cwd}/{folder}")
        return view

    @property
    def _turns(self) -> str:
        return self.layout.base.rpartition("/")[0]

    def _drawn(self, view: WritableView) -> Confinement:
        root, layout = self.seat.root.path.absolute(), self.layout
        cwd, base = root / layout.cwd, root / layout.base
        own = root / root_layout.agent_folder(self.seat.agent_id)
        repository = cwd / _REPOSITORY
        readonly = [
            root,
            own,
            root / self._turns,
            root / layout.inputs,
            root / layout.command,
            *(cwd / path for path in view.readonly),
            *([] if "" in view.writable else [cwd]),
            *([Path(self.api.socket)] if self.api is not None else []),
            *self.needs,
            *self.seat.deps.sandbox_paths.readable,
        ]
        return Confinement(
            self.profile.tier,
            required=self.profile.isolated_only or bool(hidden_checks.list_hidden(self.command.promise)),
            network=self.profile.network == "on",
            writable=(
                base,
                *(cwd / path for path in view.writable),
                *([repository] if self.seat.root.exists(f"{layout.cwd}/{_REPOSITORY}") else []),
            ),
            readonly=tuple(readonly),
            hidden=(
                *self.seat.deps.sandbox_paths.hidden,
                *(Path(path) for path in hidden_checks.list_hidden_paths(self.command.promise)),
            ),
        )


def _walk(root: Folder, top: str, above: str, skipped: set[str], depth: int) -> Iterator[tuple[str, FolderEntry]]:
    """Walk a tree; yields every entry by its path from the top."""
    if not depth:
        raise InputError(Code.FILE_UNSAFE, f"the folders of {top!r} are nested too deep for a sandbox")
    with root.open_folder(f"{top}/{above}" if above else top) as here:
        entries = [entry for entry in here.scan() if above or entry.name not in skipped]
    for entry in entries:
        path = f"{above}/{entry.name}" if above else entry.name
        yield path, entry
        if entry.kind == "folder":
            yield from _walk(root, top, path, skipped, depth - 1)
