"""Makes checks on the machine of a verifier: fetches the tree or the files, and runs what the engine runs itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, get_args

from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.adapters.proving.check_runner import CheckRunner
from agenttalk.adapters.proving.proof_checkouts import CheckoutOpener, open_tree
from agenttalk.adapters.proving.worker_trees import call_git, fetch_commit
from agenttalk.adapters.workspaces.async_methods import in_thread
from agenttalk.adapters.workspaces.git import FOLDER
from agenttalk.adapters.workspaces.paths import WorkspaceSettings
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, InputError, MachineError
from agenttalk.contracts.worker import CheckGround, CheckOrder, OrderedFile, OrderedTree, VerifiedResult
from agenttalk.ports.verification import CheckInput
from agenttalk.rules.fleet.verification import read_crossed, read_outcomes, write_result
from agenttalk.rules.proof.evidence import ResultSource

_PLAN: Final = "checks"
"""The name of the one workspace of a verifier."""
_BASE: Final = "refs/heads/base"
_REFS: Final = "refs/checks/"
_KEPT: Final = 50
"""Commits that are kept, so that of the next tree only the difference is fetched."""
_SOURCES: Final[Mapping[str, ResultSource]] = {name: name for name in get_args(ResultSource)}
RunnerFactory = Callable[[CheckOrder, CheckInput], CheckRunner]
"""Makes what runs checks as an order wants them to be confined."""


class VerifierMachine:
    """Makes checks on this machine. Implements `CheckMaker`."""

    def __init__(self, root: Path, make_runner: RunnerFactory) -> None:
        self._home = root.absolute() / FOLDER / _PLAN
        self._repository = root.absolute() / "system_runtime" / "repositories" / f"{_PLAN}.git"
        self._make_runner = make_runner
        self._space: PlanWorkspace | None = None

    async def make(self, lease: str, order: CheckOrder, given: CheckInput) -> VerifiedResult:
        """Fetch what a check is about, and make it; see the port."""
        if order.tree is not None and order.tree.prepare:
            raise InputError(Code.CHECK_CANNOT_RUN, "a verifier prepares no checkouts")
        runner = self._make_runner(order, given)
        own = await _fetch_files(order.own, given)
        checkout: CheckoutOpener = runner.open_files(await _fetch_files(order.files, given))
        if order.tree is not None:
            checkout = await self._fetch_tree(lease, order.tree, given)
        result = await runner.run(order.check, _read_ground(order.ground), checkout, own)
        return write_result(result)

    async def close(self) -> None:
        """Free what is kept for the next checks."""
        if self._space is not None:
            await self._space.release()

    async def _fetch_tree(self, lease: str, tree: OrderedTree, given: CheckInput) -> CheckoutOpener:
        await in_thread(_fetch, self._repository, lease, tree, given.remote)
        if self._space is None:
            self._home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            space = await PlanWorkspace.open(WorkspaceSettings(self._repository, _PLAN, self._home, "base"))
            if self._space is None:
                await space.remove_incomplete()
                self._space = space
        found = await self._space.trees.tree_of(tree.commit)
        if tree.tree not in {found, tree.commit}:
            raise MachineError(
                Code.PAYLOAD_HASH_MISMATCH, "the commit that came has another tree than the engine named"
            )
        return open_tree(self._space, tree.tree, None, tree.commit)


async def _fetch_files(files: Sequence[OrderedFile], given: CheckInput) -> dict[str, bytes]:
    contents = {}
    for file in files:
        data = await given.fetch(file.sha256)
        if wire.sha256(data) != file.sha256:
            raise MachineError(Code.PAYLOAD_HASH_MISMATCH, f"{file.path} came with another content")
        contents[file.path] = data
    return contents


def _fetch(repository: Path, lease: str, tree: OrderedTree, remote: tuple[str, str]) -> None:
    """Fetch a commit. The newest stay, for the difference to the next; the others may be removed."""
    fetch_commit(repository, remote, tree.ref, f"{_REFS}{lease}", tree.commit)
    call_git(repository, "update-ref", _BASE, tree.commit)
    named = call_git(repository, "for-each-ref", "--sort=-creatordate", "--format=%(refname)", _REFS).decode().split()
    for old in named[_KEPT:]:
        call_git(repository, "update-ref", "-d", old)


def _read_ground(ground: CheckGround) -> CheckFacts:
    return CheckFacts(
        tree=ground.tree,
        covered=ground.covered,
        files=ground.files,
        inputs=ground.inputs,
        base=read_outcomes(ground.base),
        base_source=_SOURCES.get(ground.base_source, ""),
        crossed=read_crossed(ground.crossed),
        before_work=ground.before_work,
        judged=ground.judged,
        changed=ground.changed,
        protected=ground.protected,
        tier=ground.tier,
        required=ground.required,
        standing=frozenset(ground.standing),
    )
