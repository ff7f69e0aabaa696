"""Connects an engine to its forges, and reads forges for commands that run without an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.profiles import profile_of
from agenttalk.engine.operation.service import Service
from agenttalk.engine.toolchain.board import ToolchainBoard, ToolchainSetup
from agenttalk.engine.toolchain.loops import ForgeConnections
from agenttalk.engine.toolchain.reconciler import Reconciler, ReconcileResult
from agenttalk.ports.forge import EventSource, Forge
from agenttalk.wiring import forge_sources
from agenttalk.wiring.settings import Settings


def connect_forges(
    deps: Deps, settings: Settings, sources: Mapping[str, EventSource], forges: Mapping[str, Forge]
) -> ForgeConnections | None:
    """Build what connects the engine to its forges; None where none is configured."""
    if not settings.sources:
        return None
    if not forges:
        return ForgeConnections(sources, _setup(deps, settings))
    reading = forge_sources.ForgeReader(forges, settings.toolchain.risk.high)
    return ForgeConnections(
        sources,
        _setup(deps, settings),
        asked=reading.read_reviewers,
        gather=reading.read_content,
        search=reading.find_pull_requests,
        rights=reading.may_write,
        forges=forges,
        reconcile_every=settings.toolchain.reconcile_every,
    )


async def reconcile_forges(root: Path, deps: Deps, settings: Settings, *, dry_run: bool) -> ReconcileResult:
    """Read the forges of a root without a running engine; the tasks begin when an engine starts."""
    deps = replace(deps, kinds=forge_sources.kinds_of(settings))
    async with forge_sources.open_clients(root, settings) as forges:
        board = ToolchainBoard(deps, _setup(deps, settings), lambda: "")
        reading = forge_sources.ForgeReader(forges, settings.toolchain.risk.high)
        reconciler = Reconciler(deps, board, forges, gather=reading.read_content, rights=reading.may_write)
        service = Service(deps, reconciler=reconciler if forges else None)
        return await service.reconcile(dry_run=dry_run, by="operator")


def _setup(deps: Deps, settings: Settings) -> ToolchainSetup:
    return forge_sources.build_setup(settings, lambda agent: profile_of(deps, agent, settings.profile_of))
