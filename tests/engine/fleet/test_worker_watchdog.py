"""A worker whose loops stand still ends itself."""

from __future__ import annotations

import threading

from agenttalk.wiring.worker import watching


def test_a_worker_that_stands_still_is_ended_and_one_that_does_not_is_left_alone() -> None:
    ended, looked, now = threading.Event(), threading.Semaphore(0), [1000.0]

    def clock() -> float:
        looked.release()
        return now[0]

    with watching(lambda: 1000.0, clock, ended.set, longest=0.05):
        for _ in range(3):
            assert looked.acquire(timeout=300)
        assert not ended.is_set()
        now[0] += 1.0
        assert ended.wait(300)
