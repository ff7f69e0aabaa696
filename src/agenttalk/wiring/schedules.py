"""Schedules of a root, and the plan files that they name."""

from __future__ import annotations

from pathlib import Path

from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.schedules import Schedules
from agenttalk.wiring.plan_files import scheduled_plan
from agenttalk.wiring.settings import Settings


def schedules(root: Path, deps: Deps, settings: Settings) -> Schedules:
    """What is done again and again in a root."""
    return Schedules(deps, settings.schedules, lambda schedule, plan_id: scheduled_plan(root, schedule, plan_id))
