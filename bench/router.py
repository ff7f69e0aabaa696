"""What routing costs: per message, with history, idle, and from one folder to the other; beside two plain ways.

Rounds are interleaved, so that a busy moment of the machine hits all; what counts is the ratios, the syncs and
the CPU time. `python bench/router.py [--messages N] [--json]`; exit code 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.unchanged_folders import SETTLED
from agenttalk.engine.messages.router import Router, RouterReport
from agenttalk.wiring import open_root, parts

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from kits.treekit import Tree, dumped, node

AGENTS = 10
FEW, MANY = 1_000, 20_000
PER_PLAN = 1_000
ROUNDS, PER_ROUND = 10, 100
IDLE_PASSES = 200
SERIES, LETTERS = 3, 100


class Site:
    """A root with its router, and how many messages were sent in it. Plans have `PER_PLAN` tasks."""

    def __init__(self, root: Path) -> None:
        self.tree = Tree(root)
        self.sent = 0
        self.tree.agent("lead")

    def send(self, count: int) -> None:
        """So many orders, each for a task of its own, into the lead's outbox."""
        for number in range(self.sent, self.sent + count):
            plan_id = f"plan_{number // PER_PLAN}"
            if plan_id not in self.tree.dags:
                nodes = [node(f"t{each}", f"agent_{each % (AGENTS - 1)}") for each in range(PER_PLAN)]
                self.tree.dag(nodes, plan_id=plan_id)
            self.tree.command("lead", f"t{number % PER_PLAN}", plan_id=plan_id)
        self.sent += count


@dataclass
class Figures:
    """What some work took, for each message."""

    wall: float
    cpu: float

    @property
    def rate(self) -> float:
        """Messages per second."""
        return 1 / self.wall

    def as_json(self) -> dict[str, float]:
        """For programs."""
        return {"messages_per_second": self.rate, "cpu_s_per_1000": 1000 * self.cpu}


async def routed(router: Router, count: int) -> Figures:
    """Route everything that lies there; it must be `count` messages."""
    cpu, start = time.process_time(), time.perf_counter()
    done = 0
    while done < count:
        report = await router.pass_()
        if not report.delivered:
            raise RuntimeError(f"{done} of {count} were delivered: {report}")
        done += report.delivered
    return Figures((time.perf_counter() - start) / count, (time.process_time() - cpu) / count)


def plain(work: Callable[[int], None], count: int) -> Figures:
    """The same for a peer that is not a router."""
    cpu, start = time.process_time(), time.perf_counter()
    for number in range(count):
        work(number)
    return Figures((time.perf_counter() - start) / count, (time.process_time() - cpu) / count)


def middle(found: list[Figures]) -> Figures:
    return Figures(statistics.median(each.wall for each in found), statistics.median(each.cpu for each in found))


class Files:
    """Peer: a file for each message, as durable as files can be made."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def move(self, number: int) -> None:
        """Write, sync, rename, sync."""
        descriptor = os.open(".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=self._folder)
        os.write(descriptor, LETTER)
        os.fsync(descriptor)
        os.close(descriptor)
        name = f"{number}-{time.perf_counter_ns()}.msg.json"
        os.rename(".new", name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)


class Rows:
    """Peer: a row for each message, each in a synced commit of its own."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
        ):
            self._connection.execute(statement)

    def add(self, _: int) -> None:
        """One commit."""
        self._connection.execute("INSERT INTO messages (body) VALUES (?)", (LETTER,))


LETTER = dumped({"payload": {"command": {"prompt": "Do it. " * 80}}})
"""About as long as an order."""


async def measure(folder: Path, many_messages: int) -> dict[str, Any]:
    """Two roots, one with little and one with much history, and the peers beside them."""
    few, many = Site(folder / "few"), Site(folder / "many")
    files, rows = Files(folder / "plain"), Rows(folder / "plain.db")
    async with open_root(few.tree.root) as deps_few, open_root(many.tree.root) as deps_many:
        small, large = Router(deps_few), Router(deps_many)
        result: dict[str, Any] = {}
        for name, site, router, count in (("few", few, small, FEW), ("many", many, large, many_messages)):
            site.send(count)
            result[f"at_once_{name}"] = (await routed(router, count)).as_json()
        found: dict[str, list[Figures]] = {"few": [], "many": [], "files": [], "rows": []}
        for _ in range(ROUNDS):
            few.send(PER_ROUND)
            found["few"].append(await routed(small, PER_ROUND))
            many.send(PER_ROUND)
            found["many"].append(await routed(large, PER_ROUND))
            found["files"].append(plain(files.move, PER_ROUND))
            found["rows"].append(plain(rows.add, PER_ROUND))
        middles = {name: middle(each) for name, each in found.items()}
        result |= {
            "next_after_few": middles["few"].as_json(),
            "next_after_many": middles["many"].as_json(),
            "history_ratio": ratio(found["many"], found["few"], lambda each: each.cpu),
            "at_once_ratio": result["at_once_many"]["cpu_s_per_1000"] / result["at_once_few"]["cpu_s_per_1000"],
            "synced_files": middles["files"].as_json(),
            "sqlite_commit_each": middles["rows"].as_json(),
            "times_synced_files": ratio(found["files"], found["few"], lambda each: each.wall),
            "times_sqlite_commit_each": ratio(found["rows"], found["few"], lambda each: each.wall),
            "idle_few_ms": await idle(small, deps_few),
            "idle_many_ms": await idle(large, deps_many),
        }
        return result


def ratio(above: list[Figures], below: list[Figures], of: Callable[[Figures], float]) -> float:
    """The median of the ratios of what was measured right after each other."""
    return statistics.median(of(one) / of(other) for one, other in zip(above, below, strict=True))


async def idle(router: Router, deps: Deps) -> dict[str, float]:
    """Passes that find nothing to do, once the router can tell by the folders' times."""
    await router.pass_()
    await asyncio.sleep(SETTLED + 0.1)
    await router.pass_()
    taken, cpu = [], time.process_time()
    for _ in range(IDLE_PASSES):
        start = time.perf_counter()
        report = await router.pass_()
        taken.append(1000 * (time.perf_counter() - start))
        if not report.idle:
            raise RuntimeError(f"there was something to do under {deps.root}: {report}")
    return {**spread(taken), "cpu": 1000 * (time.process_time() - cpu) / IDLE_PASSES}


def spread(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98]}


def latency(folder: Path) -> dict[str, Any]:
    """Milliseconds from the rename into an outbox until the envelope is in the inbox; the router is another process.

    Some series, for the machine may have better things to do: the middle of them, and from where to where they go.
    """
    site, here = Site(folder / "latency"), Site(folder / "drafts")
    site.send(1)  # the plan, and something for the first pass
    (site.tree.root / "agents/lead/outbox/plan_0").mkdir(parents=True, exist_ok=True)
    here.tree.dags = site.tree.dags
    with subprocess.Popen(
        [sys.executable, __file__, "--loop", str(site.tree.root)], stdout=subprocess.PIPE, text=True
    ) as loop:
        try:
            if loop.stdout is None or not loop.stdout.readline():  # it watches before its first pass
                raise RuntimeError("the router's loop did not start")
            numbers = iter(range(1, SERIES * LETTERS + 1))
            series = [spread([travelled(site, here, next(numbers)) for _ in range(LETTERS)]) for _ in range(SERIES)]
            halves = sorted(each["p50"] for each in series)
            return {
                "p50": statistics.median(halves),
                "p99": statistics.median(each["p99"] for each in series),
                "range": [halves[0], halves[-1]],
            }
        finally:
            loop.send_signal(signal.SIGTERM)


def travelled(site: Site, here: Site, number: int) -> float:
    """One message's way. The next one is sent when the router has put this one away."""
    here.tree.command("lead", f"t{number}", plan_id="plan_0")
    name = f"cmd_t{number}_001.msg.json"
    outbox = site.tree.box("lead", "outbox", "plan_0")
    arrived = site.tree.box(f"agent_{number % (AGENTS - 1)}", "inbox", "plan_0") / name
    start = time.perf_counter()
    (here.tree.box("lead", "outbox", "plan_0") / name).rename(outbox / name)
    end = start + 30
    while not arrived.exists():
        if time.perf_counter() > end:
            raise RuntimeError(f"{name} did not arrive")
        time.sleep(0.0002)
    taken = time.perf_counter() - start
    time.sleep(0.03)  # the rest of the pass is not this message's way
    return 1000 * taken


async def loop(root: Path) -> None:
    """The router's loop as a process; a line when its first pass is over."""
    stop, begun = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    def tell(report: RouterReport) -> None:
        if not begun.is_set():
            print(report.delivered, flush=True)
        begun.set()

    await parts.run_router(root, tell, stop=stop)


def syncs(folder: Path) -> float | None:
    """Syncs per message as the kernel sees them; opening and closing is taken off."""
    if shutil.which("strace") is None:
        return None
    counts = []
    for count in (1, FEW):
        site = Site(folder / f"syncs-{count}")
        site.send(count)
        log = folder / f"strace-{count}"
        words = ["strace", "-f", "-c", "-e", "trace=fsync,fdatasync", "-o", str(log)]
        done = subprocess.run(
            [*words, sys.executable, __file__, "--once", str(site.tree.root)], capture_output=True, check=False
        )
        if done.returncode:
            return None
        calls = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+).*f(?:data)?sync$", log.read_text(), re.MULTILINE)
        counts.append(sum(map(int, calls)))
    return (counts[1] - counts[0]) / (FEW - 1)


def show(result: dict[str, Any]) -> None:
    """For people."""
    counted = "not counted" if result["syncs_per_message"] is None else f"{result['syncs_per_message']:.3f}"
    print(f"load {result['load'][0]:.1f} before, {result['load'][1]:.1f} after; {counted} syncs per message\n")
    print(f"  {'':38}messages/s   CPU s/1,000")
    many = result["messages"]
    for name, what in {
        "at_once_few": f"{FEW:,} at once",
        "at_once_many": f"{many:,} at once",
        "next_after_few": f"the next after {FEW:,}",
        "next_after_many": f"the next after {many:,}",
        "synced_files": "peer: a synced file each",
        "sqlite_commit_each": "peer: a SQLite commit each",
    }.items():
        print(f"  {what:38}{result[name]['messages_per_second']:10,.0f}   {result[name]['cpu_s_per_1000']:11.2f}")
    print(f"\n  CPU per message, {many:,} against {FEW:,} in the history: {result['history_ratio']:.2f} times")
    print(f"  CPU per message, {many:,} against {FEW:,} at once: {result['at_once_ratio']:.2f} times")
    print(f"  speed against a synced file each: {result['times_synced_files']:.2f} times")
    print(f"  speed against a SQLite commit each: {result['times_sqlite_commit_each']:.2f} times")
    for name, count in (("idle_few_ms", FEW), ("idle_many_ms", many)):
        p50, p99, cpu = (result[name][key] for key in ("p50", "p99", "cpu"))
        what = f"idle pass, {AGENTS} agents, {count:,} messages of history"
        print(f"  {what}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, CPU {cpu:.1f} ms")
    way, (best, worst) = result["latency_ms"], result["latency_ms"]["range"]
    print(f"  from the outbox to the inbox: p50 {way['p50']:.1f} ms, p99 {way['p99']:.1f} ms")
    print(f"  (p50 of {SERIES} series: {best:.1f} to {worst:.1f} ms)")


def missed(result: dict[str, Any]) -> list[str]:
    """Goals that were not reached."""
    ratios, idles = ("history_ratio", "at_once_ratio"), ("idle_few_ms", "idle_many_ms")
    faults = [f"{name}: costs grow {result[name]:.2f} times" for name in ratios if result[name] > 1.5]
    faults += [f"{name}: {result[name]['p50']:.1f} ms for an idle pass" for name in idles if result[name]["p50"] > 5]
    if result["latency_ms"]["p50"] > 20:
        faults.append(f"a message takes {result['latency_ms']['p50']:.1f} ms")
    if result["syncs_per_message"] is not None and result["syncs_per_message"] > 0.1:
        faults.append(f"{result['syncs_per_message']:.2f} syncs per message")
    return faults


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--messages", type=int, default=MANY, help=f"how many make a long history; more than {FEW}")
    asked.add_argument("--json", action="store_true", help="print one JSON document")
    options = asked.parse_args()
    load = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory(prefix="agenttalk-bench-", dir=Path.cwd()) as scratch:
        folder = Path(scratch)
        result = asyncio.run(measure(folder, options.messages))
        result["messages"] = options.messages
        result["latency_ms"] = latency(folder)
        result["syncs_per_message"] = syncs(folder)
    result["load"] = [*load, os.getloadavg()[0]]
    faults = missed(result)
    if options.json:
        print(json.dumps({"ok": not faults, **result}, indent=2))
    else:
        show(result)
        print("\n" + ("\n".join(faults) or "all goals reached"))
        if faults and max(result["load"]) > (os.cpu_count() or 1):
            print("other programs had the processors meanwhile; milliseconds count on a machine that is idle")
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--loop"]:
        asyncio.run(loop(Path(sys.argv[2])))
    elif sys.argv[1:2] == ["--once"]:
        asyncio.run(parts.run_router(Path(sys.argv[2]), lambda _: None))
    else:
        sys.exit(main())
