"""Which sandboxes work where the tests run."""

from __future__ import annotations

from functools import cache

import pytest

from agenttalk.adapters import sandbox
from agenttalk.adapters.drivers import landlock
from agenttalk.rules.core.isolation import IsolationSetting, IsolationSettings

PLAIN = IsolationSettings(IsolationSetting("plain"))
"""What the operator says in tests of engines whose subject is not isolation: their programs leave marks for the test
anywhere, and there are many turns."""
PLAIN_VARIABLE = "AGENTTALK__SANDBOX"
"""The same for engines that commands start; see `conftest`."""
BEST = IsolationSettings()
"""What an operator says who says nothing."""


@cache
def ailment(tier: str) -> str:
    """Why a sandbox does not work here."""
    return (
        sandbox.describe_problem(sandbox.find_bubblewrap())
        if tier == "bubblewrap"
        else landlock.describe_problem(network=False)
    )


def needs(tier: str) -> None:
    """Skip the test where a sandbox does not work, and say why."""
    if why := ailment(tier):
        pytest.skip(why)
