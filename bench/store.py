"""Shared commits against one synced commit each, with 1, 10 and 100 writers, on both stores in the same run.

Rounds are interleaved, so that a busy moment of the machine hits both; what counts is the ratio, the syncs per
transact and the CPU time per transact. `python bench/store.py [--json]`; exit code 1 when a goal is missed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from agenttalk.adapters.store.database import BoardStore
from agenttalk.adapters.store.root import RootStores
from agenttalk.adapters.store.worker import WorkItem
from agenttalk.adapters.store.writer import DatabaseWriter, Work
from agenttalk.ports.storage import Tx

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import postgres_cluster

WRITERS = (1, 10, 100)
ROUNDS = 3
SECONDS = 0.6
BODY = {"result": "done", "text": "a step that did nothing but be recorded " * 5}


class Clock:
    """The real one."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)  # noqa: TID251 - a door


class Apart(DatabaseWriter):
    """The same writer, but every work gets a commit of its own."""

    def answer(self, jobs: list[WorkItem[Work]]) -> None:
        """One by one."""
        for job in jobs:
            super().answer([job])


@dataclass
class Figures:
    """What one round showed."""

    rate: float
    cpu: float
    commits: float


async def load(board: BoardStore, writers: int, seconds: float, facts: int = 1) -> Figures:
    """So many tasks, each of which records a fact, waits for the commit, and does it again."""
    done = 0
    end = time.perf_counter() + seconds

    def work(tx: Tx) -> None:
        for _ in range(facts):
            tx.record("step.completed", "plan/task", BODY)

    async def write() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await board.transact(work)
            done += 1

    commits, cpu, start = board.database.writer.commits, time.process_time(), time.perf_counter()
    await asyncio.gather(*(write() for _ in range(writers)))
    spent = time.perf_counter() - start
    cpu, commits = time.process_time() - cpu, board.database.writer.commits - commits
    return Figures(done / spent, cpu / max(done, 1), commits / max(done, 1))


async def measure(root: Path, url: str) -> dict[str, Any]:
    """Medians over interleaved rounds, for one store."""
    stores = RootStores(root, Clock(), url=url)
    shared, apart = await stores.board("shared"), await stores.board("apart")
    rounds: dict[tuple[int, str], list[Figures]] = {}
    for _ in range(ROUNDS):
        for writers in WRITERS:
            for name, board in (("shared", shared), ("apart", apart)):
                board.database.writer.__class__ = Apart if name == "apart" else DatabaseWriter
                rounds.setdefault((writers, name), []).append(await load(board, writers, SECONDS))
    shared.database.writer.__class__ = DatabaseWriter
    rows = await load(shared, 100, SECONDS, facts=20)
    await stores.close()
    result: dict[str, Any] = {"rows_per_second": rows.rate * 20}
    for writers in WRITERS:
        one, many = rounds[writers, "apart"], rounds[writers, "shared"]
        result[str(writers)] = {
            "shared": statistics.median(f.rate for f in many),
            "apart": statistics.median(f.rate for f in one),
            "ratio": statistics.median(m.rate / o.rate for m, o in zip(many, one, strict=True)),
            "cpu_ms": 1000 * statistics.median(f.cpu for f in many),
            "commits_per_transact": statistics.median(f.commits for f in many),
        }
    return result


async def child(root: str, url: str, writers: int, seconds: float) -> None:
    """What is run under strace: prints how many transacts it made."""
    stores = RootStores(Path(root), Clock(), url=url)
    board = await stores.board("shop")
    await load(board, writers, seconds)
    made = board.database.writer.works
    await stores.close()
    print(made)


def floor(folder: Path) -> float:
    """How often per second the disk takes a synced append: nothing durable can be quicker, one at a time."""
    descriptor = os.open(folder / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        os.write(descriptor, bytes(8192))
        os.fdatasync(descriptor)
        done += 1
    os.close(descriptor)
    return done / (time.perf_counter() - start)


def sqlite_syncs(folder: Path, writers: int) -> float | None:
    """Syncs per transact as the kernel sees them; opening and closing is taken off."""
    if shutil.which("strace") is None:
        return None
    counts = []
    for seconds in (0.0, 0.5):
        log = folder / f"strace-{writers}-{seconds}"
        words = ["strace", "-f", "-c", "-e", "trace=fsync,fdatasync", "-o", str(log), sys.executable, __file__]
        root = folder / f"syncs-{writers}-{seconds}"
        done = subprocess.run(
            [*words, "--child", str(root), "", str(writers), str(seconds)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            return None
        calls = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+).*f(?:data)?sync$", log.read_text(), re.MULTILINE)
        counts.append((sum(map(int, calls)), int(done.stdout)))
    (opening, few), (syncs, many) = counts
    return (syncs - opening) / (many - few)


def postgres_syncs(url: str, writers: int, folder: Path) -> float:
    """Syncs of the server's log per transact, as the server counts them."""

    def count() -> int:
        with psycopg.connect(url, autocommit=True) as session:
            session.execute("SELECT pg_stat_force_next_flush()")
            row = session.execute("SELECT wal_sync FROM pg_stat_wal").fetchone()
            return int(row[0]) if row else 0

    before = count()
    words = [sys.executable, __file__, "--child", str(folder), url, str(writers), "0.5"]
    made = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return (count() - before) / made


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a private cluster; empty when PostgreSQL is not installed."""
    if postgres_cluster.programs() is None:
        yield ""
        return
    with postgres_cluster.running() as url:
        yield url


def show(name: str, result: dict[str, Any]) -> None:
    print(f"\n{name}: {result['rows_per_second']:,.0f} rows/s (100 writers, 20 facts each)")
    print("  writers   shared/s    apart/s   ratio   CPU ms   commits/transact   syncs/transact")
    for writers in WRITERS:
        row = result[str(writers)]
        syncs = "not counted" if row["syncs"] is None else f"{row['syncs']:.3f}"
        print(
            f"  {writers:7}   {row['shared']:8,.0f}   {row['apart']:8,.0f}   {row['ratio']:5.1f}"
            f"   {row['cpu_ms']:6.3f}   {row['commits_per_transact']:16.3f}   {syncs:>14}"
        )


def missed(results: dict[str, Any]) -> list[str]:
    """Goals that the machine's disk does not decide."""
    faults = []
    for name, result in results.items():
        row = result["100"]
        if row["ratio"] < 3:
            faults.append(f"{name}: 100 writers gain only {row['ratio']:.1f} times from shared commits")
        if row["syncs"] is not None and row["syncs"] > 0.1:
            faults.append(f"{name}: {row['syncs']:.2f} syncs per transact with 100 writers")
        if row["cpu_ms"] > (0.1 if name == "sqlite" else 0.25):  # each statement is a round trip to the server
            faults.append(f"{name}: {row['cpu_ms']:.3f} ms CPU per transact with 100 writers")
    return faults


def main() -> int:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="agenttalk-bench-", dir=Path.cwd()) as scratch, postgres() as url:
        folder = Path(scratch)
        before = floor(folder)
        results["sqlite"] = asyncio.run(measure(folder / "root", ""))
        for writers in WRITERS:
            results["sqlite"][str(writers)]["syncs"] = sqlite_syncs(folder, writers)
        if url:
            results["postgres"] = asyncio.run(measure(folder / "root", url))
            for writers in WRITERS:
                results["postgres"][str(writers)]["syncs"] = postgres_syncs(url, writers, folder)
        after = floor(folder)
    faults = missed(results)
    if "--json" in sys.argv:
        print(json.dumps({"ok": not faults, "synced_appends_per_second": [before, after], **results}, indent=2))
    else:
        print(f"the disk takes {before:,.0f} bare synced appends a second ({after:,.0f} at the end)")
        for name, result in results.items():
            show(name, result)
        print("\n" + ("\n".join(faults) or "all goals reached"))
        if not url:
            print(postgres_cluster.MISSING)
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        asyncio.run(child(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])))
    else:
        sys.exit(main())
