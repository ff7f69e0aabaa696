"""A store in memory that does with decisions what the engine does: keys hold, sightings replace, failures wait."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agenttalk.contracts.forge import ForgeEvent, ForgeUser, PullRequest, Repository, Sighting
from agenttalk.contracts.toolchain import ProposedTask
from agenttalk.rules.toolchain import dedup_keys, event_tasks, reconciliation, sightings
from agenttalk.rules.toolchain.accounts import ForgeIdentity, ForgeRegistry
from agenttalk.rules.toolchain.proposal import EventDecision, ForgeKnowledge, KnownTask
from agenttalk.rules.toolchain.reconciliation import ForgeSnapshot

SOURCE = "work"
AGENTS = ("agent-dev", "agent-reviewer", "agent-ops", "agent-lead", "agent-second")


def registry(*logins: str, **changes: Any) -> ForgeRegistry:
    """Every login is an agent of the same name."""
    names = logins or AGENTS
    found = ForgeRegistry(
        identities=tuple(ForgeIdentity(login, SOURCE, login) for login in names),
        default_reviewer="agent-reviewer",
        ops="agent-ops",
        lead="agent-lead",
        repositories=("*",),
        deploy_patterns=("*deploy*",),
        callers={SOURCE: ("*",)},
    )
    return replace(found, **changes)


class World:
    """What was decided so far."""

    def __init__(self, configured: ForgeRegistry) -> None:
        self.registry = configured
        self.tasks: list[KnownTask] = []
        self.proposed: dict[str, ProposedTask] = {}
        self.sightings: dict[str, Sighting] = {}
        self.held: list[ForgeEvent] = []
        self.last = EventDecision()

    def reconcile(self, found: ForgeSnapshot) -> list[EventDecision]:
        """What the forge shows of a thing, as the engine takes it."""
        events = reconciliation.make_events(found, self.registry)
        return [
            self._apply(each, reconciliation.decide(found, each, self.registry, self.known(each))) for each in events
        ]

    def see(self, event: ForgeEvent) -> EventDecision:
        return self._apply(event, event_tasks.decide(event, self.registry, self.known(event)))

    def _apply(self, event: ForgeEvent, decision: EventDecision) -> EventDecision:
        self.last = decision
        for each in decision.sightings:
            self.sightings[sightings.object_of(each)] = each
        gone = {each.key for each in decision.withdrawn}
        for task in decision.tasks:
            gone |= set(task.replaces)
        self.tasks = [replace(each, state="waiting") if each.key in decision.restored else each for each in self.tasks]
        assert not {task.key for task in decision.tasks} & {each.key for each in self.tasks}, "a key is unique"
        self.tasks += [as_known(task) for task in decision.tasks]
        self.tasks = [
            replace(each, state="withdrawn") if each.key in gone and each.state == "waiting" else each
            for each in self.tasks
        ]
        self.proposed |= {task.key: task for task in decision.tasks}
        if decision.held and event not in self.held:
            self.held.append(event)
        return decision

    def known(self, event: ForgeEvent) -> ForgeKnowledge:
        """Only what `wanted` names is looked up, as the engine would."""
        found = ForgeKnowledge()
        for _ in range(2):
            wanted = event_tasks.find_lookup_keys(event, found)
            seen = tuple(
                each
                for key, each in self.sightings.items()
                if key in wanted.objects
                or (
                    each.pull_request
                    and dedup_keys.commit_of(each.source, each.repository, each.pull_request.head_sha) in wanted.commits
                )
            )
            tasks = tuple(task for task in self.tasks if task.object in wanted.objects | wanted.commits)
            held = tuple(
                each
                for each in self.held
                if (ran := each.status or each.run)
                and dedup_keys.commit_of(each.source, each.repository.full_name, ran.sha) in wanted.commits
            )
            found = ForgeKnowledge(tasks=tasks, sightings=seen, held=held)
        return found

    def move(self, key: str, state: str) -> None:
        self.tasks = [replace(each, state=state) if each.key == key else each for each in self.tasks]  # type: ignore[arg-type]

    def live(self) -> list[KnownTask]:
        return [each for each in self.tasks if each.state != "withdrawn"]

    def outcome(self) -> list[tuple[str, str]]:
        """(action type, assignee) of every task that is to be done."""
        return sorted((each.action_type, each.assignee) for each in self.live())


def as_known(task: ProposedTask) -> KnownTask:
    context = task.context
    return KnownTask(
        key=task.key,
        action_type=task.action_type,
        assignee=task.assignee,
        object=task.object,
        head_sha=task.head_sha,
        basis=task.basis,
        hop=task.hop,
        at=task.at,
        reviewer=task.reviewer,
        verdict=context.get("result"),
    )


def user(login: str, number: int | None = None) -> ForgeUser:
    return ForgeUser(source=SOURCE, login=login, id=number)


def pull(number: int = 5, **changes: Any) -> PullRequest:
    values: dict[str, Any] = {
        "number": number,
        "title": "Add retry",
        "author": user("agent-dev"),
        "head_sha": "a" * 40,
        "head_ref": "feat/retry",
        "base_ref": "main",
        "requested_reviewers": (),
        "updated_at": "2026-05-01T10:00:00Z",
        "url": f"https://git.example.test/acme/widgets/pulls/{number}",
    }
    return PullRequest(**(values | changes))


def event(name: str, *, sender: str | None = "agent-dev", **parts: Any) -> ForgeEvent:
    shown = parts.get("pull_request") or parts.get("issue")
    values: dict[str, Any] = {
        "source": SOURCE,
        "kind": "gitea",
        "name": name,
        "repository": Repository(full_name="acme/widgets", url="https://git.example.test/acme/widgets"),
        "sender": None if sender is None else user(sender),
        "at": shown.updated_at if shown else "2026-05-01T10:00:00Z",
    }
    return ForgeEvent(**(values | parts))


def run(events: Iterable[ForgeEvent], configured: ForgeRegistry | None = None) -> World:
    world = World(configured or registry())
    for each in events:
        world.see(each)
    return world


def payload_folder() -> Path | None:
    """Recorded deliveries: named by a variable, or beside the checkout."""
    named = os.environ.get("AGENTTALK_PAYLOADS")
    places = [Path(named)] if named else [Path(__file__).parents[4] / "shared" / "payloads"]
    return next((each for each in places if (each / "MANIFEST.md").is_file()), None)
