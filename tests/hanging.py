"""A test that hangs is ended, and has failed."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


def ended_after(seconds: int) -> Iterator[None]:
    """For a fixture: whatever takes longer than so many seconds fails."""

    def tell(_: int, __: object) -> None:
        pytest.fail("this hangs")

    before = signal.signal(signal.SIGALRM, tell)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
