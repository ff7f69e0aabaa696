"""Defines the status of a plan that a command follows to its end."""

from __future__ import annotations

from typing import NotRequired

from agenttalk.engine.views.models.plans import PlanView
from agenttalk.engine.views.models.tasks import TaskExplanation


class WatchedPlan(PlanView):
    """The last status of a plan, and what the command that followed it knows besides."""

    interrupted: NotRequired[bool]
    """Whether the person who followed it ended its turns."""
    explained: NotRequired[dict[str, TaskExplanation]]
    """The explanations of tasks that ended, by their ids, where they were asked for."""
