"""Schedules of a root, and the plan files that they name."""

from __future__ import annotations

from pathlib import Path

from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.schedules import Scheduler
from agenttalk.wiring.plan_files import compile_schedule
from agenttalk.wiring.settings import Settings


def make_scheduler(root: Path, deps: Deps, settings: Settings) -> Scheduler:
    """What is done again and again in a root."""
    return Scheduler(deps, settings.schedules, lambda schedule, plan_id: compile_schedule(root, schedule, plan_id))
