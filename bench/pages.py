"""Pages under load: a plan of 2,000 tasks in a real browser while it changes, and those who follow the ledger.

`python bench/pages.py [--tasks N] [--events N] [--seconds N] [--only browser|memory|readers] [--json]`. The engine is a
process of its own that serves as `agenttalk serve` does; its agents are functions that end so many tasks a second.
Exit code 1 when a goal is missed. docs/reference/benchmarks.md says what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

RATE = 50
"""Tasks that end each second, or facts that are written."""
AGENTS, LAYER = 100, 50
LOADS = 5
READERS, VANISHED, ROUNDS = 4, 50, 3
PART = 6.0
"""Seconds of a round of readers."""
FIRST, GRAPH = 1.0, 1.0
"""Seconds until something, and until the whole graph is shown."""
BLOCKED = 0.2
"""Seconds for which the page may keep a typing user waiting."""
SEEN = 1.0
"""Seconds within which 95 of 100 changes have to be seen."""
GROWN = 0.05
"""By which the second half of the events may make the server grow."""
SLOWER = 1.5
"""How many times as long a good reader may wait beside bad ones."""
PATIENCE = 120.0
LINKS = 8
SETTINGS = "[limits]\nmax_running = 64\n"
WATCH = """
window.seen = {}; window.frames = []; window.long = []; window.keys = []; window.shown = 0;
const into = (list, options) => new PerformanceObserver((found) => {
  found.getEntries().forEach((each) => window[list].push(each.duration));
}).observe(options);
into("long", {type: "longtask", buffered: true});
into("keys", {type: "event", durationThreshold: 16});
const ENDED = ["done", "claimed"];
let last = performance.now();
const frame = () => {
  const now = performance.now(); frames.push(now - last); last = now;
  if (!shown && document.readyState === "complete" && document.querySelector("#graph .node")) shown = now;
  requestAnimationFrame(frame);
};
requestAnimationFrame(frame);
addEventListener("DOMContentLoaded", () => {
  const graph = document.getElementById("graph");
  if (!graph) return;
  new MutationObserver((list) => {
    for (const node of list.flatMap((each) => [...each.addedNodes]))
      if (ENDED.includes(node.dataset?.state)) seen[node.id.slice(2)] ??= performance.timeOrigin + performance.now();
  }).observe(graph, {childList: true, subtree: true});
});
"""


def before(number: int) -> list[str]:
    """The two tasks of the layer before that a task waits for."""
    start = (number // LAYER - 1) * LAYER
    return [f"t{start + number % LAYER}", f"t{start + (number + 1) % LAYER}"] if start >= 0 else []


# The engine, in a process of its own.


async def engine(root: Path, tasks: int) -> None:
    """Serve, and do what the lines on standard input say; answers are lines of JSON."""
    from agenttalk import wiring
    from agenttalk.adapters.drivers.python_calls import PythonPerformer, Turn
    from agenttalk.contracts.planfile import reader as planfile_reader
    from agenttalk.contracts.planfile.yaml_text import YamlSource
    from agenttalk.engine.core.boards import DEFAULT
    from agenttalk.ports.storage import Tx
    from agenttalk.rules.planfile.compiler import compile_plan
    from agenttalk.wiring import settings

    agents = {f"a{number}": {"driver": "python"} for number in range(AGENTS)}
    listed = [{"id": f"t{n}", "agent": f"a{n % AGENTS}", "prompt": "Do it.", "needs": before(n)} for n in range(tasks)]
    compiled = compile_plan(
        planfile_reader.plan_of(YamlSource({"plan_id": "large", "agents": agents, "tasks": listed}))
    )
    allowed = asyncio.Semaphore(0)
    ended: dict[str, float] = {}
    loop, stop, where = asyncio.get_running_loop(), asyncio.Event(), list[Any]()

    async def work(turn: Turn) -> str:
        await allowed.acquire()
        ended[turn.task_id] = time.clock_gettime(time.CLOCK_REALTIME) * 1000
        return "ok"

    def say(told: Any) -> None:
        print(json.dumps(told), flush=True)

    async def job(running: Any) -> None:
        service = running.service
        await service.plans.submit(compiled.dag, compiled.manifest, compiled.profiles, compiled.files)
        links = [service.sessions.link("operator", "bench") for _ in range(LINKS)]
        say({"http": where[0].http, "links": [f"{where[0].http}/login?key={each}" for each in links]})
        lines: asyncio.Queue[str] = asyncio.Queue()
        threading.Thread(target=_lines, args=(loop, lines), daemon=True).start()
        store = await service.deps.stores.board(DEFAULT)
        while words := (await lines.get()).split():
            what, number, rate = words[0], int(words[1]), float(words[2])
            begun, ended_before = time.perf_counter(), set(ended)
            for done in range(number):
                if what == "tasks":
                    allowed.release()
                elif what == "facts":
                    await store.transact(_fact)
                    service.feed.nudge()
                await asyncio.sleep(max(0.0, begun + (done + 1) / rate - time.perf_counter()))
            say({"ended": {name: at for name, at in ended.items() if name not in ended_before}})
        stop.set()

    def _fact(tx: Tx) -> None:
        tx.record("bench.noted", "large", {"text": "x" * 100})

    def performers(deps: Any) -> dict[str, Any]:
        return {"python": PythonPerformer(dict.fromkeys(agents, work), deps.stores.blobs)}

    loaded = settings.load(root)
    await wiring.serve(root, loaded, stop=stop, tell=where.append, port=0, job=job, performers=performers)


def _lines(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str]) -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    loop.call_soon_threadsafe(lines.put_nowait, "")


@dataclass
class Engine:
    """The engine, seen from here."""

    pid: int
    orders: IO[str]
    answers: IO[str]
    http: str
    links: list[str]

    def tell(self, what: str, number: int, rate: float) -> None:
        """Have it do something; `answer` waits for the end of it."""
        self.orders.write(f"{what} {number} {rate}\n")
        self.orders.flush()

    def answer(self) -> Any:
        """Its result, once it has ended."""
        return json.loads(_line(self.answers))

    def cpu(self) -> float:
        """Seconds that it has worked."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> dict[str, float]:
        """MiB that it holds: resident, and its own share of what is resident."""
        found = {}
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in {"Rss", "Pss"}:
                found[name] = int(rest.split()[0]) / 1024
        return found

    def cookie(self) -> str:
        """A logged-in user."""
        with urllib.request.urlopen(self.links.pop()) as answer:  # noqa: S310 - our own engine
            return str(answer.headers["Set-Cookie"]).partition(";")[0]


def _line(stream: IO[str]) -> str:
    line = stream.readline()
    if not line:
        raise SystemExit("the engine ended")
    return line


@contextlib.contextmanager
def serving(tasks: int) -> Iterator[Engine]:
    """An engine with a plan under way."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        (root / "agenttalk.toml").write_text(SETTINGS)
        environment = {**os.environ, "XDG_CONFIG_HOME": f"{folder}/config", "XDG_RUNTIME_DIR": folder}
        command = [sys.executable, __file__, "--engine", str(root), "--tasks", str(tasks)]
        read, told = os.pipe()
        orders_read, orders = os.pipe()
        child = subprocess.Popen(command, stdin=orders_read, stdout=told, env=environment)
        os.close(orders_read)
        os.close(told)
        with os.fdopen(read) as answers:
            try:
                with os.fdopen(orders, "w") as ordering:
                    about = json.loads(_line(answers))
                    yield Engine(child.pid, ordering, answers, about["http"], about["links"])
                child.wait(30)
            finally:
                child.kill()
                child.wait()


# What is measured.


@dataclass
class Bench:
    """What was seen, and what of it had to be reached."""

    figures: dict[str, Any] = field(default_factory=dict)
    goals: dict[str, bool | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def judge(self, words: str, value: float, most: float, unit: str = "s") -> None:
        """Whether something is as small as it should be."""
        self.goals[f"{words}: {value:.3g} {unit}, at most {most:g}"] = value <= most


def in_browser(bench: Bench, tasks: int, seconds: int) -> None:
    """How soon a large plan is shown, and how a page of it bears its changes."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        bench.goals["pages in a browser"] = None
        bench.notes.append("nothing was seen in a browser: 'make browser' installs it")
        return
    with serving(tasks) as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = _opened(browser, served)
        loads = [_load(page, served) for _ in range(LOADS)]
        page.goto("about:blank")
        alone = _changing(served, RATE * seconds // 2, lambda: time.sleep(0.2))
        beside = _used(page, served, RATE * seconds)
        found = {
            "tasks": tasks,
            **_shown(loads),
            **_seen(page, beside["ended"]),
            **_blocked(page),
            "engine's CPU, without a follower": alone["cpu"],
            "engine's CPU, with the page": beside["cpu"],
        }
        browser.close()
    bench.figures["browser"] = found
    bench.judge("first paint", found["first paint"], FIRST)
    bench.judge("the graph is there", found["graph"], GRAPH)
    bench.judge("the longest that the page was blocked", found["longest task"], BLOCKED)
    bench.judge("from a change to its being seen, p95", found["seen p95"], SEEN)
    bench.judge("changes that were never seen", found["changes"] - found["seen"], 0, "tasks")


def _opened(browser: Any, served: Engine) -> Any:
    """A page of a logged-in user, which watches itself."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(1000 * PATIENCE)
    context.add_init_script(WATCH)
    page = context.new_page()
    page.goto(served.links.pop())
    page.wait_for_url("**/")
    return page


def _load(page: Any, served: Engine) -> dict[str, float]:
    """Open the plan; seconds until something, and until the whole graph was shown."""
    page.goto(f"{served.http}/plans/large")
    painted = "performance.getEntriesByName('first-contentful-paint')"
    _until(page, "window.shown")
    _until(page, f"{painted}.length")
    return {"first": page.evaluate(f"{painted}[0].startTime") / 1000, "graph": page.evaluate("shown") / 1000}


def _until(page: Any, holds: str) -> None:
    """Wait for something in a page, asked from here: its content policy forbids polling inside."""
    deadline = time.monotonic() + PATIENCE
    while not page.evaluate(holds):
        if time.monotonic() > deadline:
            raise SystemExit(f"it never came to {holds}")
        page.wait_for_timeout(20)


def _used(page: Any, served: Engine, changes: int) -> dict[str, Any]:
    """Have the plan change while a user moves about in its graph."""
    page.goto(f"{served.http}/plans/large")
    page.wait_for_selector(".live.on")
    page.focus(".graph")
    page.evaluate("seen = {}; frames = []; long = []; keys = []")

    def use() -> None:
        page.keyboard.press("ArrowDown")
        page.wait_for_timeout(200)

    ended = _changing(served, changes, use)
    page.wait_for_timeout(4000)  # and what comes when it is quiet
    return ended


def _shown(loads: list[dict[str, float]]) -> dict[str, float]:
    return {
        "first paint": statistics.median(each["first"] for each in loads),
        "graph": statistics.median(each["graph"] for each in loads),
        "slowest graph": max(each["graph"] for each in loads),
    }


def _seen(page: Any, ended: dict[str, float]) -> dict[str, float]:
    """How many of the tasks that ended were seen to end, and how late."""
    seen: dict[str, float] = page.evaluate("seen")
    late = sorted(seen[name] - at for name, at in ended.items() if name in seen)
    return {
        "changes": len(ended),
        "seen": len(late),
        "seen p50": late[len(late) // 2] / 1000 if late else PATIENCE,
        "seen p95": late[int(len(late) * 0.95)] / 1000 if late else PATIENCE,
    }


def _blocked(page: Any) -> dict[str, float]:
    """How long a user of the page had to wait for it."""
    return {
        "long tasks": len(page.evaluate("long")),
        "longest task": max(page.evaluate("long"), default=0) / 1000,
        "longest frame": max(page.evaluate("frames"), default=0) / 1000,
        "slowest key": max(page.evaluate("keys"), default=0) / 1000,
    }


def _changing(served: Engine, number: int, meanwhile: Any) -> dict[str, Any]:
    """Have tasks end; which did, when, and how many cores the engine took."""
    began, cpu = time.perf_counter(), served.cpu()
    answers: list[Any] = []
    served.tell("tasks", number, RATE)
    waiting = threading.Thread(target=lambda: answers.append(served.answer()))
    waiting.start()
    while waiting.is_alive():
        meanwhile()
    return {**answers[0], "cpu": (served.cpu() - cpu) / (time.perf_counter() - began)}


async def follow(served: Engine, cookie: str, got: Any) -> None:
    """A good reader: takes what it is sent at once."""
    where = urlsplit(served.http)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=2**24)
    writer.write(_request(where.netloc, cookie))
    try:
        while line := await reader.readline():
            if line.startswith(b"data: "):
                got(json.loads(line[6:]))
    finally:
        writer.close()


def _request(netloc: str, cookie: str) -> bytes:
    return f"GET /api/events HTTP/1.1\r\nHost: {netloc}\r\nCookie: {cookie}\r\n\r\n".encode()


async def memory(bench: Bench, events: int) -> None:
    """What the server holds while some readers take very many events."""
    with serving(100) as served:
        counts = [0] * READERS
        enough = asyncio.Event()

        def got(number: int) -> None:
            counts[number] += 1
            if min(counts) % 1000 == 0:
                enough.set()

        cookie = served.cookie()
        readers = [
            asyncio.create_task(follow(served, cookie, lambda _, number=number: got(number)))
            for number in range(READERS)
        ]
        await asyncio.sleep(1)
        curve = []
        step = events // 10
        for tenth in range(10):
            served.tell("facts", step, 1_500)
            answer = asyncio.create_task(asyncio.to_thread(served.answer))
            while min(counts) < step * (tenth + 1) or not answer.done():
                enough.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await enough.wait()
                if any(each.done() for each in readers):
                    raise SystemExit("a reader was let go")
            curve.append({"events": min(counts), **served.memory()})
        for each in readers:
            each.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    bench.figures["memory"] = curve
    half = curve[len(curve) // 2 - 1]["Pss"]
    bench.judge("memory, the second half over the first", curve[-1]["Pss"] / half - 1, GROWN, "more")


async def beside_bad_readers(bench: Bench) -> None:
    """How long a good reader waits, with and without a slow one and some that have vanished."""
    found: dict[str, list[list[float]]] = {"alone": [], "beside": []}
    with serving(100) as served:
        cookie = served.cookie()
        late: asyncio.Queue[float] = asyncio.Queue()

        def got(fact: dict[str, Any]) -> None:
            if fact["kind"] == "bench.noted":
                now = time.clock_gettime(time.CLOCK_REALTIME)
                late.put_nowait(now - datetime.fromisoformat(fact["at"]).timestamp())

        good = asyncio.create_task(follow(served, cookie, got))
        await asyncio.sleep(1)
        for _ in range(ROUNDS):
            for name, rounds in found.items():
                bad = _bad(served, cookie) if name == "beside" else []
                rounds.append(await _waits(served, late, bad))
        good.cancel()
        await asyncio.gather(good, return_exceptions=True)

    def median(name: str, part: float) -> float:
        return statistics.median(each[int(len(each) * part)] for each in found[name])

    told = {name: {"p50": median(name, 0.5), "p99": median(name, 0.99)} for name in found}
    bench.figures["readers"] = told
    for key in ("p50", "p99"):
        bench.judge(
            f"{key} of a good reader beside bad ones", told["beside"][key] / told["alone"][key], SLOWER, "times"
        )


async def _waits(served: Engine, late: asyncio.Queue[float], bad: list[socket.socket]) -> list[float]:
    """How long a good reader waited for each of some facts, the shortest first."""
    slow = asyncio.create_task(_slowly(bad[0])) if bad else None
    number = int(RATE * PART)
    served.tell("facts", number, RATE)
    answer = asyncio.create_task(asyncio.to_thread(served.answer))
    await asyncio.sleep(PART / 2)
    for each in bad[1 : VANISHED // 2]:  # half of them are gone at once, the others stay silent
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        each.close()
    await answer
    found = sorted([await late.get() for _ in range(number)])
    if slow is not None:
        slow.cancel()
    for each in bad:
        each.close()
    return found


def _bad(served: Engine, cookie: str) -> list[socket.socket]:
    """One that will read slowly, and those that never will."""
    where = urlsplit(served.http)
    found = []
    for _ in range(VANISHED + 1):
        each = socket.socket()
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        each.connect((where.hostname, where.port))
        each.sendall(_request(where.netloc, cookie))
        found.append(each)
    return found


async def _slowly(one: socket.socket) -> None:
    one.setblocking(False)
    while True:
        await asyncio.get_running_loop().sock_recv(one, 1)
        await asyncio.sleep(1)


def tell(bench: Bench) -> None:
    """For people."""
    for name, value in bench.figures.get("browser", {}).items():
        print(f"{name:34}{value:10.3f}" if isinstance(value, float) else f"{name:34}{value:10}")
    for each in bench.figures.get("memory", []):
        print(f"{each['events']:>10,} events {each['Rss']:10.1f} MiB resident {each['Pss']:10.1f} MiB its share")
    for name, each in bench.figures.get("readers", {}).items():
        print(f"a good reader {name:10} p50 {1000 * each['p50']:8.0f} ms   p99 {1000 * each['p99']:8.0f} ms")
    print()
    for words, met in bench.goals.items():
        print(f"{'not measured' if met is None else 'reached' if met else 'missed':12}  {words}")
    print("\n".join(["", *bench.notes]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=20, help="for which tasks change while a page shows them")
    parser.add_argument("--only", choices=("browser", "memory", "readers"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--engine", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measure, print, compare with the goals."""
    given = arguments()
    if given.engine is not None:
        asyncio.run(engine(given.engine, given.tasks))
        return 0
    bench, load = Bench(), os.getloadavg()[0]
    if given.only in {None, "browser"}:
        in_browser(bench, given.tasks, given.seconds)
    if given.only in {None, "memory"}:
        asyncio.run(memory(bench, given.events))
    if given.only in {None, "readers"}:
        asyncio.run(beside_bad_readers(bench))
    bench.notes.append(f"{os.cpu_count()} cores, load {load:.1f} before and {os.getloadavg()[0]:.1f} after")
    if given.json:
        print(json.dumps({"figures": bench.figures, "goals": bench.goals, "notes": bench.notes}, ensure_ascii=False))
    else:
        tell(bench)
    return 1 if False in bench.goals.values() else 0


if __name__ == "__main__":
    sys.exit(main())
