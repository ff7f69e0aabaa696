"""What all tests share. `AGENTTALK_TEST_EFFORT=10` runs ten times the random cases."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from effort import EFFORT

settings.register_profile(
    "agenttalk",
    max_examples=60 * EFFORT,
    deadline=None,  # a busy machine is no fault of the code
    derandomize=EFFORT == 1,  # the short run is the same everywhere; the long one looks further
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("agenttalk")

TESTS: Final = Path(__file__).parent
MEASURED: Final = frozenset({"contracts", "rules", "forge", "prompts"})
"""Folders whose tests have to reach every branch of contracts/ and rules/.

Lines are counted while they run and at no other time: it doubles what a test takes, and a branch that is met only
on the way through an engine is not tested but visited.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(TESTS).parts[0] not in MEASURED:
            item.add_marker(pytest.mark.no_cover)
