"""A process that has loaded everything, has no thread, and forks one process after the other to live and die.

`python zygote.py FOLDER` reads requests from standard input and writes answers to standard output, one JSON
document in a line.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from agenttalk.adapters.store import writer
from agenttalk.engine.operation import fsck
from agenttalk.engine.people import human_driver
from agenttalk.engine.plans import submission, transaction
from agenttalk.rules.core.isolation import IsolationSetting, IsolationSettings
from agenttalk.wiring import open_root
from crash import bugs, scenarios
from crash.boundaries import KILLED, Boundaries, install
from crash.life import Clock, Life, Scenario
from crash.orphans import orphans
from crash.scenes import durable
from crash.snapshot import Snapshot, differences, leased, premature, snapshot
from kits.treekit import Tree

LONGEST = 60.0
"""Seconds; whoever takes longer hangs."""


@dataclass
class Story:
    """What a process told before it ended."""

    step: int
    """Where the next one goes on."""
    died_at: str = ""
    said: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    """What a death at each boundary would leave, if it was asked for."""
    finished: bool = False


@dataclass(frozen=True)
class Birth:
    """What a process is born to do."""

    scenario: Scenario
    root: Path
    step: int = 0
    fatal: str = ""
    hard: bool = False
    bug: str = ""
    watched: bool = False
    """Whether somebody looks at the root at every boundary."""


def live(birth: Birth, tell: Callable[..., None], pause: Callable[[str], None] | None) -> None:
    """The life of a forked process: from a step on to the end, or to the boundary at which it dies."""
    boundaries = Boundaries(birth.root, birth.fatal, lambda name: tell(died_at=name), hard=birth.hard, pause=pause)
    gc.disable()
    writer.SEAL_SECONDS = 3600.0  # type: ignore[misc] # heads are copied when a process ends, not when a second is over
    submission._AT_ONCE = transaction.AT_ONCE = 2  # type: ignore[misc] # small plans take several transactions too
    human_driver.POLL = 0.01  # type: ignore[misc] # nobody waits for answers
    install(boundaries)
    bugs.plant(birth.bug)
    asyncio.run(_act(birth, boundaries, tell))
    boundaries.paused = True
    tell(finished=True, order=boundaries.order)


async def _act(birth: Birth, boundaries: Boundaries, tell: Callable[..., None]) -> None:
    clock, tree = Clock(), Tree(birth.root)
    tree.dags |= _dags(birth.root)
    async with open_root(
        birth.root, clock=clock, words=IsolationSettings(IsolationSetting("plain")), answers_by_file=True
    ) as deps:

        def say(text: str) -> None:
            boundaries.reach(f"say {text}")
            tell(said=text)

        life = Life(tree, deps, say, birth.scenario.functions)
        try:
            for number, step in enumerate(birth.scenario.all_steps()):
                clock.time = step.time
                if number < birth.step:
                    continue
                if step.by_hand:
                    boundaries.paused = True
                    step.do(tree)  # type: ignore[arg-type]
                    boundaries.paused = False
                else:
                    await step.do(life)  # type: ignore[arg-type, misc]
                tell(step=number + 1)
            for fault in await fsck.check_root(deps):
                tell(fault=f"fsck: {fault}")
        finally:
            await life.close()


def _dags(root: Path) -> dict[str, str]:
    """The hashes of the DAGs that lie there, for commands that are written by hand."""
    found = {}
    for path in (root / "system_runtime" / "plans").glob("*/active_dag_ref.json"):
        found[path.parent.name] = json.loads(path.read_bytes())["task_dag_sha256"]
    return found


def bear(birth: Birth) -> Story:
    """Fork a process, let it live, and hear what it told."""
    reading, writing = os.pipe()
    waiting, going = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.close(going)
        _be_born(birth, writing, waiting)
    os.close(writing)
    os.close(waiting)
    story = Story(birth.step)
    try:
        for line in _lines(reading, pid):
            told = json.loads(line)
            _hear(story, told)
            if "at" in told:
                story.keys.append(durable.key(birth.root, told["at"], story.step, story.said))
                os.write(going, b".")
    finally:
        os.close(reading)
        os.close(going)
        _, status = os.waitpid(pid, 0)
    ended = os.waitstatus_to_exitcode(status)
    if story.died_at and ended not in {KILLED, -signal.SIGKILL}:
        story.faults.append(f"it ended with {ended}")
    if not story.died_at and not story.finished and not story.faults:
        story.faults.append(f"it ended with {ended} and told nothing")
    return story


def _be_born(birth: Birth, writing: int, waiting: int) -> NoReturn:
    write = os.write  # the wrapped one is for effects

    def tell(**what: Any) -> None:
        left = json.dumps(what).encode() + b"\n"
        while left:
            left = left[write(writing, left) :]

    def pause(name: str) -> None:
        tell(at=name)
        os.read(waiting, 1)

    try:
        live(birth, tell, pause if birth.watched else None)
    except BaseException:  # noqa: BLE001 - the last one to see it
        tell(fault=traceback.format_exc())
    os._exit(0)


def _lines(reading: int, pid: int) -> Iterator[bytes]:
    deadline = time.monotonic() + LONGEST
    rest = b""
    while True:
        if not select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
            os.kill(pid, signal.SIGKILL)
            yield json.dumps({"fault": f"it hung for {LONGEST} s"}).encode()
            return
        data = os.read(reading, 1 << 20)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from lines


def _hear(story: Story, told: dict[str, Any]) -> None:
    story.step = told.get("step", story.step)
    story.died_at = told.get("died_at", story.died_at)
    story.order = told.get("order", story.order)
    story.finished = told.get("finished", story.finished)
    if "said" in told:
        story.said.append(told["said"])
    if "fault" in told:
        story.faults.append(told["fault"])


class Zygote:
    """Plays scenarios, each as often as it is asked to, with deaths where it is told."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._expected: dict[str, Snapshot] = {}
        self._templates: dict[str, Path] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """`scenario`, `deaths` (boundaries, one for each life), `hard`, `bug`, `watched` (of the last life)."""
        began = time.monotonic()
        scenario = scenarios.ALL[request["scenario"]]
        deaths: list[str] = request.get("deaths", [])
        bug: str = request.get("bug", "")
        if scenario.name not in self._expected:
            self._rehearse(scenario)
        root = self._fresh(scenario)
        births = [Birth(scenario, root, 0, fatal, bool(request.get("hard")), bug) for fatal in deaths]
        births.append(Birth(scenario, root, bug=bug, watched=bool(request.get("watched"))))
        answer = self._play(births)
        shutil.rmtree(root)
        return {**answer, "seconds": time.monotonic() - began}

    def _rehearse(self, scenario: Scenario) -> None:
        """Play it here, so that all is loaded and built that processes would load and build anew, then without a death."""
        self._expected[scenario.name] = {}
        root = self._fresh(scenario)
        boundaries = Boundaries(root, "", lambda _: None, hard=False)
        asyncio.run(_act(Birth(scenario, root), boundaries, lambda **_: None))
        gc.collect()
        gc.freeze()
        root = self._fresh(scenario)
        story = bear(Birth(scenario, root))
        if story.faults:
            raise RuntimeError(f"{scenario.name}: {story.faults}")
        self._expected[scenario.name] = snapshot(root)

    def _play(self, births: list[Birth]) -> dict[str, Any]:
        """One life after the other, each where the one before died."""
        scenario, root = births[0].scenario, births[0].root
        missed: list[str] = []
        running: dict[str, tuple[str, ...]] = {}
        faults: list[str] = []
        said: list[str] = []
        died = 0
        story = Story(0)
        for birth in births:
            story = bear(replace(birth, step=story.step))
            faults += story.faults
            said += story.said
            if not story.died_at:
                missed += [birth.fatal] if birth.fatal else []
                break
            died += 1
            running |= leased(root)
            faults += premature(root) + scenario.witness(root, said)
        if story.finished:
            faults += scenario.witness(root, said)
            faults += orphans(root)
            lost = Counter(name for names in running.values() for name in names)
            spare, fewer = scenario.again * died, scenario.fewer * died
            faults += differences(self._expected[scenario.name], snapshot(root), lost, spare, fewer)
        return {"faults": faults, "missed": missed, "order": story.order, "keys": story.keys}

    def _fresh(self, scenario: Scenario) -> Path:
        self._number += 1
        root = self._folder / f"{scenario.name}-{self._number}"
        if scenario.before:
            shutil.copytree(self._template(scenario.earlier()), root)
            return root
        if scenario.made:
            shutil.copytree(self._template(scenarios.EMPTY), root)
        else:
            root.mkdir()
        scenario.prepare(Tree(root))
        return root

    def _template(self, scenario: Scenario) -> Path:
        """A root as a scenario leaves it."""
        if scenario.name not in self._templates:
            root = self._fresh(scenario)
            story = bear(Birth(scenario, root))
            if story.faults:
                raise RuntimeError("\n".join(story.faults))
            self._templates[scenario.name] = root
        return self._templates[scenario.name]


def main() -> None:
    folder = Path(sys.argv[1])
    os.sched_setaffinity(0, {int(sys.argv[2])})
    folder.mkdir(parents=True, exist_ok=True)
    gc.freeze()
    zygote = Zygote(folder)
    with suppress(BrokenPipeError, KeyboardInterrupt):
        for line in sys.stdin:
            print(json.dumps(zygote.answer(json.loads(line))), flush=True)  # noqa: T201 - this is how it answers


if __name__ == "__main__":
    main()
