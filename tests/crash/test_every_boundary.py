"""A process dies at every step boundary, another one goes on, and nothing differs from a run without a death."""

from __future__ import annotations

import pytest

from crash.harness import Harness
from crash.scenarios import ALL


@pytest.mark.parametrize("scenario", ALL)
def test_after_a_death_at_any_boundary_a_restart_reaches_the_same_end(crash: Harness, scenario: str) -> None:
    outcome = crash.die_everywhere(scenario)
    assert not outcome.failures, outcome.told()
    assert not outcome.missed, outcome.told()
    assert outcome.deaths > 30
