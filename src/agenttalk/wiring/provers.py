"""Who makes checks on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from agenttalk.checking.checker import AskForge, Checker
from agenttalk.checking.running import Context
from agenttalk.drivers.processes import LocalProcesses
from agenttalk.drivers.script import ScriptDriver
from agenttalk.engine.deps import Deps
from agenttalk.engine.evidence import KeptFindings
from agenttalk.ports import Driver
from agenttalk.proving import Prover


def prover(root: Path, deps: Deps, driver: Driver, forge: AskForge | None = None) -> Prover:
    """Whoever makes the checks: in a sandbox where there is one, and without sight of what is ours."""
    checker = Checker(driver, deps.clock, deps.ids, forge=forge)
    path = os.environ.get("PATH", os.defpath)
    least = deps.operator.words.everyone.isolation or "best"
    context = Context(path=path, isolation=least, masked=deps.walls.hidden, readable=deps.walls.readable)
    return Prover(root, checker, context, deps.clock, deps.stores.blobs, KeptFindings(deps))


def local_prover(root: Path, deps: Deps) -> Prover:
    """Whoever makes checks for a command that works without an engine."""
    return prover(root, deps, ScriptDriver(LocalProcesses()))
