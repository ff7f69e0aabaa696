"""How hard the random tests try.

`make test` takes a fifth of the random cases, `make test-rest`, `make test ALL=1` and whoever calls pytest all of them, and
`AGENTTALK_TEST_EFFORT=10` ten times as many.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

from hypothesis import HealthCheck, Phase, settings

EFFORT: Final = float(os.environ.get("AGENTTALK_TEST_EFFORT", "1"))
T = TypeVar("T")
DEEP: Final = EFFORT > 1
"""Whether there is a night's time."""


def cases(usual: int) -> int:
    """How many random cases are tried, where these are the usual ones."""
    return max(1, round(usual * EFFORT))


def some(things: Sequence[T]) -> Sequence[T]:
    """Those of many things that are tried: all of them, or every fifth where a fifth is what there is time for."""
    return things[:: max(1, round(1 / EFFORT))]


def tried(examples: int, steps: int, *phases: Phase) -> settings:
    """How hard a state machine is tried: so many lives of so many steps."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        phases=phases,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
