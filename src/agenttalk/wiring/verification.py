"""Looking again at what plans proved, for a command that works without an engine."""

from __future__ import annotations

from pathlib import Path

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.service import Service
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.wiring.provers import make_prover
from agenttalk.wiring.settings import load


def make_verification_service(root: Path, deps: Deps) -> Service:
    """What looks again at what plans proved, of a root that has no engine. It begins nothing."""
    processes = LocalProcesses()
    checks = make_prover(root, deps, ScriptDriver(processes), load(root).checks)
    return Service(deps, dispatcher=Dispatcher(deps, {}, processes, max_running=0, prover=checks))
