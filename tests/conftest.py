"""What all tests share. `AGENTTALK_TEST_EFFORT=10` runs ten times the random cases."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from effort import EFFORT

settings.register_profile(
    "agenttalk",
    max_examples=100 * EFFORT,
    deadline=None,  # a busy machine is no fault of the code
    derandomize=EFFORT == 1,  # the short run is the same everywhere; the long one looks further
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("agenttalk")
