"""Large plans read, compiled, checked and submitted, and what one task costs in plans of any size.

`python bench/plans.py [--json]`. Each size runs in a process of its own, in a folder that is removed; exit code 1
when 100,000 tasks take more than 3 seconds, as a plan file or as a DAG.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.plan import PlanManifest
from agenttalk.contracts.planfile import reader
from agenttalk.engine.plans import submission
from agenttalk.rules.planfile.compiler import compile_plan
from agenttalk.rules.plans import dag_checks
from agenttalk.wiring import open_root

SIZES = (1_000, 10_000, 100_000)
LIMIT = 3.0
"""Seconds for the largest."""
LAYER = 100
AGENTS = 100
PROMPT = "Do this with care and describe the result. " * 3


def before(number: int) -> tuple[int, ...]:
    """The two tasks of the layer before that a task depends on."""
    start = (number // LAYER - 1) * LAYER
    return (start + number % LAYER, start + (number + 1) % LAYER) if start >= 0 else ()


def plan_file(size: int) -> bytes:
    """Layers of tasks as a plan file."""
    tasks = [
        {
            "id": f"t{n}",
            "agent": f"a{n % AGENTS}",
            "prompt": PROMPT,
            "needs": [f"t{each}" for each in before(n)],
            "inputs": [{"name": "in", "from": f"out{each}"} for each in before(n)[:1]],
            "outputs": [{"name": f"out{n}", "deliverable": n >= size - LAYER}],
        }
        for n in range(size)
    ]
    agents = {f"a{n}": {"driver": "python"} for n in range(AGENTS)}
    return wire.write({"plan_id": "file", "agents": agents, "tasks": tasks})


def dag_document(size: int) -> bytes:
    """The same layers as a DAG."""
    nodes = [
        {
            "task_id": f"t{n}",
            "assigned_agent_id": f"a{n % AGENTS}",
            "prompt": PROMPT,
            "depends_on": [f"t{each}" for each in before(n)],
            "inputs": [
                {"name": "in", "selector": {"type": "by_output_name", "value": f"out{each}"}} for each in before(n)[:1]
            ],
            "outputs": [{"name": f"out{n}", "deliver_to": [f"a{n % AGENTS}"]}],
        }
        for n in range(size)
    ]
    return wire.write({"schema_version": "1.1", "plan_id": "dag", "nodes": nodes})


class Clock:
    """Seconds of wall and CPU time that each part took."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[float, float]] = {}
        self._last = (time.perf_counter(), time.process_time())

    def lap(self, part: str) -> None:
        """What went by since the last one belongs to this part."""
        now = (time.perf_counter(), time.process_time())
        self.parts[part] = (now[0] - self._last[0], now[1] - self._last[1])
        self._last = now


async def from_file(data: bytes, root: Path) -> Clock:
    """A plan file on its whole way."""
    async with open_root(root, url="") as deps:
        clock = Clock()
        plan = reader.read_plan_file(data, yaml=False)
        clock.lap("read")
        compiled = compile_plan(plan)
        clock.lap("compile+check")
        if not compiled.ok:
            raise SystemExit(f"the sample is refused: {compiled.problems[:3]}")
        await submission.submit(deps, compiled.dag, compiled.manifest, compiled.profiles)
        clock.lap("submit")
    return clock


async def from_dag(data: bytes, root: Path) -> Clock:
    """A DAG on its whole way."""
    profiles = {
        name: AgentProfile.from_json({"schema_version": "1.0", "agent_id": name, "driver": "python"})
        for name in (f"a{n}" for n in range(AGENTS))
    }
    async with open_root(root, url="") as deps:
        clock = Clock()
        dag = TaskDag.from_bytes(data)
        clock.lap("read")
        report = dag_checks.check(dag, agents=profiles)
        clock.lap("compile+check")
        if not report.ok:
            raise SystemExit(f"the sample is refused: {report.problems[:3]}")
        await submission.submit(deps, dag, PlanManifest.from_json({"plan_id": dag.plan_id}), profiles)
        clock.lap("submit")
    return clock


def alone(kind: str, size: int) -> dict[str, Any]:
    """One plan in this process."""
    with tempfile.TemporaryDirectory(prefix="agenttalk-plans-") as folder:
        root = Path(folder)
        for name in ("agents", "system_runtime"):
            (root / name).mkdir()
        play, data = (from_file, plan_file(size)) if kind == "file" else (from_dag, dag_document(size))
        clock = asyncio.run(play(data, root))
    return {"kind": kind, "size": size, "bytes": len(data), "parts": clock.parts}


def apart(kind: str, size: int) -> dict[str, Any]:
    """One plan in a process of its own, so that nothing is warm but what it warms itself."""
    command = [sys.executable, __file__, "--alone", kind, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def main() -> int:
    """Measure, print, compare with the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--alone", nargs=2, metavar=("KIND", "SIZE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        print(json.dumps(alone(given.alone[0], int(given.alone[1]))))
        return 0
    runs = [apart(kind, size) for kind in ("file", "dag") for size in SIZES]
    for each in runs:
        each["seconds"] = sum(wall for wall, _ in each["parts"].values())
    late = [each for each in runs if each["size"] == max(SIZES) and each["seconds"] > LIMIT]
    if given.json:
        print(json.dumps({"runs": runs, "load": os.getloadavg()[0], "ok": not late}))
    else:
        tell(runs)
        goal = f"and {LIMIT:g} s are the goal"
        missed = [
            f"missed: {each['size']:,} tasks ({each['kind']}) take {each['seconds']:.2f} s, {goal}" for each in late
        ]
        print("\n".join(missed) or "all goals reached")
    return 1 if late else 0


def tell(runs: list[dict[str, Any]]) -> None:
    """For people."""
    print(f"load {os.getloadavg()[0]:.1f}; seconds of wall time (of CPU time)\n")
    print(f"{'':6}{'tasks':>8}{'MB':>7}{'read':>16}{'compile+check':>16}{'submit':>16}{'all':>8}{'µs/task':>9}")
    for each in runs:
        parts = "".join(f"{f'{wall:.3f} ({cpu:.3f})':>16}" for wall, cpu in each["parts"].values())
        size, seconds = each["size"], each["seconds"]
        print(f"{each['kind']:6}{size:8,}{each['bytes'] / 1e6:7.1f}{parts}{seconds:8.2f}{1e6 * seconds / size:9.1f}")
    print()


if __name__ == "__main__":
    sys.exit(main())
