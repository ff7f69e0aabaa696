"""A process dies, whoever takes over dies too, and the third one still reaches the same end."""

from __future__ import annotations

import pytest

from crash.harness import Harness
from crash.scenarios import ALL
from effort import DEEP

pytestmark = pytest.mark.rest

FIRSTS, SECONDS = 3, 3
"""How many pairs the short run has of each scenario: so many first deaths, and so many after each."""


@pytest.mark.parametrize("scenario", ALL)
def test_a_second_death_while_recovering_changes_nothing(crash: Harness, scenario: str) -> None:
    places = crash.some_pairs(scenario, FIRSTS, SECONDS)
    outcome = crash.die_at(scenario, places)
    assert len(places) == FIRSTS * SECONDS
    assert not outcome.failures, outcome.told()


def test_a_question_outlives_every_engine_that_dies_while_it_waits(crash: Harness) -> None:
    """A task over which engines die again and again is stopped, but a question cannot be the cause of that."""
    outcome = crash.die_at("asked", [["commit:default #7", *["commit:default #4"] * 4]])
    assert not outcome.failures, outcome.told()
    assert not outcome.missed, outcome.told()


@pytest.mark.skipif(not DEEP, reason="takes most of an hour: make test-full runs it, or AGENTTALK_TEST_EFFORT=10")
@pytest.mark.parametrize("scenario", ALL)
def test_all_pairs_of_a_death_and_one_while_recovering_change_nothing(
    crash: Harness, scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """All distinct ones: see `Harness.pairs` for which pairs are the same."""

    def tell(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}", end="", flush=True)  # noqa: T201 - it takes long, and whoever waits wants to know

    places = crash.pairs(scenario, tell)
    tell(f"{scenario}: {len(places)} pairs")
    outcome = crash.die_at(scenario, places, tell=tell)
    assert places
    assert not outcome.failures, outcome.told()
    assert len(outcome.missed) * 50 < len(places), outcome.told()
