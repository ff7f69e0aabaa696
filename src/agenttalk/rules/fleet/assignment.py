"""Which worker gets which task or check, and why it waits: by pool, labels, drivers, sandboxes, places and state.

A verifier never checks the work of an agent that ran on its machine since that started.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from agenttalk.contracts.agent import NAMED_TIERS, AgentProfile, Tier
from agenttalk.contracts.worker import WorkerRole, WorkerState
from agenttalk.rules.fleet.liveness import Liveness

LackKind = Literal["role", "label", "driver", "program", "sandbox", "machine", "answered", "state", "silent", "full"]


class Lack(NamedTuple):
    """Something for which a worker does not get a task."""

    kind: LackKind
    name: str
    """What it lacks, or the state that it is in."""


class MachineStart(NamedTuple):
    """A machine since it started."""

    machine: str
    start: str = ""
    """The id of its start; empty if it is not known."""

    def is_shared_with(self, other: MachineStart) -> bool:
        """Whether both are the same machine, not started anew between them as far as is known.

        The start belongs to the kernel: under the same one, two containers are one machine, under any name.
        """
        if self.start and other.start:
            return self.start == other.start
        return self.machine == other.machine


NOWHERE: Final = MachineStart("")


@dataclass(frozen=True, slots=True)
class WorkerNeeds:
    """What a task needs of its worker."""

    pool: str
    labels: frozenset[str] = frozenset()
    driver: str = "script"
    program: str = ""
    """The coding agent."""
    tier: Tier = "best"
    isolated: bool = False
    """Whether any sandbox has to work."""
    role: WorkerRole = "agents"
    avoided: frozenset[MachineStart] = frozenset()
    """Where the work that a check is about may have left something."""
    answered: tuple[tuple[str, MachineStart], ...] = ()
    """The keys and machines of those that made the check already, and of which none may make it again."""


@dataclass(frozen=True, slots=True)
class WorkerStanding:
    """A worker, as the choice sees it."""

    worker: str
    name: str
    pool: str
    labels: frozenset[str] = frozenset()
    drivers: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    sandboxes: frozenset[str] = frozenset()
    state: WorkerState = "active"
    liveness: Liveness = "online"
    paused: bool = False
    """Whether its pool is paused."""
    free: int = 1
    """Attempts or checks that it can still take."""
    role: WorkerRole = "agents"
    public_key: str = ""
    started: MachineStart = NOWHERE


class NearMatch(NamedTuple):
    """A worker that does not get a task, and everything that is missing."""

    worker: WorkerStanding
    lacks: tuple[Lack, ...]


def needs_of(profile: AgentProfile) -> WorkerNeeds | None:
    """Return what the tasks of an agent need of their worker; None for an agent that needs none."""
    if profile.pool is None:
        return None
    use = profile.cli or profile.acp
    program = use.agent if use is not None and use.agent != "custom" else ""
    return WorkerNeeds(
        profile.pool, frozenset(profile.needs), profile.driver, program, profile.tier, profile.isolated_only
    )


def find_lacks(needs: WorkerNeeds, worker: WorkerStanding) -> tuple[Lack, ...]:
    """Find everything for which a worker of the right pool does not get a task now."""
    found = [Lack("role", worker.role)] if needs.role != worker.role else []
    found += [Lack("label", label) for label in sorted(needs.labels - worker.labels)]
    if needs.role == "agents" and needs.driver not in worker.drivers:
        found.append(Lack("driver", needs.driver))
    if needs.program and needs.program not in worker.programs:
        found.append(Lack("program", needs.program))
    named = needs.tier in NAMED_TIERS and needs.tier not in worker.sandboxes
    if named or (needs.isolated and needs.tier == "best" and not worker.sandboxes):
        found.append(Lack("sandbox", needs.tier))
    if any(worker.started.is_shared_with(each) for each in needs.avoided):
        found.append(Lack("machine", worker.started.machine))
    if any(_is_same(worker, key, place) for key, place in needs.answered):
        found.append(Lack("answered", worker.name))
    if worker.state != "active":
        found.append(Lack("state", worker.state))
    if worker.paused:
        found.append(Lack("state", "paused"))
    if worker.liveness != "online":
        found.append(Lack("silent", worker.liveness))
    if worker.free <= 0:
        found.append(Lack("full", str(worker.free)))
    return tuple(found)


def _is_same(worker: WorkerStanding, key: str, place: MachineStart) -> bool:
    return worker.public_key == key or worker.started.machine == place.machine or worker.started.is_shared_with(place)


def pick_offers(waiting: Sequence[WorkerNeeds], worker: WorkerStanding) -> list[int]:
    """Pick what a worker is offered of the tasks that wait, the longest waiting first. Returns their places."""
    picked: list[int] = []
    for place, needs in enumerate(waiting):
        if len(picked) >= worker.free:
            break
        if needs.pool == worker.pool and not find_lacks(needs, worker):
            picked.append(place)
    return picked


def find_near_matches(needs: WorkerNeeds, workers: Iterable[WorkerStanding]) -> list[NearMatch]:
    """Find the workers of a pool and what each lacks for a task, those that lack least first."""
    found = [NearMatch(each, find_lacks(needs, each)) for each in workers if each.pool == needs.pool]
    return sorted(found, key=lambda near: (len(near.lacks), near.worker.name, near.worker.worker))
