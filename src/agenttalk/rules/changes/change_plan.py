"""Makes the plan of one task with which an agent changes a repository until a check is proven.

The same repository, commit, check and command give the same plan, so that a run that was cut off goes on.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.promise import RunCheck, TestsCheck, Watch
from agenttalk.rules.changes.check_discovery import CheckCandidate
from agenttalk.rules.core import scope

TASK: Final = "change"
"""The task of the plan."""
CHECK: Final = "check"
"""The check of its promise."""
_WORD: Final = re.compile(r"[a-z0-9]+")
_LONGEST: Final = 40
_LINKED: Final = scope.read_globs((".venv/", "venv/", "node_modules/", ".env", ".env.*", ".envrc", "local.properties"))
"""What git ignores and checks need: environments, packages, and local settings."""
_PROGRAMS: Final = {".venv": ".venv/bin", "venv": "venv/bin", "node_modules": "node_modules/.bin"}
"""Linked folder → where its programs are."""


@dataclass(frozen=True, slots=True)
class ChangeLimits:
    """When the work ends although nothing is proven."""

    rounds: int = 4
    """Turns of the agent: the first, and those of rework."""
    cost_usd: float | None = None
    minutes: float | None = None


@dataclass(frozen=True, slots=True)
class ChangeOrder:
    """What a person wants to be changed, by which agent, and what proves it."""

    repository: str
    """The top of the work tree."""
    identity: str
    """What tells it from others, with its state: the plan's id depends on it."""
    name: str
    """Its name: the first line of the goal, or the check. The branch is named after it."""
    goal: str
    agent_id: str
    agent: Mapping[str, Any]
    """The agent as a plan file describes it."""
    check: RunCheck | TestsCheck | None
    """What proves the work. Without one, a person is asked."""
    question: str = ""
    """What the person is asked."""
    protected: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    suspicion: Watch | None = None
    """What follows from lines that could deceive the check; None for the default of plans."""
    tests_allowed: bool = False
    """Whether the files that the check consists of may be changed."""
    already_green: bool = False
    """Whether the check may pass before the work."""
    links: tuple[str, ...] = ()
    prepare: str = ""
    limits: ChangeLimits = field(default_factory=ChangeLimits)
    attempt: int = 1
    """How often it was ordered: an order that ended without a proof begins again."""


def find_links(ignored: Collection[str]) -> tuple[str, ...]:
    """Find what git ignores and checks need, among the ignored paths of a work tree."""
    known = [path for path in sorted(ignored) if _LINKED.covers(path.rpartition("/")[2], folder=True)]
    return tuple(path for path in known if not any(path.startswith(f"{other}/") for other in known))


def list_program_folders(folder: str) -> tuple[str, ...]:
    """List where linked programs may be for a command that runs in a folder, the nearest first."""
    steps = folder.split("/") if folder else []
    above = ["/".join(steps[:count]) for count in range(len(steps), -1, -1)]
    return tuple(posixpath.join(top, place) for top in above for place in _PROGRAMS.values())


def lead_to_programs(
    command: str, program: str, links: Collection[str], places: Mapping[str, Collection[str]], folder: str = ""
) -> str:
    """Add the folder of linked programs to a command whose program is there.

    `places` are the names of programs by folder, the nearest first; `folder` is where the command runs.
    """
    for place, names in places.items():
        link = posixpath.dirname(place)
        if link in links and program in names:
            return f'export PATH="$PWD/{posixpath.relpath(place, folder or ".")}:$PATH"; {command}'
    return command


def make_slug(text: str) -> str:
    """Make a part of a branch's name of the first words of a text."""
    return "-".join(_WORD.findall(text.lower()))[:_LONGEST].strip("-")


def make_plan(order: ChangeOrder) -> dict[str, Any]:
    """Make the plan file of an order."""
    task: dict[str, Any] = {
        "id": TASK,
        "agent": order.agent_id,
        "prompt": order.goal,
        "workspace": "repo",
        "max_reexecute_times": max(0, order.limits.rounds - 1),
        "promise": _make_promise(order),
    }
    workspace: dict[str, Any] = {"repo": order.repository, "uncommitted": "take"}
    workspace |= {"link": list(order.links)} if order.links else {}
    workspace |= {"prepare": order.prepare} if order.prepare else {}
    plan: dict[str, Any] = {
        "name": order.name,
        "workspace": workspace,
        "agents": {order.agent_id: dict(order.agent)},
        "tasks": [task],
    }
    limits: dict[str, Any] = {}
    if order.limits.minutes is not None:
        limits["seconds"] = task["timeout"] = max(1, round(order.limits.minutes * 60))
    limits |= {"cost_usd": order.limits.cost_usd} if order.limits.cost_usd is not None else {}
    plan |= {"limits": limits} if limits else {}
    told = wire.write({**plan, "identity": order.identity, "attempt": order.attempt})
    mark = wire.sha256(told).rpartition(":")[2][:6]
    return {"plan_id": f"{make_slug(order.name) or 'change'}-{mark}", **plan}


def _make_promise(order: ChangeOrder) -> dict[str, Any]:
    check = _make_check(order)
    description = f"{order.check.run!r} succeeds" if order.check is not None else order.question
    promise: dict[str, Any] = {
        "objective": order.goal,
        "acceptance": [{"id": CHECK, "description": description, "evidenceRequired": [CHECK]}],
        "checks": [check],
    }
    promise |= {"allowedScope": list(order.scope)} if order.scope else {}
    promise |= {"budget": {"cost_usd": order.limits.cost_usd}} if order.limits.cost_usd is not None else {}
    return promise


def _make_check(order: ChangeOrder) -> dict[str, Any]:
    if order.check is None:
        return {"id": CHECK, "kind": "human", "question": order.question}
    check: dict[str, Any] = {**order.check.as_json(), "id": CHECK}
    check["red_first"] = "record" if order.already_green else "required"
    if order.protected:
        check["protected"] = list(order.protected)
    elif order.tests_allowed:
        check |= {"protected": []}
    if order.tests_allowed:
        check["made_by_work"] = True
    if order.suspicion is not None:
        check["suspicion"] = order.suspicion
    return check


def list_protected(candidate: CheckCandidate, protected: Sequence[str], *, tests_allowed: bool) -> tuple[str, ...]:
    """List for a person what the agent may not change: globs that were named, and the files of the check."""
    return tuple(dict.fromkeys((*protected, *(() if tests_allowed else candidate.files))))
