"""How the tests of a suite ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Outcome = Literal["passed", "skipped", "failed"]
WORSE: Final[tuple[Outcome, ...]] = ("passed", "skipped", "failed")
"""From the best to the worst."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Tests by their ids: `<classname>::<name>`, or the name alone."""

    passed: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    """Ids that stand in the report more than once; they count once."""
    beyond: bool = False
    """Whether a suite counts failures that no test shows."""
    whys: frozenset[tuple[str, str]] = frozenset()
    """Skipped tests, each with the reason that its runner gave, where it gave one."""

    @property
    def ran(self) -> frozenset[str]:
        """Those that were not skipped."""
        return self.passed | self.failed

    @property
    def known(self) -> frozenset[str]:
        """All of them."""
        return self.ran | self.skipped


@dataclass(frozen=True, slots=True)
class UnreadableReport:
    """A report that says nothing, and why."""

    why: str
