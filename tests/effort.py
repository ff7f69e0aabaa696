"""How hard the random tests try: `AGENTTALK_TEST_EFFORT=10` runs ten times the cases."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

EFFORT = int(os.environ.get("AGENTTALK_TEST_EFFORT", "1"))


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
