"""Many deliveries at once: answered quickly, all there after a kill, and each made a task exactly once."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from adapters.forge.test_webhooks import sample
from doors.api.enginekit import engine
from effort import DEEP, cases
from engine.toolchain.kits.bench import WAITS, Bench, served, written

CONNECTIONS = 32
NAME = "gitea/issue_assigned"
BURST = 10_000 if DEEP else 300
"""Deliveries, with a kill in the middle and one at the end."""


def issue(number: int) -> bytes:
    body = sample(NAME)["body"]
    body["issue"]["number"] = number
    return json.dumps(body).encode()


@pytest.mark.rest
@pytest.mark.shows("T23")
def test_every_answered_delivery_is_there_after_a_kill_and_makes_one_task(tmp_path: Path) -> None:
    root = written(tmp_path / "root", {"agent-dev": WAITS})
    answered: dict[int, list[str]] = {}
    numbers = iter(range(1, 100_000))
    lock = threading.Lock()
    total = Counter[str]()

    def send(bench: Bench, over: threading.Event, enough: threading.Event, wanted: int) -> None:
        while not over.is_set():
            with lock:
                number = next(numbers)
            try:
                for _ in range(2):  # hooks of organisation and repository
                    status, answer = bench.send(NAME, body=issue(number))
                    if status == 202:
                        with lock:
                            answered.setdefault(number, []).append(answer["id"])
                            total["answered"] += 1
            except OSError:
                return
            if total["answered"] >= wanted:
                enough.set()

    for wanted in (BURST // 2, BURST):
        over, enough = threading.Event(), threading.Event()
        with engine(root) as serving, ThreadPoolExecutor(CONNECTIONS) as pool:
            bench = Bench(root, serving)
            for _ in range(CONNECTIONS):
                pool.submit(send, bench, over, enough, wanted)
            assert enough.wait(600 + cases(600))
            serving.ended(signal.SIGKILL)
            over.set()
    with served(root) as bench:
        for ids in answered.values():
            for each in ids:
                assert bench.decided(each)["state"] in {"done", "ignored"}
        made = Counter(each["must_haves"]["context"]["issue_number"] for each in bench.tasks())
    assert made.keys() >= answered.keys(), "each that was answered has its task"
    assert set(made.values()) == {1}, "and only one"
    assert total["answered"] == sum(map(len, answered.values())) >= BURST


@pytest.mark.rest
def test_answers_come_at_once_however_many_ask(tmp_path: Path) -> None:
    """How busy the machine is shows in what a question takes for which nothing has to be done."""
    seconds: list[float] = []
    least: list[float] = []

    def send(bench: Bench, numbers: range) -> None:
        for number in numbers:
            began = time.monotonic()
            status, _ = bench.send(NAME, body=issue(number))
            seconds.append(time.monotonic() - began)
            assert status == 202
            began = time.monotonic()
            assert bench.get("/healthz", "")[0] == 200
            least.append(time.monotonic() - began)

    with served(written(tmp_path / "root", {"agent-dev": WAITS})) as bench:
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            each = [pool.submit(send, bench, range(1 + 20 * one, 21 + 20 * one)) for one in range(CONNECTIONS)]
            for one in each:
                one.result()
        ready = bench.get("/readyz", "")[0]
    assert ready == 200
    assert len(seconds) == len(least) == 20 * CONNECTIONS
    slow, slowest = (sorted(each)[int(len(each) * 0.99)] for each in (seconds, least))
    assert slow < 1.0 + slowest, f"p99 {slow:.3f} s, and {slowest:.3f} s for nothing"
