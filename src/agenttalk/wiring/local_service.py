"""Makes the service of a root that no engine serves."""

from __future__ import annotations

from pathlib import Path

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.service import EngineTools, Service
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.wiring.provers import make_prover
from agenttalk.wiring.schedules import make_scheduler
from agenttalk.wiring.settings import Settings


def make_local_service(root: Path, deps: Deps, settings: Settings) -> Service:
    """Make the service that commands use where no engine runs. Its dispatcher makes checks, and starts no task."""
    processes = LocalProcesses()
    prover = make_prover(root, deps, ScriptDriver(processes), settings.checks)
    return Service(
        deps,
        dispatcher=Dispatcher(deps, {}, processes, max_running=0, prover=prover),
        day_cost_usd=settings.limits.cost_usd_per_day,
        tools=EngineTools(schedules=make_scheduler(root, deps, settings)),
    )
