"""Durable steps that do nothing, against LangGraph, DBOS and Huey on the same machine in the same run.

`python bench/steps.py [--steps N] [--rounds N] [--json]`. Peers are installed into environments of their own under
`.bench/`. Rounds are interleaved, so that a busy moment of the machine hits all; what counts are the ratios, the syncs
per step (counted by strace, when it is there) and the CPU time. Exit code 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HOME = HERE.parent / ".bench"
PEERS = {
    "langgraph_sqlite": ("langgraph", "langgraph-checkpoint-sqlite"),
    "dbos_sqlite": ("dbos",),
    "huey_sqlite": ("huey",),
}
SHAPES = ("chain", "fanout", "inflight", "single")
GOALS = [
    ("chain", "langgraph_sqlite", 2.0),
    ("fanout", "langgraph_sqlite", 8.0),
    ("fanout", "huey_sqlite", 8.0),
    ("inflight", "langgraph_sqlite", 8.0),
    ("inflight", "dbos_sqlite", 10.0),
    ("single", "langgraph_sqlite", 10.0),
]
"""How many times as many steps a second as a peer."""
SYNCS = {"chain": 1.1, "inflight": 0.1}
CPU = 0.5
"""Seconds per 1,000 steps."""


def environment(name: str) -> str:
    """The interpreter of a peer; its environment is made when it is not there."""
    folder = HOME / name
    python = folder / "bin/python"
    if not python.exists():
        print(f"setting up {name} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PEERS[name]], check=True)
    return str(python)


def measured(name: str, shape: str, steps: int, *, traced: bool = False) -> dict[str, Any] | None:
    """One run in a process of its own; None when it failed."""
    python = sys.executable if name == "ours" else environment(name)
    with tempfile.TemporaryDirectory(prefix="agenttalk-steps-", dir=HOME) as folder:
        command = [python, str(HERE / f"peers/{name}.py"), shape, str(steps), folder]
        report = Path(folder) / "strace"
        if traced:
            command = ["strace", "-f", "-c", "-e", "trace=fsync,fdatasync", "-o", str(report), *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            print(f"{name} {shape}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            return None
        told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        if traced:
            lines = [line.split() for line in report.read_text().splitlines()]
            told["syncs"] = sum(int(words[3]) for words in lines if words and words[-1] in {"fsync", "fdatasync"})
        return told


def main() -> int:
    """Measure, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    HOME.mkdir(exist_ok=True)
    names = ["ours", *PEERS]
    runs: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for shape in SHAPES:
        steps = given.steps // 4 if shape == "single" else given.steps
        for _ in range(given.rounds):
            for name in names:
                told = measured(name, shape, steps)
                if told is not None:
                    runs[shape, name].append(told)
    rows = {key: summary(each) for key, each in runs.items()}
    if shutil.which("strace"):
        for shape in SYNCS:
            # The difference of two runs, so that what a start costs does not count.
            few, many = (measured("ours", shape, count, traced=True) for count in (320, 960))
            if few and many:
                rows[shape, "ours"]["syncs"] = (many["syncs"] - few["syncs"]) / 640
    missed = goals_missed(rows)
    if given.json:
        print(json.dumps({"rows": {f"{shape}/{name}": row for (shape, name), row in rows.items()}, "missed": missed}))
    else:
        tell(rows, missed)
    return 1 if missed else 0


def summary(runs: list[dict[str, Any]]) -> dict[str, float]:
    """The median of each figure."""
    return {
        "steps/s": statistics.median(each["steps"] / each["seconds"] for each in runs),
        "CPU s/1k": statistics.median(1000 * each["cpu"] / each["steps"] for each in runs),
    }


def goals_missed(rows: dict[tuple[str, str], dict[str, float]]) -> list[str]:
    """What was not reached, in words."""
    missed = []
    for shape, peer, least in GOALS:
        if (shape, peer) in rows and (shape, "ours") in rows:
            ratio = rows[shape, "ours"]["steps/s"] / rows[shape, peer]["steps/s"]
            if ratio < least:
                missed.append(f"{shape}: {ratio:.2f} times {peer}, and {least:g} is the goal")
    for shape, most in SYNCS.items():
        syncs = rows.get((shape, "ours"), {}).get("syncs")
        if syncs is not None and syncs > most:
            missed.append(f"{shape}: {syncs:.3f} syncs per step, and {most:g} is the goal")
    for shape in ("chain", "inflight", "fanout"):
        cpu = rows.get((shape, "ours"), {}).get("CPU s/1k", 0.0)
        if cpu > CPU:
            missed.append(f"{shape}: {cpu:.2f} CPU seconds per 1,000 steps, and {CPU:g} is the goal")
    return missed


def tell(rows: dict[tuple[str, str], dict[str, float]], missed: list[str]) -> None:
    """For people."""
    print(f"load {os.getloadavg()[0]:.1f}\n")
    print(f"{'':28}{'steps/s':>10}{'CPU s/1k':>10}{'syncs/step':>12}{'ours is':>10}")
    for (shape, name), row in rows.items():
        ours = rows[shape, "ours"]["steps/s"] / row["steps/s"]
        syncs = f"{row['syncs']:.3f}" if "syncs" in row else ""
        times = "" if name == "ours" else f"{ours:.2f} x"
        print(f"{shape:>10} {name:17}{row['steps/s']:10.0f}{row['CPU s/1k']:10.2f}{syncs:>12}{times:>10}")
    print()
    print("\n".join(f"missed: {each}" for each in missed) or "all goals reached")


if __name__ == "__main__":
    sys.exit(main())
