"""Plans that an agent drafts: which fields a draft may have, and which the person sets who asks for the plan.

A draft names agents of a team and their tasks. It cannot set their programs and permissions; otherwise the agent that
drafts a plan could have any program run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.errors import Code, Problem

KEYS: Final = ("name", "tasks")
"""The fields of a draft."""
_DROPPED: Final = frozenset({"plan_id", "version"})
"""Fields that planners like to add, and that are ignored."""
_FENCED: Final = re.compile(r"\A\s*```[a-z]*\s*\n(.*?)\n?```\s*\Z", re.DOTALL)
_WORD: Final = re.compile(r"[a-z0-9]+")
_LONGEST_NAME: Final = 40


@dataclass(frozen=True, slots=True)
class DraftFrame:
    """The parts of a plan that are set before it is drafted."""

    plan_id: str
    team: tuple[str, ...]
    """Agents that may be given tasks."""
    workspace: Mapping[str, Any] | None = None
    """The repository that tasks may work on."""
    reviewers: tuple[str, ...] = ()
    """Agents that have to approve it before it begins."""


def make_plan_id(goal: str) -> str:
    """Make a plan's id from its goal: the first words, and a piece of the hash."""
    words = "-".join(_WORD.findall(goal.lower()))[:_LONGEST_NAME].strip("-")
    return f"{words or 'plan'}-{hashlib.sha256(goal.encode()).hexdigest()[:6]}"


def strip_fence(text: str) -> str:
    """Remove the fence of a code block around the whole draft, which models like to write."""
    match = _FENCED.match(text)
    return match[1] + "\n" if match else text


def assemble_plan(draft: object, frame: DraftFrame) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """Make a plan file from a draft. Returns it with the problems of the draft."""
    if not isinstance(draft, dict):
        return {}, (Problem(Code.FIELD_TYPE, "", "a draft is a mapping with name and tasks", "begin with tasks:"),)
    problems = [_settled_elsewhere(str(key)) for key in draft if key not in KEYS and key not in _DROPPED]
    tasks = draft.get("tasks")
    used = set()
    for at, task in enumerate(tasks if isinstance(tasks, list) else ()):
        agent = task.get("agent") if isinstance(task, dict) else None
        if isinstance(agent, str) and agent not in frame.team:
            problems.append(_not_in_team(f"tasks[{at}].agent", agent, frame.team))
        elif isinstance(agent, str):
            used.add(agent)
    plan: dict[str, Any] = {"plan_id": frame.plan_id, **{key: draft[key] for key in KEYS if key in draft}}
    plan["agents"] = {agent: {} for agent in sorted(used | {*frame.reviewers})}
    if frame.workspace:
        plan["workspace"] = dict(frame.workspace)
    if frame.reviewers:
        plan["review"] = {"reviewers": list(frame.reviewers)}
    return plan, tuple(problems)


def _settled_elsewhere(key: str) -> Problem:
    message = f"a draft cannot set {key!r}: the person who asks for the plan sets it"
    return Problem(Code.FIELD_UNKNOWN, key, message, f"write {' and '.join(KEYS)} only")


def _not_in_team(field: str, agent: str, team: Collection[str]) -> Problem:
    near = find_nearest(agent, team)
    hint = f"did you mean {near!r}?" if near else f"the team is: {', '.join(sorted(team))}"
    return Problem(Code.NAME_UNKNOWN, field, f"there is no agent {agent!r} in the team", hint)
