"""Who makes the checks that run a program of the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class VerifyPolicy:
    """The operator's decision who makes them. No plan can change it."""

    pool: str = ""
    """The pool of the verifiers; empty means the engine's own machine."""
    double: bool = False
    """Whether two verifiers, on two machines, have to agree."""

    @property
    def place(self) -> str:
        """Return what a result rests on besides the tree: who was to make the check."""
        return f"verifiers:{self.pool}:{2 if self.double else 1}" if self.pool else ""


HERE: Final = VerifyPolicy()
"""The engine's own machine makes them."""
