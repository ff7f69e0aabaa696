"""Whether a worker is there: one time limit, from which all others follow."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Liveness = Literal["online", "suspect", "lost"]


class LeaseTiming(NamedTuple):
    """How long silence may last, in seconds. The worker stops by itself before its engine gives up on it."""

    ttl: float = 30.0
    """After so many seconds without an answer a worker ends the processes of its attempts, by its own clock."""

    @property
    def renew(self) -> float:
        """How often a worker that is busy speaks."""
        return self.ttl / 3

    @property
    def suspect(self) -> float:
        """After so many seconds of silence a worker gets nothing new."""
        return self.ttl / 2

    @property
    def lost(self) -> float:
        """After so many seconds of silence its attempts are lost. The margin covers a worker that is slow to stop."""
        return self.ttl * 1.5


STANDARD: Final = LeaseTiming()


def judge_liveness(silent: float, timing: LeaseTiming = STANDARD) -> Liveness:
    """Judge a worker that has been silent for so many seconds."""
    if silent >= timing.lost:
        return "lost"
    return "suspect" if silent >= timing.suspect else "online"


class WorkerContact(NamedTuple):
    """What an engine last heard of a worker."""

    heard: float
    """When that was, by the engine's own clock."""
    hanging: int = 0
    """Requests of it that wait for their answer."""
    slots: int = 0
    busy: int = 0
    """Places in which it runs an attempt."""
    is_draining: bool = False

    @property
    def free(self) -> int:
        """How many more attempts it can take."""
        return self.slots - self.busy


def judge_contact(contact: WorkerContact | None, now: float, timing: LeaseTiming = STANDARD) -> Liveness:
    """Judge a worker by what was heard of it. One of which nothing was heard is lost."""
    if contact is None:
        return "lost"
    return "online" if contact.hanging else judge_liveness(now - contact.heard, timing)


def must_stop(silent: float, timing: LeaseTiming = STANDARD) -> bool:
    """Whether a worker that has not reached its engine for so many seconds ends what it runs."""
    return silent >= timing.ttl
