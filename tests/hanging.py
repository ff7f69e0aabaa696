"""A test that hangs is ended, and has failed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Final

import pytest

LONGEST: Final = 900
"""Seconds that no test takes, however busy the machine is."""


def ended() -> Iterator[None]:
    """For a fixture: whatever takes so long that it must hang fails."""

    def tell(_: int, __: object) -> None:
        pytest.fail("this hangs")

    before = signal.signal(signal.SIGALRM, tell)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
