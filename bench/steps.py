"""Durable steps that do nothing, against LangGraph, DBOS, Huey and Procrastinate on the same machine in the same run.

`python bench/steps.py [--steps N] [--rounds N] [--only sqlite|postgres] [--peers NAME ...] [--sync-ms MS] [--json]`.
Peers are installed into environments of their own under `.bench/`. Rounds are interleaved, so that a busy moment of the
machine hits all; what counts are the ratios, the syncs per step (seen by strace, if it is there), the CPU time and the
time from one step to the next. Exit code 1 when a goal is missed. docs/reference/benchmarks.md says what is compared.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import postgres_cluster

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".bench"
STORES = ("sqlite", "postgres")
SHAPES = ("chain", "fanout", "inflight", "single")
PROMPT = ("chain", "paced")
"""Where the time from one step to the next is that of dispatching it, not of waiting for others that are dispatched."""
TRIES = 3
LIMIT = 300.0
"""Seconds that one run may take."""
TRACED = {"chain": 320, "fanout": 320, "inflight": 960, "single": 160, "idle": 320}
"""Steps of the runs that strace watches."""
PACED = 1600
"""Steps of the run whose agents take their time."""


@dataclass(frozen=True)
class Peer:
    """Who is compared with."""

    packages: tuple[str, ...]
    stores: tuple[str, ...]
    workers: tuple[int, ...]
    """It is run with each of these where steps can run side by side, and the better one counts."""
    shapes: dict[str, str] = field(default_factory=lambda: dict(zip(SHAPES, SHAPES, strict=True)))
    """What it is asked for where that is run."""
    of: str = ""
    """Whose other way to do it this is."""


LANGGRAPH = ("langgraph~=1.2", "langgraph-checkpoint-sqlite~=3.1")
PEERS = {
    "langgraph": Peer(LANGGRAPH, ("sqlite",), (1, 8)),
    "langgraph loop": Peer(LANGGRAPH, ("sqlite",), (1,), {"chain": "loop"}, of="langgraph"),
    "dbos": Peer(("dbos~=3.3",), STORES, (8, 32)),
    "huey": Peer(("huey~=3.5",), ("sqlite",), (1, 8)),
    "procrastinate": Peer(("procrastinate~=3.10", "psycopg[binary]~=3.3"), ("postgres",), (1, 8)),
}
RATIOS = [
    ("sqlite", "chain", "langgraph", 2.0),
    ("sqlite", "fanout", "langgraph", 8.0),
    ("sqlite", "fanout", "huey", 8.0),
    ("sqlite", "inflight", "langgraph", 8.0),
    ("sqlite", "inflight", "dbos", 10.0),
    ("sqlite", "single", "langgraph", 10.0),
    *(("postgres", shape, name, 4.0) for shape in SHAPES[:3] for name in ("dbos", "procrastinate")),
]
"""How many times as many steps a second as a peer."""
SYNCS = {"chain": 1.1, "inflight": 0.1}
CPU = 0.5
"""Seconds per 1,000 steps."""
P50, P99 = 5.0, 25.0
"""Milliseconds from one step to the next."""
IDLE_CPU = 0.01
"""Of a core."""


@dataclass
class Bench:
    """What was seen in this run."""

    rows: dict[tuple[str, str, str], dict[str, float]] = field(default_factory=dict)
    """By store, shape and name."""
    idle: dict[str, dict[str, float]] = field(default_factory=dict)
    """By store."""
    notes: list[str] = field(default_factory=list)
    sync_ms: float = 0.0
    """What every sync takes longer than on this disk, for every engine."""


def environment(name: str) -> str:
    """The interpreter of a peer; its environment is made when it is not there or was made for other versions."""
    folder, packages = HOME / (PEERS[name].of or name), PEERS[name].packages
    python, made = folder / "bin/python", folder / "made-for"
    wanted = "\n".join(packages)
    if not made.exists() or made.read_text() != wanted:
        print(f"setting up {name} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        made.write_text(wanted)
    return str(python)


def version(name: str) -> str:
    """What is installed of a peer."""
    code = f"import importlib.metadata as m; print(m.version({PEERS[name].of or name!r}))"
    return subprocess.run([environment(name), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def database(url: str) -> Iterator[str]:
    """The URL of a fresh database in the cluster; empty when there is no cluster."""
    if not url:
        yield ""
        return
    import psycopg

    name = f"bench_{time.perf_counter_ns()}"
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield url.replace("/postgres?", f"/{name}?")
        finally:
            session.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def once(
    name: str, shape: str, steps: int, workers: int, url: str, *, traced: bool = False, sync_ms: float = 0.0
) -> dict[str, Any] | str:
    """One run in a process of its own: what it told, or in a word why it failed."""
    python, program = sys.executable, name
    if name != "ours":
        python, program, shape = environment(name), PEERS[name].of or name, PEERS[name].shapes[shape]
    with tempfile.TemporaryDirectory(prefix="run-", dir=HOME) as folder, database(url) as own:
        command = [python, "-m", f"bench.peers.{program}", shape, str(steps), f"{folder}/data", str(workers)]
        report = Path(folder) / "strace"
        if traced:
            command = ["strace", "-f", "-ttt", "-e", "trace=fsync,fdatasync", "-o", str(report), *command]
        elif sync_ms:
            command = [*slower_disk(sync_ms), *command]
        (Path(folder) / "data").mkdir()
        try:
            done = ran(command, {**os.environ, "BENCH_POSTGRES": own})
        except subprocess.TimeoutExpired:
            return f"not done after {LIMIT:g} s"
        if done.returncode:
            return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        if traced:
            told["syncs"] = syncs(report.read_text(), *told["window"])
        return told


def slower_disk(sync_ms: float) -> list[str]:
    """What stands before a command so that its syncs take longer; other calls are not touched."""
    late = f"inject=fsync,fdatasync:delay_exit={sync_ms * 1000:.0f}"
    return ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=fsync,fdatasync", "-e", late, "-o", os.devnull]


def ran(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A program and all that it starts; nothing of it is left when this is interrupted."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=env,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=LIMIT)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def syncs(report: str, since: float, until: float) -> int:
    """How many syncs began while the clock ran."""
    times = re.findall(r"^(?:\d+\s+)?(\d+\.\d+) (?:fsync|fdatasync)\(", report, re.MULTILINE)
    return sum(since <= float(each) <= until for each in times)


def measured(
    bench: Bench, name: str, shape: str, steps: int, workers: int, url: str, *, traced: bool = False
) -> dict[str, Any] | None:
    """One run, tried again when it fails; None when it fails each time."""
    store = "postgres" if url else "sqlite"
    for attempt in range(1, TRIES + 1):
        told = once(name, shape, steps, workers, url, traced=traced, sync_ms=bench.sync_ms)
        if isinstance(told, dict):
            return told
        bench.notes.append(f"{name}, {shape} on {store}, try {attempt} of {TRIES} failed: {told[:200]}")
    return None


def compare(bench: Bench, store: str, shape: str, names: list[str], given: argparse.Namespace, url: str) -> None:
    """All rounds of one shape."""
    steps = given.steps // 4 if shape == "single" else given.steps
    runs: dict[tuple[str, int], list[dict[str, Any] | None]] = {}
    for _ in range(given.rounds):
        for name in names:
            for workers in PEERS[name].workers if name in PEERS and shape != "chain" else (1,):
                told = measured(bench, name, shape, steps, workers, url)
                runs.setdefault((name, workers), []).append(told)
    ours = runs["ours", 1]
    for name in names:
        found = [(summary(each, ours), workers) for (who, workers), each in runs.items() if who == name and any(each)]
        if not found:
            continue
        row, workers = max(found, key=lambda each: each[0]["steps/s"])
        bench.rows[store, shape, name] = row | ({} if name == "ours" else {"workers": workers})
        if store == "sqlite" and shutil.which("strace"):
            told = measured(bench, name, shape, TRACED[shape], workers, url, traced=True)
            if told is not None:
                bench.rows[store, shape, name]["syncs"] = told["syncs"] / TRACED[shape]


def summary(runs: list[dict[str, Any] | None], ours: list[dict[str, Any] | None]) -> dict[str, float]:
    """The median of each figure, and of the ratios of runs of the same round."""
    good = [each for each in runs if each]
    pairs = [(one, other) for one, other in zip(ours, runs, strict=True) if one and other]
    row = {
        "steps/s": statistics.median(each["steps"] / each["seconds"] for each in good),
        "CPU s/1k": statistics.median(1000 * each["cpu"] / each["steps"] for each in good),
    }
    row |= {key: statistics.median(each[key] for each in good) for key in ("p50", "p99") if key in good[0]}
    if pairs:
        row["ratio"] = statistics.median(other["seconds"] / one["seconds"] for one, other in pairs)
    return row


def unhurried(bench: Bench, store: str, rounds: int, url: str) -> None:
    """How soon a step follows another while 32 agents work, each for a while."""
    runs = [measured(bench, "ours", "paced", PACED, 1, url) for _ in range(rounds)]
    if any(runs):
        bench.rows[store, "paced", "ours"] = summary(runs, runs)


def rest(bench: Bench, store: str, url: str) -> None:
    """What the engine does when there is nothing to do. CPU time is taken without strace."""
    told = measured(bench, "ours", "idle", TRACED["idle"], 1, url)
    if told is None:
        return
    bench.idle[store] = {"cpu": told["idle_cpu"]}
    if store == "sqlite" and shutil.which("strace"):
        told = measured(bench, "ours", "idle", TRACED["idle"], 1, url, traced=True)
        if told is not None:
            bench.idle[store]["syncs"] = told["syncs"]


def goals(bench: Bench, stores: list[str]) -> dict[str, bool | None]:
    """Each goal in words, and whether it is reached; None when a peer or strace was not there to tell."""
    found: dict[str, bool | None] = {}

    def judge(words: str, value: float | None, limit: float, *, least: bool = False) -> None:
        seen = "" if value is None else f": {value:.3g}"
        met = None if value is None else value >= limit if least else value <= limit
        found[f"{words} {'≥' if least else '≤'} {limit:g}{seen}"] = met

    for store, shape, name, limit in RATIOS:
        if store in stores:
            ratio = bench.rows.get((store, shape, name), {}).get("ratio")
            judge(f"{store}, {shape}: times {name}", ratio, limit, least=True)
    for store in stores:
        for shape in SHAPES[:3]:
            row = bench.rows.get((store, shape, "ours"), {})
            judge(f"{store}, {shape}: CPU seconds per 1,000 steps", row.get("CPU s/1k"), CPU)
            if shape in SYNCS and store == "sqlite":
                judge(f"{store}, {shape}: syncs per step", row.get("syncs"), SYNCS[shape])
        for shape in PROMPT:
            row = bench.rows.get((store, shape, "ours"), {})
            judge(f"{store}, {shape}: p50 of dispatch, ms", row.get("p50"), P50)
            judge(f"{store}, {shape}: p99 of dispatch, ms", row.get("p99"), P99)
        idle = bench.idle.get(store, {})
        judge(f"{store}, idle: cores busy", idle.get("cpu"), IDLE_CPU)
        if store == "sqlite":
            judge(f"{store}, idle: syncs", idle.get("syncs"), 0)
    return found


def floor() -> float:
    """Bare synced appends a second: what the disk allows."""
    with tempfile.TemporaryFile(dir=HOME) as file:
        start = time.perf_counter()
        for _ in range(200):
            os.write(file.fileno(), b"x" * 4096)
            os.fdatasync(file.fileno())
        return 200 / (time.perf_counter() - start)


def tell(bench: Bench, judged: dict[str, bool | None]) -> None:
    """For people."""
    head = f"{'steps/s':>10}{'CPU s/1k':>10}{'syncs/step':>12}{'p50 ms':>9}{'p99 ms':>9}{'ours is':>10}"
    for store in dict.fromkeys(store for store, _, _ in bench.rows):
        print(f"\n{store:32}{head}")
        for (where, shape, name), row in bench.rows.items():
            if where == store:
                more = [f"{row[key]:.{digits}f}" if key in row else "" for key, digits in COLUMNS]
                times = f"{row['ratio']:.2f} x" if name != "ours" and "ratio" in row else ""
                who = f"{name}, {row['workers']:.0f}" if "workers" in row and shape != "chain" else name
                print(
                    f"{shape:>10}  {who:20}{row['steps/s']:10.0f}{row['CPU s/1k']:10.2f}"
                    f"{more[0]:>12}{more[1]:>9}{more[2]:>9}{times:>10}"
                )
        if idle := bench.idle.get(store):
            told = f", {idle['syncs']:.0f} syncs" if "syncs" in idle else ""
            print(f"{'idle':>10}  {'ours':20}{100 * idle['cpu']:.2f} % of a core{told}")
    print()
    for words, met in judged.items():
        print(f"{'not measured' if met is None else 'reached' if met else 'missed':12}  {words}")
    print("\n".join(["", *bench.notes]))


COLUMNS = (("syncs", 3), ("p50", 2), ("p99", 2))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1600, help="a quarter of it for one-step plans")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=STORES, help="one store only")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--sync-ms", type=float, default=0.0, help="as on a disk whose syncs take so much longer")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.sync_ms:
        if given.only == "postgres":
            parser.error("--sync-ms is for SQLite: the syncs of PostgreSQL are those of its server")
        if not shutil.which("strace"):
            parser.error("--sync-ms needs strace, which makes syncs take longer")
        given.only = "sqlite"
    given.steps = max(128, given.steps - given.steps % 128)
    return given


def ready(bench: Bench, names: list[str]) -> list[str]:
    """The peers that can be run, set up."""
    found = []
    for name in names:
        try:
            bench.notes.append(f"{name} is version {version(name)}")
            found.append(name)
        except (subprocess.CalledProcessError, OSError) as error:
            bench.notes.append(f"{name} could not be set up: {error}")
    return found


@contextmanager
def cluster(bench: Bench, store: str) -> Iterator[str | None]:
    """The URL of a private cluster for PostgreSQL, empty for SQLite; None when its programs are missing."""
    if store == "sqlite":
        yield ""
    elif postgres_cluster.programs() is None:
        bench.notes.append(f"nothing was measured on PostgreSQL: {postgres_cluster.MISSING}")
        yield None
    else:
        with postgres_cluster.running() as url:
            yield url


def main() -> int:
    """Measure, print, compare with the goals."""
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster is stopped and folders are removed
    HOME.mkdir(exist_ok=True)
    bench, stores = Bench(sync_ms=given.sync_ms), []
    peers = ready(bench, given.peers)
    load, disk = os.getloadavg()[0], floor()
    for store in [given.only] if given.only else STORES:
        with cluster(bench, store) as url:
            if url is None:
                continue
            stores.append(store)
            for shape in SHAPES:
                asked = [name for name in peers if store in PEERS[name].stores and shape in PEERS[name].shapes]
                compare(bench, store, shape, ["ours", *asked], given, url)
            unhurried(bench, store, given.rounds, url)
            rest(bench, store, url)
    bench.notes.append(f"{os.cpu_count()} cores, load {load:.1f} before and {os.getloadavg()[0]:.1f} after")
    bench.notes.append(f"the disk took {disk:,.0f} bare synced appends a second before and {floor():,.0f} after")
    if given.sync_ms:
        bench.notes.append(f"every sync took {given.sync_ms:g} ms longer than on this disk, for every engine")
    if not shutil.which("strace"):
        bench.notes.append("syncs were not counted: strace is missing")
    judged = goals(bench, stores)
    failed = any((store, shape, "ours") not in bench.rows for store in stores for shape in SHAPES)
    if given.json:
        rows = {"/".join(key): row for key, row in bench.rows.items()}
        print(json.dumps({"rows": rows, "idle": bench.idle, "goals": judged, "notes": bench.notes}, ensure_ascii=False))
    else:
        tell(bench, judged)
    return 1 if failed or False in judged.values() else 0


if __name__ == "__main__":
    sys.exit(main())
