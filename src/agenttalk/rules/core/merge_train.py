"""Decides what each attempt of a merge train builds its candidate on, and which one may land.

Attempts that are ready to merge stand in line. Each builds its candidate on that of the one before, so all are checked
at the same time. They land in order. One that does not pass is skipped: those behind it build on the nearest one before
it that has not failed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class TrainMember:
    """An attempt in a merge train."""

    lease: str
    build: int = 0
    """The number of its candidate; 0 until it is built."""
    base: int = 0
    """The number of the candidate or of the tip that it was built on; 0 before."""
    failed: bool = False
    """Whether its candidate did not pass. That is final only when everything before it has landed."""


@dataclass(frozen=True, slots=True)
class MergeLine:
    """The members of a merge train in the order in which they land, and the tip of the branch."""

    tip: int = 1
    """The number of the tip."""
    members: tuple[TrainMember, ...] = ()
    last: int = 1
    """The highest number that was given out."""

    def member(self, lease: str) -> TrainMember:
        """Return the member with a lease."""
        return self.members[self._place(lease)]

    def join(self, lease: str, *, first: bool = False) -> MergeLine:
        """Add a member at the end, or before all others."""
        new = (TrainMember(lease),)
        return replace(self, members=new + self.members if first else self.members + new)

    def leave(self, lease: str) -> MergeLine:
        """Remove a member that did not land."""
        return replace(self, members=tuple(member for member in self.members if member.lease != lease))

    def find_base(self, lease: str) -> int | None:
        """Find the number of what a member has to build on; None while the one before it is still building."""
        ahead = [member for member in self.members[: self._place(lease)] if not member.failed]
        return (ahead[-1].build or None) if ahead else self.tip

    def offer(self, lease: str, base: int) -> MergeLine:
        """Give a new number to the candidate that a member built on a base."""
        build = self.last + 1
        return replace(self._change(lease, build=build, base=base, failed=False), last=build)

    def restart(self, lease: str) -> MergeLine:
        """Have a member build again: what was built on its candidate is outdated."""
        return self._change(lease, build=0, base=0, failed=False)

    def fail(self, lease: str, base: int) -> MergeLine:
        """Skip a member whose candidate on a base did not pass, or could not be built."""
        return self._change(lease, base=base, failed=True)

    def is_outdated(self, lease: str) -> bool:
        """Return whether a member's candidate has to be built again on something else."""
        return self.member(lease).base != self.find_base(lease)

    def is_first(self, lease: str) -> bool:
        """Return whether nothing before a member can land any more, so that its result is final."""
        return self._place(lease) == 0

    def land(self, lease: str) -> MergeLine:
        """Make the candidate of the first member the tip."""
        landed = self.members[0]
        if landed.lease != lease or landed.base != self.tip:
            raise ValueError(f"{lease} cannot land")
        return replace(self, tip=landed.build, members=self.members[1:])

    def move_tip(self) -> MergeLine:
        """Give a new number to a tip that was moved from elsewhere. Every built candidate is outdated."""
        return replace(self, tip=self.last + 1, last=self.last + 1)

    def _place(self, lease: str) -> int:
        return next(place for place, member in enumerate(self.members) if member.lease == lease)

    def _change(self, lease: str, **fields: int) -> MergeLine:
        members = tuple(
            replace(member, **fields) if member.lease == lease else member  # type: ignore[arg-type]
            for member in self.members
        )
        return replace(self, members=members)
