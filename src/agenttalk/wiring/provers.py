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
from agenttalk.adapters.proving.verified_checks import UnservedVerifiers, VerifiedChecks
from agenttalk.adapters.proving.verifier_machine import VerifierMachine
from agenttalk.contracts.worker import CheckOrder
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.proof.evidence_store import StoredFindings
from agenttalk.engine.proof.plan_tips import StoredTips
from agenttalk.ports.agents import Driver
from agenttalk.ports.verification import CheckInput, Verifiers
from agenttalk.rules.core.http_addresses import read_allowed
from agenttalk.wiring.machine import RandomIds, SystemClock
from agenttalk.wiring.settings import Settings
from agenttalk.wiring.settings.tables import CheckSettings


def make_local_prover(root: Path, deps: Deps, settings: Settings) -> WorkspaceProver:
    """Make the prover of a process without an engine."""
    return make_prover(root, deps, ScriptDriver(LocalProcesses()), settings.checks)


def make_prover(
    root: Path,
    deps: Deps,
    driver: Driver,
    settings: CheckSettings,
    forge: AskForge | None = None,
    verifiers: Verifiers | None = None,
) -> WorkspaceProver:
    """Make the prover. Its checks run in a sandbox where there is one, without access to our own files.

    Where the operator wants verifiers and this process has none, nothing that they would make is made here.
    """
    checker = Checker(driver, deps.clock, deps.ids, forge=forge)
    context = make_context(deps, settings)
    verified = None
    if deps.verify.pool:
        verified = VerifiedChecks(verifiers or UnservedVerifiers(), deps.verify, checker, context, deps.clock)
    return WorkspaceProver(
        root, checker, context, deps.clock, deps.stores.blobs, StoredFindings(deps), StoredTips(deps), verified
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


def make_verifier_machine(root: Path, deps: Deps, driver: Driver) -> VerifierMachine:
    """Make what makes checks on the machine of a verifier, confined as the engine wants it."""
    checker = Checker(driver, deps.clock, deps.ids)
    path = os.environ.get("PATH", os.defpath)

    def make_runner(order: CheckOrder, given: CheckInput) -> CheckRunner:
        context = CheckContext(
            path=path,
            network=order.network,
            prepare_network=order.prepare_network,
            sandbox=order.sandbox,
            isolation=order.isolation,
            masked=deps.sandbox_paths.hidden,
            readable=deps.sandbox_paths.readable,
            progress=given.progress,
        )
        return CheckRunner(root, checker, context, deps.clock, deps.stores.blobs, StoredFindings(deps))

    return VerifierMachine(root, make_runner)


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
