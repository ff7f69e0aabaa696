"""Checkouts for checks: of a tree of a plan, or of some files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from agenttalk.adapters.workspaces.preparation import PreparedTree
from agenttalk.adapters.workspaces.results import SealedCheckout
from agenttalk.adapters.workspaces.workspace import PlanWorkspace


class ProofCheckout(NamedTuple):
    """A checkout for a check."""

    sealed: SealedCheckout
    isolated: bool = True
    """Whether its preparation, if there was one, ran in a sandbox."""


class CheckoutOpener(Protocol):
    """Opens checkouts of one tree, or of some files."""

    def __call__(self, layered: bool, /) -> AbstractAsyncContextManager[ProofCheckout]:  # noqa: FBT001 - it has no other
        """Open a checkout. A `layered` one, which is used by sandboxed programs alone, may be an overlay."""


@dataclass(frozen=True, slots=True)
class TreeCheckouts:
    """Checkouts of a tree, each with what was prepared for it. Implements `CheckoutOpener`."""

    space: PlanWorkspace
    tree: str
    prepared: PreparedTree | None
    commit: str
    """A commit with that tree, for those who fetch it."""

    @asynccontextmanager
    async def __call__(self, layered: bool, /) -> AsyncIterator[ProofCheckout]:  # noqa: FBT001 - see CheckoutOpener
        """Open a checkout; see `CheckoutOpener`."""
        prepared = self.prepared
        async with self.space.checkouts.open_sealed(self.tree, prepared=prepared, layered=layered) as sealed:
            yield ProofCheckout(sealed, prepared is None or prepared.isolated)


@dataclass(frozen=True, slots=True)
class FileCheckouts:
    """Checkouts that hold some files and nothing else. Implements `CheckoutOpener`."""

    files: Mapping[str, bytes]
    lay_out: Callable[[Mapping[str, bytes]], AbstractAsyncContextManager[ProofCheckout]]

    def __call__(self, layered: bool, /) -> AbstractAsyncContextManager[ProofCheckout]:  # noqa: ARG002, FBT001 - see CheckoutOpener
        """Open a checkout; see `CheckoutOpener`."""
        return self.lay_out(self.files)


def open_tree(space: PlanWorkspace, tree: str, prepared: PreparedTree | None, commit: str = "") -> TreeCheckouts:
    """Return checkouts of a tree, each with what was prepared for it. `commit` has that tree; by default it is one."""
    return TreeCheckouts(space, tree, prepared, commit or tree)
