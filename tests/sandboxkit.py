"""Which sandboxes work where the tests run."""

from __future__ import annotations

from functools import cache

import pytest

from agenttalk import sandbox
from agenttalk.drivers import landlock


@cache
def ailment(tier: str) -> str:
    """Why a sandbox does not work here."""
    return sandbox.ailment(sandbox.installed()) if tier == "bubblewrap" else landlock.ailment(network=False)


def needs(tier: str) -> None:
    """Skip the test where a sandbox does not work, and say why."""
    if why := ailment(tier):
        pytest.skip(why)
