"""Workers over HTTP: what syncs cost, how a fleet drains when a fifth of it dies, what a worker adds, what travels.

`python bench/fleet.py [--json] [--only NAME]`. Engine, database and load generator share this machine. Exit code 1 when
a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agenttalk.adapters.signatures import WorkerKey
from agenttalk.contracts.core import wire
from agenttalk.contracts.planfile import reader
from agenttalk.doors.cli.core import engine_client
from agenttalk.engine.agents.performances import performance_to_json
from agenttalk.rules.core.worker_tokens import make_claims, make_worker_token
from agenttalk.rules.planfile.compiler import compile_plan
from agenttalk.rules.proof.performance import Performance
from agenttalk.wiring.machine import SystemClock

PATIENCE = 900.0
RATE = 500
SECONDS = 20.0
BUSY = 100
"""Workers that sync, each with one attempt."""
FLEET = 200
TASKS = 5_000
AGENTS = 250
KILLED = 0.2
CHAIN = 20
FILES = 30_000
GIT = shutil.which("git") or "git"
GOALS = {"cpu_per_1000": 0.6, "p99_ms": 250.0, "overhead_ms": 300.0, "transfer_kib": 64.0}
FACTS = {"version": "bench", "machine": "bench", "system": "Linux", "cores": 2, "drivers": ["script"], "start": "bench"}


def require(seen: object, why: object = "this cannot be") -> None:
    """End the run with the reason when something is not as it has to be."""
    if not seen:
        raise RuntimeError(why)


@contextmanager
def engine(root: Path, settings: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """An engine of its own process; its address."""
    (root / "agents").mkdir(parents=True)
    (root / "agenttalk.toml").write_text(settings)
    command = [sys.executable, "-m", "agenttalk", "serve", "--root", str(root), "--port", "0", "--json"]
    with (root.parent / "engine.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        text = ""
        while process.stdout is not None and not text.endswith("}\n"):
            line = process.stdout.readline()
            require(line, (root.parent / "engine.log").read_text())
            text += line
        yield process, json.loads(text)["http"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def connect(root: Path) -> Any:
    """The operator's client."""
    client = engine_client.connect_to_running_engine(root)
    require(client)
    return client


def submit(client: Any, document: dict[str, Any]) -> None:
    """Submit a plan."""
    compiled = compile_plan(reader.read_plan_file(wire.write(document), yaml=False))
    require(not compiled.problems, compiled.problems)
    profiles = {name: each.as_json() for name, each in compiled.profiles.items()}
    body = {"dag": compiled.dag.as_json(), "manifest": compiled.manifest.as_json(), "profiles": profiles}
    client.post("/api/plans", body)


def until(seen: Callable[[], Any]) -> Any:
    """Wait for something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := seen()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)
    return found


class LightWorker:
    """A worker that speaks the protocol over one connection, and whose agents are done at once."""

    def __init__(self, address: str, key: WorkerKey, name: str) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._key, self.name, self.id, self._token = key, name, "", ""
        self._pipes: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: Any, token: str = "") -> Any:
        """One request, which may be repeated: the engine ends connections that were idle for seconds."""
        try:
            return await self._ask(path, body, token)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            self._pipes = None
            return await self._ask(path, body, token)

    async def _ask(self, path: str, body: Any, token: str) -> Any:
        if self._pipes is None:
            self._pipes = await asyncio.open_connection(self._host, self._port)
        read, write = self._pipes
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nContent-Type: application/json\r\n"
        head += f"Authorization: Bearer {token or self._token}\r\nContent-Length: {len(data)}\r\n\r\n"
        write.write(head.encode() + data)
        answer = await read.readuntil(b"\r\n\r\n")
        lines = answer.decode("latin-1").split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:"))
        content = await read.readexactly(length)
        if not lines[0].split(" ")[1].startswith("2"):
            raise RuntimeError(f"{lines[0]}: {content.decode()[:400]}")
        return json.loads(content)

    async def enrol(self, token: str) -> None:
        """Enrol with an invitation."""
        asked = {"protocol": 1, "name": self.name, "public_key": self._key.public, "facts": FACTS}
        self.id = (await self.ask("/api/worker/enrol", asked, token))["worker"]
        part, signed = make_claims(self.id, SystemClock().now())
        self._token = make_worker_token(part, self._key.sign(signed))

    async def sync(self, *attempts: Any, slots: int = 1, wait: float = 0.0) -> Any:
        """One sync."""
        return await self.ask(
            "/api/worker/sync", {"protocol": 1, "slots": slots, "attempts": attempts, "wait_seconds": wait}
        )

    async def take(self) -> Any:
        """Wait for an attempt, and accept it."""
        while True:
            offers = (await self.sync(wait=15))["offers"]
            if not offers:
                continue
            desired = (await self.sync({**offers[0], "phase": "accepted"}))["desired"]
            if desired and desired[0]["do"] == "run":
                return offers[0]

    async def finish(self, attempt: Any) -> None:
        """Hand in a result until the engine has it."""
        said = performance_to_json(Performance("finished", result="done"))
        result = {"sha256": wire.sha256(wire.write(said)), "performance": said}
        while not (await self.sync({**attempt, "phase": "ended", "result": result}))["acknowledged"]:
            pass

    def close(self) -> None:
        """Break the connection."""
        if self._pipes is not None:
            self._pipes[1].close()


async def make_workers(client: Any, address: str, folder: Path, count: int) -> list[LightWorker]:
    """Workers of the pool `far`."""
    workers = []
    for number in range(count):
        token = f"inv_bench-{number:030}"
        await asyncio.to_thread(client.post, "/api/workers/invitations", {"pool": "far", "token": token})
        each = LightWorker(address, WorkerKey.load(folder / f"{number}.key"), f"w{number}")
        await each.enrol(token)
        workers.append(each)
    return workers


def wide_plan(plan_id: str, tasks: int) -> dict[str, Any]:
    """A plan of tasks side by side, each with an agent of its own."""
    agents = {f"a{n}": {"driver": "script", "argv": ["true"], "pool": "far"} for n in range(tasks)}
    return {
        "plan_id": plan_id,
        "agents": agents,
        "tasks": [{"id": f"t{n}", "agent": f"a{n}", "prompt": "Do it."} for n in range(tasks)],
    }


def cpu_of(pid: int) -> float:
    """The CPU seconds of a process so far, with those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


async def measure_syncs(folder: Path) -> dict[str, float]:
    """CPU seconds for 1,000 syncs of busy workers, and how long answers take at 500 a second."""
    with engine(folder / "root", f"[limits]\nmax_running = {BUSY * 2}\n") as (process, address):
        client = connect(folder / "root")
        workers = await make_workers(client, address, folder, BUSY)
        submit(client, wide_plan("busy", BUSY))
        running = [{**attempt, "phase": "running"} for attempt in await asyncio.gather(*(w.take() for w in workers))]
        took: list[float] = []
        loop = asyncio.get_running_loop()
        began, cpu = loop.time() + 0.5, cpu_of(process.pid)

        async def speak(number: int) -> None:
            due, end = began + number / RATE, began + SECONDS
            while due < end:
                await asyncio.sleep(max(0.0, due - loop.time()))
                await workers[number].sync(running[number])
                took.append(loop.time() - due)  # from when it was due: what waits for a late answer is late, too
                due += BUSY / RATE

        await asyncio.gather(*map(speak, range(BUSY)))
        spent = cpu_of(process.pid) - cpu
        for each in workers:
            each.close()
    took.sort()
    return {
        "syncs": len(took),
        "cpu_per_1000": 1000 * spent / len(took),
        "p50_ms": 1000 * took[len(took) // 2],
        "p99_ms": 1000 * took[int(len(took) * 0.99)],
        "per_second": len(took) / SECONDS,
    }


async def drained(client: Any, plans: list[str], workers: list[asyncio.Task[None]]) -> None:
    """Wait until all plans have ended. Raises what a worker raised."""
    for plan in plans:
        while (await asyncio.to_thread(client.get, f"/api/plans/{plan}"))["state"] != "ENDED":
            await asyncio.sleep(0.5)
            for task in workers:
                if task.done():
                    task.result()


async def measure_drain(folder: Path) -> dict[str, float]:
    """A fleet that drains plans while a fifth of it is killed, each with an attempt under way."""
    settings = f"[limits]\nmax_running = {AGENTS * 2}\n"
    chosen = random.Random(1)  # noqa: S311 - no secret
    with engine(folder / "root", settings) as (process, address):
        client = connect(folder / "root")
        workers = await make_workers(client, address, folder, FLEET)
        dying = set(chosen.sample(range(FLEET), int(FLEET * KILLED)))
        left = {number: chosen.randrange(1, TASKS // FLEET) for number in dying}
        began, cpu = time.monotonic(), cpu_of(process.pid)
        for number in range(TASKS // AGENTS):
            await asyncio.to_thread(submit, client, wide_plan(f"plan-{number}", AGENTS))

        async def work(number: int) -> None:
            worker, done = workers[number], 0
            while True:
                attempt = await worker.take()
                if number in dying and done >= left[number]:
                    worker.close()
                    return
                await worker.finish(attempt)
                done += 1

        tasks = [asyncio.create_task(work(number)) for number in range(FLEET)]
        plans = [f"plan-{number}" for number in range(TASKS // AGENTS)]
        await drained(client, plans, tasks)
        seconds, spent = time.monotonic() - began, cpu_of(process.pid) - cpu
        killed = sum(1 for number in dying if tasks[number].done())
        views = [client.get(f"/api/plans/{plan}") for plan in plans]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in workers:
            each.close()
    states = [task["state"] for view in views for task in view["tasks"]]
    return {
        "attempts": sum(task["attempt"] or 1 for view in views for task in view["tasks"]),
        "killed": killed,
        "completed": states.count("COMPLETED"),
        "doubled": count_doubled(folder / "root"),
        "seconds": seconds,
        "cpu": spent,
    }


def count_doubled(root: Path) -> int:
    """Tasks that the ledger says to have been done more than once."""
    [path] = [each for each in (root / "data").rglob("*.db") if "default" in each.name or "board" in each.name] or [
        max((root / "data").rglob("*.db"), key=lambda each: each.stat().st_size)
    ]
    asked = """SELECT COUNT(*) FROM (SELECT subject FROM ledger WHERE kind = 'turn.ended'
        AND instr(CAST(body AS TEXT), '"cause":"FULFILLED"') > 0
        GROUP BY subject, json_extract(CAST(body AS TEXT), '$.command_id') HAVING COUNT(*) > 1)"""
    done = """SELECT COUNT(*) FROM ledger WHERE kind = 'turn.ended'
        AND instr(CAST(body AS TEXT), '"cause":"FULFILLED"') > 0"""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        require(database.execute(done).fetchone()[0] >= TASKS, "the ledger does not show what was done")
        return int(database.execute(asked).fetchone()[0])


@contextmanager
def real_worker(client: Any, address: str, folder: Path) -> Iterator[None]:
    """`agenttalk worker` as a process."""
    token = "inv_bench-real-worker-of-this-run"  # noqa: S105 - for this run
    client.post("/api/workers/invitations", {"pool": "far", "token": token})
    command = [sys.executable, "-m", "agenttalk", "worker", "--server", address, "--enrol", token]
    command += ["--folder", str(folder / "worker"), "--json"]
    with (folder / "worker.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: client.get("/api/workers")["workers"])
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()


def chain(plan_id: str, agent: dict[str, Any], tasks: int, **keys: Any) -> dict[str, Any]:
    """A plan of tasks one after the other."""
    made = [
        {"id": f"t{n}", "agent": "a", "prompt": "Do it.", "needs": [f"t{n - 1}"] if n else [], **keys}
        for n in range(tasks)
    ]
    return {"plan_id": plan_id, "agents": {"a": agent}, "tasks": made}


def measure_overhead(folder: Path) -> dict[str, float]:
    """What an attempt takes on a worker, and what the same takes on the engine's machine."""
    agent = {"driver": "script", "argv": ["echo", "done"]}
    took: dict[str, list[float]] = {"here": [], "far": []}
    with engine(folder / "root") as (_, address):
        client = connect(folder / "root")
        with real_worker(client, address, folder):
            for number in range(4):  # the first pair warms up
                for where, keys in (("here", {}), ("far", {"pool": "far"})):
                    plan_id = f"{where}-{number}"
                    began = time.monotonic()
                    submit(client, chain(plan_id, {**agent, **keys}, CHAIN))
                    ended = until(lambda: (v := client.get(f"/api/plans/{plan_id}"))["state"] == "ENDED" and v)  # noqa: B023
                    require(ended["result"] == "done", ended)
                    took[where] += [(time.monotonic() - began) / CHAIN] if number else []
    here, far = (1000 * sorted(took[where])[1] for where in ("here", "far"))
    return {"here_ms": here, "far_ms": far, "overhead_ms": far - here}


@asynccontextmanager
async def counting_proxy(address: str) -> AsyncIterator[tuple[str, Callable[[], int]]]:
    """An address that leads to the engine, and the bytes that went through."""
    target, total = urlsplit(address), 0

    async def carry(read: asyncio.StreamReader, write: asyncio.StreamWriter, swap: tuple[bytes, bytes]) -> None:
        nonlocal total
        with suppress(ConnectionError):
            while data := await read.read(65536):
                total += len(data)
                write.write(data.replace(*swap))
                await write.drain()
        write.close()

    async def serve(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        far_read, far_write = await asyncio.open_connection(target.hostname, target.port)
        swap = (f":{port}".encode(), f":{target.port}".encode())
        await asyncio.gather(carry(read, far_write, swap), carry(far_read, write, (b"\0\1\0", b"\0\1\0")))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"http://127.0.0.1:{port}", lambda: total


def make_repository(repo: Path) -> None:
    """A repository with many files."""
    for number in range(FILES):
        path = repo / f"d{number // 300}" / f"f{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number} {'x' * (number % 97)}\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for args in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run([GIT, *args], cwd=repo, check=True)


async def measure_transfer(folder: Path) -> dict[str, float]:
    """What travels for one edited file of a large repository: the first time, and when the worker knows the tree."""
    repo = folder / "repo"
    await asyncio.to_thread(make_repository, repo)
    edits = "import os, pathlib; pathlib.Path('d0/f1.txt').write_text(os.environ['AGENTTALK_TASK_ID']); print('done')"
    agent = {"driver": "script", "argv": [sys.executable, "-c", edits], "pool": "far"}
    marks: list[int] = []
    with engine(folder / "root") as (_, address):
        client = connect(folder / "root")
        async with counting_proxy(address) as (outer, count):

            async def ended(task: int) -> None:
                while True:
                    view = await asyncio.to_thread(client.get, "/api/plans/large")
                    if view["tasks"][task]["state"] == "COMPLETED":
                        return
                    require(view["state"] != "ENDED", view)
                    await asyncio.sleep(0.05)

            worker = real_worker(client, outer, folder)
            await asyncio.to_thread(worker.__enter__)
            try:
                marks.append(count())
                plan = {**chain("large", agent, 3, workspace="repo"), "workspace": {"repo": str(repo)}}
                await asyncio.to_thread(submit, client, plan)
                for task in range(3):
                    await ended(task)
                    marks.append(count())
            finally:
                await asyncio.to_thread(worker.__exit__, None, None, None)
    first, _, third = (b - a for a, b in itertools.pairwise(marks))
    return {"first_kib": first / 1024, "transfer_kib": third / 1024}


async def measure(name: str) -> dict[str, float]:
    """One part, in a folder that is removed."""
    parts: dict[str, Callable[[Path], Awaitable[dict[str, float]]]] = {
        "syncs": measure_syncs,
        "drain": measure_drain,
        "overhead": lambda folder: asyncio.to_thread(measure_overhead, folder),
        "transfer": measure_transfer,
    }
    with tempfile.TemporaryDirectory(prefix="agenttalk-bench-") as folder:
        return await parts[name](Path(folder))


def main() -> int:
    """Measure, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=["syncs", "drain", "overhead", "transfer"])
    given = parser.parse_args()
    found = {}
    for name in [given.only] if given.only else ["syncs", "drain", "overhead", "transfer"]:
        load = os.getloadavg()[0]
        found[name] = {"load": load, **asyncio.run(measure(name))}
        if not given.json:
            print(f"{name}: " + ", ".join(f"{key} {value:,.2f}" for key, value in found[name].items()), flush=True)
    missed = [
        f"{key} is {part[key]:.2f}, and {goal:g} is the goal"
        for part in found.values()
        for key, goal in GOALS.items()
        if part.get(key, 0) > goal
    ]
    drain = found.get("drain")
    if drain and (drain["completed"] != TASKS or drain["doubled"] or drain["killed"] < FLEET * KILLED):
        missed.append("not every task ended once, or not every worker that was to die did")
    if given.json:
        print(json.dumps({"parts": found, "ok": not missed}))
    else:
        print("\n".join(f"missed: {each}" for each in missed) or "all goals reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
