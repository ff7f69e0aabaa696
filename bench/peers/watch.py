"""What all runs share: what a step is given and gives back, how it is timed, and what is reported at the end.

Only the standard library: each peer runs in an environment of its own.
"""

from __future__ import annotations

import json
import statistics
import time

PROMPT = "x" * 1400
OUTPUT = "y" * 1024
PLANS = 32
"""How many chains are in flight at once."""


class Watch:
    """Counts steps and times them: from the end of a step's work to the beginning of the next in the same plan."""

    def __init__(self) -> None:
        self._left: dict[object, float] = {}
        self._waits: list[float] = []
        self._entered: list[float] = []  # appending is safe from many threads, counting would not be
        self.begin()

    def begin(self) -> None:
        """The clock starts; what was before was for warming up."""
        self._left.clear()
        self._waits.clear()
        self._entered.clear()
        self._began, self._cpu = time.perf_counter(), time.process_time()
        self._since = time.clock_gettime(time.CLOCK_REALTIME)

    def enter(self, plan: object) -> None:
        """A step begins its work."""
        now = time.perf_counter()
        self._entered.append(now)
        left = self._left.pop(plan, None)
        if left is not None:
            self._waits.append(now - left)

    def leave(self, plan: object) -> None:
        """It has done its work; nothing of it is durable yet."""
        self._left[plan] = time.perf_counter()

    def end(self, shape: str, steps: int) -> dict[str, object]:
        """The clock stops. `window` is in seconds of the wall clock, as strace writes them."""
        seconds, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu
        if len(self._entered) != steps:
            raise SystemExit(f"{len(self._entered)} of {steps} steps were run while the clock ran")
        told: dict[str, object] = {
            "steps": steps,
            "seconds": seconds,
            "cpu": cpu,
            "window": [self._since, time.clock_gettime(time.CLOCK_REALTIME)],
        }
        if shape in {"chain", "inflight", "paced"}:
            cuts = statistics.quantiles(self._waits, n=100, method="inclusive")
            told |= {"p50": 1000 * cuts[49], "p99": 1000 * cuts[98]}
        return told


def tell(told: dict[str, object]) -> None:
    """One line for the program that started this one."""
    print(json.dumps(told), flush=True)
