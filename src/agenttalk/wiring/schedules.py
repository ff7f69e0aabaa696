"""Makes the scheduler of a root."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agenttalk.contracts.schedule import Schedule
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.schedules import Scheduler
from agenttalk.rules.planfile.compiler import CompiledPlan
from agenttalk.wiring.plan_files import compile_schedule
from agenttalk.wiring.settings import Settings


def make_scheduler(
    root: Path,
    deps: Deps,
    settings: Settings,
    *,
    nudge: Callable[[], None] = lambda: None,
    submitted: Callable[[], None] = lambda: None,
) -> Scheduler:
    """Make the scheduler of a root."""

    def compiler(schedule: Schedule, plan_id: str) -> CompiledPlan:
        return compile_schedule(root, schedule, plan_id)

    return Scheduler(deps, settings.schedules, compiler, nudge=nudge, submitted=submitted)
