"""The use cases of a root that has no engine, for one command."""

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
    """Return the use cases of a root that has no engine: they read, and check again what plans proved.

    Nothing is started.
    """
    processes, settings = LocalProcesses(), load(root)
    prover = make_prover(root, deps, ScriptDriver(processes), settings.checks)
    dispatcher = Dispatcher(deps, {}, processes, max_running=0, prover=prover)
    return Service(deps, dispatcher=dispatcher, day_cost_usd=settings.limits.cost_usd_per_day)
