"""What a forge shows of the newest commit of a branch ↔ tasks for deployments that failed.

Like `reconciliation`, it puts what is owed as the event that would have told of it, so that its task is the one that a
webhook makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.forge import ForgeEvent, Repository, Status
from agenttalk.rules.toolchain import event_tasks, forge_facts
from agenttalk.rules.toolchain.accounts import ForgeRegistry
from agenttalk.rules.toolchain.proposal import EventDecision, ForgeKnowledge, Withdrawal

DEPLOYED: Final = "it is deployed by now"


class FailedDeployment(NamedTuple):
    """A deployment that failed."""

    context: str
    """The context of its status; empty where none tells."""
    since: str = ""
    """When it failed, by the forge's clock."""
    sha: str = ""
    """The commit."""


@dataclass(frozen=True, slots=True)
class NewestCommit:
    """The newest commit of the branch that a repository is deployed from."""

    source: str
    kind: ForgeKind
    repository: str
    branch: str
    sha: str
    statuses: tuple[Status, ...] = ()
    """The newest of each context."""
    undone: Mapping[str, FailedDeployment] = field(default_factory=dict)
    """Keys of open tasks about deployments of this repository → what failed."""


def is_watched(registry: ForgeRegistry) -> bool:
    """Return whether an agent gets failed deployments, and deployments can be recognised."""
    return registry.ops is not None and bool(registry.deploy_patterns)


def is_deployment(status: Status, registry: ForgeRegistry) -> bool:
    """Return whether a status is about a deployment. A run for a pull request is not."""
    return not status.context.endswith("(pull_request)") and registry.is_deployment_name(status.context)


def make_events(newest: NewestCommit, registry: ForgeRegistry) -> tuple[ForgeEvent, ...]:
    """Make the event that would have reported how the newest deployment ended; none while none has ended."""
    ended = [
        each for each in newest.statuses if each.outcome in {"failure", "success"} and is_deployment(each, registry)
    ]
    red = [each for each in ended if each.outcome == "failure"]
    return tuple(_event(newest, each) for each in (red or ended)[:1])


def decide(newest: NewestCommit, event: ForgeEvent, registry: ForgeRegistry, known: ForgeKnowledge) -> EventDecision:
    """Decide what follows from an event of `make_events`. Tasks whose context is green now are closed."""
    decision = event_tasks.decide(event, registry, known)
    red = event.status is not None and event.status.outcome == "failure"
    done = tuple(
        Withdrawal(key, DEPLOYED)
        for key, failed in sorted(newest.undone.items())
        if _is_green(newest, failed) and not (red and failed.sha == newest.sha)
    )
    ignored = "" if done else decision.ignored
    return replace(decision, withdrawn=(*decision.withdrawn, *done), ignored=ignored, warnings=())


def _is_green(newest: NewestCommit, failed: FailedDeployment) -> bool:
    """Whether what failed was deployed since."""
    found = forge_facts.filter_statuses(newest.statuses, failed.context)
    good = all(each.outcome == "success" and each.at >= failed.since for each in found)
    return bool(failed.context and found) and good


def _event(newest: NewestCommit, status: Status) -> ForgeEvent:
    return ForgeEvent(
        source=newest.source,
        kind=newest.kind,
        name="status_changed",
        repository=Repository(full_name=newest.repository, default_branch=newest.branch),
        status=status,
        at=status.at,
        first_hand=True,
    )
