"""What a forge shows of the newest commit of a branch ↔ tasks for deployments that failed.

Like `reconciling`, it puts what is owed as the event that would have told of it, so that its task is the one that a
webhook makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from agenttalk.contracts.forge import ForgeEvent, Repository, Status
from agenttalk.contracts.words import ForgeKind
from agenttalk.rules import intake
from agenttalk.rules.forge_registry import Registry
from agenttalk.rules.proposing import Decision, Known, Withdrawal

DEPLOYED: Final = "it is deployed by now"


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest commit of the branch that a repository is deployed from."""

    source: str
    kind: ForgeKind
    repository: str
    branch: str
    sha: str
    statuses: tuple[Status, ...] = ()
    """The newest of each context."""
    undone: Mapping[str, str] = field(default_factory=dict)
    """Keys of open tasks about deployments of this repository → the context that failed; empty where none tells."""


def is_watched(registry: Registry) -> bool:
    """Whether anybody is to hear of deployments, and anything is known to be one."""
    return registry.ops is not None and bool(registry.deploy_patterns)


def is_deployment(status: Status, registry: Registry) -> bool:
    """Whether a status tells of a deployment. What runs for a pull request is none."""
    return not status.context.endswith("(pull_request)") and registry.deploys(status.context)


def events(newest: Newest, registry: Registry) -> tuple[ForgeEvent, ...]:
    """The event that would have told how the newest deployment ended; none while nothing has ended."""
    ended = [
        each for each in newest.statuses if each.outcome in {"failure", "success"} and is_deployment(each, registry)
    ]
    red = [each for each in ended if each.outcome == "failure"]
    return tuple(_event(newest, each) for each in (red or ended)[:1])


def decide(newest: Newest, event: ForgeEvent, registry: Registry, known: Known) -> Decision:
    """What follows from one of the events of `events`. Tasks whose context is green by now are closed."""
    decision = intake.decide(event, registry, known)
    done = tuple(Withdrawal(key, DEPLOYED) for key in sorted(newest.undone) if _is_green(newest, newest.undone[key]))
    ignored = "" if done else decision.ignored
    return replace(decision, withdrawn=(*decision.withdrawn, *done), ignored=ignored, warnings=())


def _is_green(newest: Newest, context: str) -> bool:
    found = [each for each in newest.statuses if each.context == context or each.context.startswith(f"{context} /")]
    return bool(context and found) and all(each.outcome == "success" for each in found)


def _event(newest: Newest, status: Status) -> ForgeEvent:
    return ForgeEvent(
        source=newest.source,
        kind=newest.kind,
        name="status_changed",
        repository=Repository(full_name=newest.repository, default_branch=newest.branch),
        status=status,
        first_hand=True,
    )
