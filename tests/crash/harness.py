"""Dying at every boundary of a scenario, with a few processes that give birth to all that live and die."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

HERE = Path(__file__).parent
MOST = 8
"""Workers, at most; one for each processor, because threads of one process on two take turns slowly."""
HARD = 10
"""Every tenth death is by the kernel."""
EVERY = 100
"""After so many deaths it tells how far it has come."""
TRIES = 10
"""How often a boundary is looked for that a run did not come by, because threads took turns otherwise."""

Tell: TypeAlias = Callable[[str], None]
"""Whom it tells how far it has come."""


@dataclass
class Outcome:
    """What came of dying at many boundaries."""

    deaths: int = 0
    failures: dict[str, list[str]] = field(default_factory=dict)
    """Where it died → what was wrong afterwards."""
    missed: list[str] = field(default_factory=list)
    """Boundaries that were not met again."""

    def told(self, most: int = 12) -> str:
        """For whoever reads the failure of a test."""
        lines = [f"{len(self.failures)} of {self.deaths} deaths were not survived"]
        for where, faults in list(self.failures.items())[:most]:
            lines += [f"* {where}", *(f"    {fault[:1500]}" for fault in faults[:6])]
        return "\n".join([*lines, *(f"* never met again: {each}" for each in self.missed)])


class Worker:
    """One zygote."""

    def __init__(self, folder: Path, processor: int) -> None:
        paths = [str(HERE.parent), str(HERE.parent.parent / "src")]
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "zygote.py"), str(folder), str(processor)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Have a scenario played."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the zygote ended with {self._process.wait()}; what it said stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Nobody asks any more."""
        self._process.communicate()


class Harness:
    """Plays scenarios on all workers."""

    def __init__(self, workers: list[Worker]) -> None:
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._workers = workers
        for worker in workers:
            self._idle.put(worker)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Have a scenario played by whoever is idle."""
        worker = self._idle.get()
        try:
            return worker.ask(**request)
        finally:
            self._idle.put(worker)

    def boundaries(self, scenario: str, *, bug: str = "", after: Sequence[str] = ()) -> list[str]:
        """The boundaries of a run in which nobody dies, or of the last life after some deaths."""
        answer = self.ask(scenario=scenario, bug=bug, deaths=list(after))
        if answer["faults"] and not bug:
            raise AssertionError(f"{scenario} after {list(after)}: {answer['faults']}")
        order: list[str] = answer["order"]
        return order

    def distinct(self, scenario: str, after: Sequence[str] = ()) -> dict[str, str]:
        """What deaths at the boundaries of the last life leave, each with the first boundary that leaves it."""
        for _ in range(TRIES):
            answer = self.ask(scenario=scenario, deaths=list(after), watched=True)
            if answer["faults"]:
                raise AssertionError(f"{scenario} after {list(after)}: {answer['faults']}")
            if not answer["missed"]:
                found: dict[str, str] = {}
                for name, key in zip(answer["order"], answer["keys"], strict=True):
                    found.setdefault(key, name)
                return found
        raise AssertionError(f"{scenario}: {list(after)} were never met again")

    def pairs(self, scenario: str, tell: Tell = lambda _: None) -> list[list[str]]:
        """A death at every boundary, and a second one at every boundary of what follows; each distinct pair once.

        Deaths that leave the same (`durable.key`) are followed by the same lives. So a first death counts once for
        all that leave what it leaves, and so does a second one, whatever the first was; one that leaves what a
        single death leaves is no news either.
        """
        firsts = self.distinct(scenario)
        seen = set(firsts)
        found: list[list[str]] = []

        def follow(first: str) -> tuple[str, dict[str, str]]:
            return first, self.distinct(scenario, [first])

        with ThreadPoolExecutor(len(self._workers)) as pool:
            for number, (first, seconds) in enumerate(pool.map(follow, firsts.values()), 1):
                found += [[first, second] for key, second in seconds.items() if key not in seen]
                seen |= seconds.keys()
                if number % EVERY == 0:
                    tell(f"{scenario}: followed {number} of {len(firsts)} first deaths, {len(found)} pairs so far")
        return found

    def die_at(
        self, scenario: str, places: Sequence[Sequence[str]], *, bug: str = "", tell: Tell = lambda _: None
    ) -> Outcome:
        """Die at each place, restart, and compare. A place is one boundary for each life but the last."""
        outcome = Outcome(deaths=len(places))

        def die(number: int) -> None:
            deaths = list(places[number])
            where = " and then at ".join(deaths)
            if number % EVERY == EVERY - 1:
                tell(f"{scenario}: {number + 1} of {len(places)} deaths, {len(outcome.failures)} not survived")
            for _ in range(TRIES):
                answer = self.ask(scenario=scenario, deaths=deaths, hard=number % HARD == 0, bug=bug)
                if answer["faults"]:
                    outcome.failures[where] = answer["faults"]
                if answer["faults"] or not answer["missed"]:
                    return
            outcome.missed.append(where)

        with ThreadPoolExecutor(len(self._workers)) as pool:
            list(pool.map(die, range(len(places))))
        return outcome

    def some_pairs(self, scenario: str, firsts: int, seconds: int) -> list[list[str]]:
        """A few pairs, as far from each other as they can be."""
        chosen = spread(self.boundaries(scenario), firsts)
        return [[first, each] for first in chosen for each in spread(self.boundaries(scenario, after=[first]), seconds)]


def spread(names: list[str], count: int) -> list[str]:
    """So many of them, with the same distance between any two."""
    return names[len(names) // (2 * count) :: max(1, len(names) // count)][:count]


@contextmanager
def harness() -> Iterator[Harness]:
    """Workers with folders in memory, if there is room for that."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="agenttalk-crash-", dir=memory if os.access(memory, os.W_OK) else None))
    workers = [Worker(folder / str(each), each) for each in sorted(os.sched_getaffinity(0))[:MOST]]
    try:
        yield Harness(workers)
    finally:
        for worker in workers:
            worker.close()
        shutil.rmtree(folder, ignore_errors=True)
