"""A test that hangs is ended, and has failed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType
from typing import Final

import pytest

from effort import EFFORT

LONGEST: Final = round(600 * max(1, EFFORT))
"""Seconds that no test takes, however busy the machine is."""


def ended() -> Iterator[None]:
    """For a fixture: whatever takes so long that it must hang fails."""

    def tell(_: int, frame: FrameType | None) -> None:
        where = "" if frame is None else f", at {frame.f_code.co_filename}:{frame.f_lineno}"
        pytest.fail(f"the test hangs: it took more than {LONGEST} s{where}")

    before = signal.signal(signal.SIGALRM, tell)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
