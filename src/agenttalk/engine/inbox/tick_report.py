"""The report of one tick of a heartbeat."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class TickReport:
    """Counts what a tick did, for people and for the pace of the next tick."""

    claimed: int = 0
    """Messages that were claimed."""
    archived: int = 0
    """Artifacts that were kept as inputs."""
    waiting: int = 0
    """Commands that wait, for inputs or for their turn; of a folder agent, messages in its inbox."""
    asked: int = 0
    """Questions that were sent to people."""
    ran: int = 0
    """Turns that ended, well or not."""
    failed: int = 0
    """Commands that failed for good."""
    dead: int = 0
    """Messages that were refused."""
    running: int = 0
    """Commands that run now."""
    errors: list[str] = field(default_factory=list)
    """Work that failed and is tried again."""

    @property
    def has_worked(self) -> bool:
        """Whether anything was done, so that another tick at once may find more."""
        return bool(self.claimed or self.archived or self.asked or self.ran or self.dead)

    def as_json(self) -> dict[str, object]:
        """Return it as JSON."""
        return asdict(self)

    def add(self, other: TickReport) -> None:
        """Add the counts of a later tick. What that one saw waiting or running replaces what this one saw."""
        for name in ("claimed", "archived", "asked", "ran", "failed", "dead"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.waiting, self.running = other.waiting, other.running
        self.errors += [error for error in other.errors if error not in self.errors]
