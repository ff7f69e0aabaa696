"""Huey on SQLite with fsync. `-m bench.peers.huey SHAPE STEPS FOLDER THREADS`."""

import sys
import threading
import time

from bench.peers.watch import OUTPUT, PLANS, PROMPT, Watch, tell
from huey import SqliteHuey, signals

WATCH = Watch()
shape, steps, folder, threads = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
huey = SqliteHuey(filename=f"{folder}/huey.db", fsync=True)
done = threading.Semaphore(0)


@huey.task()
def step(plan, number, length, prompt):
    WATCH.enter(plan)
    WATCH.leave(plan)
    return OUTPUT


@huey.signal(signals.SIGNAL_COMPLETE)
def complete(signal, task):
    """Its result is stored; the next one of its plan can follow."""
    plan, number, length, prompt = task.args
    if number + 1 < length:
        step(plan, number + 1, length, prompt)
    else:
        done.release()


def worker():
    while True:
        task = huey.dequeue()
        if task is None:
            time.sleep(0.001)
        else:
            huey.execute(task)


def start():
    for _ in range(threads):
        threading.Thread(target=worker, daemon=True).start()


plans = {"chain": 1, "inflight": PLANS}.get(shape, steps)
step("warm", 0, 3, PROMPT)
for _ in range(3):
    huey.execute(huey.dequeue())
done.acquire()
if shape == "single":
    start()
    WATCH.begin()
for plan in range(plans):
    step(plan, 0, steps // plans, PROMPT)
if shape != "single":
    WATCH.begin()
    start()
for _ in range(plans):
    done.acquire()
tell(WATCH.end(shape, steps))
