"""Signed webhooks through the real door at 32 connections, against one synced commit per request in the same run.

Rounds are interleaved, so that a busy moment of the machine hits both; what counts is the ratio, the syncs per
webhook, and how long an answer takes. The next round begins when everything of the one before is decided about, and
what that cost is part of its CPU time. `python bench/intake.py [--json]`; exit code 1 when a goal is missed.
A run that does not come to its end says where everything stands, and ends with 1.
"""

from __future__ import annotations

import asyncio
import faulthandler
import hashlib
import hmac
import itertools
import json
import os
import re
import selectors
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw

from agenttalk.adapters.store.sqlite import SqliteConnection
from agenttalk.adapters.store.worker import WorkItem
from agenttalk.adapters.store.writer import DatabaseWriter, Work
from agenttalk.engine.toolchain import receiver

CONNECTIONS = 32
ROUNDS = 5
SECONDS = 1.5
LONGEST = 300.0
"""Seconds after which a run is believed to hang."""
PATIENCE = 30.0
"""Seconds in which an answer has to be here."""
MOST = 8_000
"""Deliveries that are made ready for a round; more than any engine takes in that time."""
SECRET = "a secret of the hook"  # noqa: S105 - for this run
COLUMNS = ("rate", "decided", "syncs", "cpu", "p99")
GOAL_SYNCS = 0.2
GOAL_RATIO = 1.5
GOAL_P99 = 1.0
SETTINGS = """
[sources.work]
kind = "gitea"
base_url = "https://git.example.test"
secret_env = "BENCH_SECRET"
"""


class Apart:
    """Switches the engine to a work and a commit for each request, and counts commits.

    Nothing else differs: works still queue up while others are committed, and those that were taken out of the queue
    together are answered together, which wakes the event loop less often than to answer each by itself.
    """

    def __init__(self) -> None:
        self.apart = False
        self.commits = 0
        self._many = receiver.MOST
        together, commit = DatabaseWriter.answer, SqliteConnection.commit

        def answer(writer: DatabaseWriter, jobs: list[WorkItem[Work]]) -> None:
            for batch in [[job] for job in jobs] if self.apart else [jobs]:
                together(writer, batch)

        def counted(connection: SqliteConnection) -> None:
            self.commits += 1
            commit(connection)

        DatabaseWriter.answer = answer  # type: ignore[assignment, method-assign]
        SqliteConnection.commit = counted  # type: ignore[assignment, method-assign]

    def switch(self, *, apart: bool) -> None:
        """From now on."""
        self.apart = apart
        receiver.MOST = 1 if apart else self._many  # type: ignore[misc]


def delivery(number: int) -> tuple[bytes, dict[str, str]]:
    """A comment without a mention, under its own number."""
    user = {"id": 5, "login": "visitor"}
    issue = {"id": 1, "number": 1, "title": "x", "body": "", "user": user, "state": "open", "assignees": None}
    comment = {"id": number, "body": f"Nothing to do, {number}. " * 20, "user": user}
    repository = {"id": 1, "name": "widgets", "full_name": "acme/widgets", "owner": {"id": 1, "login": "acme"}}
    body = {"action": "created", "issue": issue, "comment": comment, "repository": repository, "sender": user}
    data = json.dumps(body).encode()
    digest = hmac.new(SECRET.encode(), data, hashlib.sha256).hexdigest()
    headers = {"Content-Type": "application/json", "X-Gitea-Event": "issue_comment", "X-Gitea-Signature": digest}
    return data, headers | {"X-Gitea-Event-Type": "issue_comment", "X-Gitea-Delivery": f"bench-{number}"}


def requests(host: str, first: int) -> Iterator[bytes]:
    """Deliveries as bytes on the wire. They are made before the clock runs: a forge signs on a machine of its own."""
    for number in itertools.count(first):
        body, headers = delivery(number)
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = ["POST /api/webhooks/work HTTP/1.1", f"Host: {host}", *lines, f"Content-Length: {len(body)}"]
        yield "\r\n".join([*head, "", ""]).encode() + body


class Sender:
    """One connection that sends one delivery after the other, and waits for each answer."""

    def __init__(self, where: tuple[str, int], waiting: list[bytes]) -> None:
        self.socket = socket.create_connection(where, timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.took: list[float] = []
        self._waiting = waiting
        self._began = 0.0
        self._answer = b""

    def send(self) -> None:
        """The next delivery."""
        self._began, self._answer = time.perf_counter(), b""
        self.socket.sendall(self._waiting.pop())

    def answered(self) -> bool:
        """Read what is there; whether that is the whole answer."""
        part = self.socket.recv(65536)
        self._answer += part
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not part or (end and not head.startswith(b"HTTP/1.1 202")):
            raise RuntimeError(f"the engine answered {self._answer[:200]!r}")
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        if not end or length is None or len(body) < int(length[1]):
            return False
        self.took.append(time.perf_counter() - self._began)
        return True


def load(url: str, first: int) -> list[float]:
    """So many connections at once; how long each answer took.

    One thread serves them all, so that the load costs little beside what is measured.
    """
    where = urlsplit(url)
    waiting = list(itertools.islice(requests(where.netloc, first), MOST))
    senders = [Sender((where.hostname or "", where.port or 0), waiting) for _ in range(CONNECTIONS)]
    with selectors.DefaultSelector() as ready:
        for each in senders:
            ready.register(each.socket, selectors.EVENT_READ, each)
        end = time.perf_counter() + SECONDS
        for each in senders:
            each.send()
        busy = len(senders)
        while busy:
            found = ready.select(PATIENCE)
            if not found:
                raise TimeoutError("the engine does not answer")
            for key, _ in found:
                if not key.data.answered():
                    continue
                if time.perf_counter() < end:
                    key.data.send()
                else:
                    busy -= 1
    for each in senders:
        each.socket.close()
    return [took for each in senders for took in each.took]


async def apart_from_here(url: str, first: int) -> list[float]:
    """The same from a process of its own, as a forge is one: the engine has its interpreter for itself."""
    command = [sys.executable, __file__, "--load", url, str(first)]
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(SECONDS + 3 * PATIENCE):
        told, _ = await child.communicate()
    if child.returncode:
        raise SystemExit("the load could not be made")
    took: list[float] = json.loads(told)
    return took


async def decided(root: Path) -> None:
    """Wait until nothing is left to be decided about."""
    with closing(apsw.Connection(str(root / "data/system.db"), flags=apsw.SQLITE_OPEN_READONLY)) as database:
        async with asyncio.timeout(3 * PATIENCE):
            while database.execute("SELECT 1 FROM webhooks WHERE state = 'new' LIMIT 1").fetchall():  # noqa: ASYNC110 - the engine sends no signal
                await asyncio.sleep(0.01)


async def measured(root: Path, counting: Apart) -> dict[str, Any]:
    """Both ways, in turn, with one engine."""
    from agenttalk import wiring
    from agenttalk.wiring import settings

    stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()
    loaded = settings.load(root)
    serving = asyncio.create_task(wiring.serve(root, loaded, stop=stop, tell=listening.set_result, port=0))
    await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()
    url = (await listening).http
    first = 1
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for apart in (False, True):
            counting.switch(apart=apart)
            before, busy = counting.commits, time.process_time()
            took = sorted(await apart_from_here(url, first))
            answered = time.perf_counter()
            await decided(root)
            late = time.perf_counter() - answered
            first += 1_000_000
            found[apart].append(
                {
                    "rate": len(took) / SECONDS,
                    "decided": len(took) / (SECONDS + late),
                    "syncs": (counting.commits - before) / len(took),
                    "cpu": (time.process_time() - busy) / len(took),
                    "p99": took[int(len(took) * 0.99)],
                }
            )
    stop.set()
    await serving
    pairs = zip(found[False], found[True], strict=True)
    ratios = [(left["rate"] / right["rate"], left["decided"] / right["decided"]) for left, right in pairs]
    ratio, of_decided = (statistics.median(each) for each in zip(*ratios, strict=True))
    return {"ratio": ratio, "ratio_decided": of_decided} | {
        "together" if not apart else "apart": {
            name: statistics.median(each[name] for each in rounds) for name in COLUMNS
        }
        for apart, rounds in found.items()
    }


def main() -> int:
    """Measure, tell, and say whether the goals are met."""
    if sys.argv[1:2] == ["--load"]:
        print(json.dumps(load(sys.argv[2], int(sys.argv[3]))))
        return 0
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    os.environ["BENCH_SECRET"] = SECRET
    counting = Apart()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = folder
        root = Path(folder) / "root"
        root.mkdir()
        (root / "agenttalk.toml").write_text(SETTINGS)
        found = asyncio.run(measured(root, counting))
    together = found["together"]
    ratio, of_decided = found.pop("ratio"), found.pop("ratio_decided")
    good = together["syncs"] <= GOAL_SYNCS and ratio >= GOAL_RATIO and together["p99"] < GOAL_P99
    if "--json" in sys.argv:
        told = {"ok": good, "connections": CONNECTIONS, "ratio": ratio, "ratio_decided": of_decided}
        print(json.dumps(told | found))
    else:
        print(f"{'':10}{'webhooks/s':>12}{'decided/s':>12}{'syncs each':>12}{'CPU ms':>10}{'p99 ms':>10}")
        for name, each in found.items():
            rates = f"{each['rate']:12.0f}{each['decided']:12.0f}{each['syncs']:12.2f}"
            print(f"{name:10}{rates}{each['cpu'] * 1000:10.2f}{each['p99'] * 1000:10.0f}")
        print(f"shared commits: {ratio:.2f} times as many answered, {of_decided:.2f} times as many decided about")
        print(f"goals {'met' if good else 'missed'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
