"""Makes the prover of a root, which makes checks on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from agenttalk.adapters.checking.checker import AskForge, Checker
from agenttalk.adapters.checking.command import CheckContext
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.proving import WorkspaceProver
from agenttalk.adapters.proving.change_prover import ChangeProver
from agenttalk.adapters.proving.change_trees import ChangeTrees
from agenttalk.adapters.proving.check_runner import CheckRunner
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.proof.evidence_store import StoredFindings
from agenttalk.engine.proof.plan_tips import StoredTips
from agenttalk.ports.agents import Driver
from agenttalk.rules.core.http_addresses import read_allowed
from agenttalk.wiring.machine import RandomIds, SystemClock
from agenttalk.wiring.settings import Settings
from agenttalk.wiring.settings.tables import CheckSettings


def make_local_prover(root: Path, deps: Deps, settings: Settings) -> WorkspaceProver:
    """Make the prover of a process without an engine."""
    return make_prover(root, deps, ScriptDriver(LocalProcesses()), settings.checks)


def make_prover(
    root: Path, deps: Deps, driver: Driver, settings: CheckSettings, forge: AskForge | None = None
) -> WorkspaceProver:
    """Make the prover. Its checks run in a sandbox where there is one, without access to our own files."""
    checker = Checker(driver, deps.clock, deps.ids, forge=forge)
    context = make_context(deps, settings)
    return WorkspaceProver(
        root, checker, context, deps.clock, deps.stores.blobs, StoredFindings(deps), StoredTips(deps)
    )


def make_check_runner(root: Path, deps: Deps, driver: Driver) -> CheckRunner:
    """Make what runs checks and preparations on the machine of a worker."""
    checker, context = Checker(driver, deps.clock, deps.ids), make_context(deps, CheckSettings())
    return CheckRunner(root, checker, context, deps.clock, deps.stores.blobs, StoredFindings(deps))


def make_context(deps: Deps, settings: CheckSettings) -> CheckContext:
    """Make the context in which checks run on this machine."""
    return CheckContext(
        path=os.environ.get("PATH", os.defpath),
        network=settings.network == "on",
        prepare_network=settings.prepare_network == "on",
        sandbox=settings.sandbox,
        isolation=deps.operator.words.everyone.isolation or "best",
        masked=deps.sandbox_paths.hidden,
        readable=deps.sandbox_paths.readable,
        allowed=tuple(map(read_allowed, settings.allow)),
    )


def make_change_prover(trees: ChangeTrees, hidden: Path, prepare: str = "") -> ChangeProver:
    """Make the prover of a change. Its checks cannot see the folder `hidden`, where another copy of the work lies."""
    settings = CheckSettings()
    context = CheckContext(
        path=os.environ.get("PATH", os.defpath),
        network=settings.network == "on",
        prepare_network=settings.prepare_network == "on",
        sandbox=settings.sandbox,
        masked=(hidden,),
    )
    checker = Checker(ScriptDriver(LocalProcesses()), SystemClock(), RandomIds())
    return ChangeProver(checker, context, trees, prepare)
