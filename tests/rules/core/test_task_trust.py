"""How far the state of a task can be trusted, for every combination of what the store has about it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from agenttalk.rules.core.task_states import State
from agenttalk.rules.core.task_trust import TaskTrust, judge_trust


class Row(NamedTuple):
    """What the store has about a task."""

    state: State
    unmet: int | None = 0
    fresh: int = 1
    unproven: int = 0
    unisolated: int = 0


@pytest.mark.parametrize(
    ("row", "trust"),
    [
        (Row("COMPLETED"), TaskTrust(True, "fresh", True)),
        (Row("COMPLETED", fresh=0), TaskTrust(True, "stale", True)),
        (Row("COMPLETED", unproven=1), TaskTrust(False, "fresh", True)),
        (Row("COMPLETED", unisolated=1), TaskTrust(True, "fresh", False)),
        (Row("RUNNING"), TaskTrust(None, None, None)),
        (Row("RUNNING", unisolated=1), TaskTrust(None, None, False)),
        (Row("FAILED", fresh=0, unproven=1), TaskTrust(None, None, None)),
        (Row("COMPLETED", unmet=None), TaskTrust(False, None, None)),
        (Row("PENDING", unmet=None), TaskTrust(None, None, None)),
    ],
)
def test_only_a_completed_task_of_our_own_is_proven_fresh_or_isolated(row: Row, trust: TaskTrust) -> None:
    assert judge_trust(row) == trust


def test_evidence_that_was_found_stale_counts_as_stale_before_it_is_stored() -> None:
    assert judge_trust(Row("COMPLETED"), is_outdated=True).freshness == "stale"
    assert judge_trust(Row("RUNNING"), is_outdated=True).freshness is None
    assert judge_trust(Row("COMPLETED", unmet=None), is_outdated=True).freshness is None
