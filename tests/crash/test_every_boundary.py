"""A process dies at every step boundary, another one goes on, and nothing differs from a run without a death.

The short run tries a quarter of the boundaries, always the same ones, `make test` a few of some scenarios; `make test-crash`
tries them all.
"""

from __future__ import annotations

import random

import pytest

from crash.harness import Harness
from crash.scenarios import ALL
from effort import DEEP, cases, some

FEWEST = 16
"""Boundaries of a scenario that the short run tries at least."""


@pytest.mark.random
@pytest.mark.rest_but("commands", "course", "proven", "told")
@pytest.mark.parametrize("scenario", ALL)
def test_after_a_death_at_any_boundary_a_restart_reaches_the_same_end(crash: Harness, scenario: str) -> None:
    names = crash.boundaries(scenario)
    tried = names if DEEP else some(random.Random(scenario).sample(names, max(FEWEST, len(names) // 4)))
    outcome = crash.die_at(scenario, [[name] for name in tried])
    assert not outcome.failures, outcome.told()
    assert not outcome.missed, outcome.told()
    assert outcome.deaths > (30 if DEEP else cases(15))
