"""Huey with SQLite and fsync. `huey_sqlite.py SHAPE STEPS FOLDER` prints a line of JSON."""

import json
import sys
import threading
import time

from huey import SqliteHuey

OUTPUT = "y" * 1024
shape, steps, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
huey = SqliteHuey(filename=f"{folder}/huey.db", fsync=True)


@huey.task()
def step(prompt):
    return OUTPUT


def worker(stop):
    while not stop.is_set():
        task = huey.dequeue()
        if task is None:
            time.sleep(0.001)
        else:
            huey.execute(task)


stop = threading.Event()
workers = [threading.Thread(target=worker, args=(stop,), daemon=True) for _ in range(1 if shape == "chain" else 8)]
for each in workers:
    each.start()
prompt = "x" * 1400
step(prompt)(blocking=True)
began, cpu = time.perf_counter(), time.process_time()
if shape == "chain":
    for _ in range(steps):
        step(prompt)(blocking=True, backoff=1.0, max_delay=0.001)
else:
    results = [step(prompt) for _ in range(steps)]
    for result in results:
        result(blocking=True, backoff=1.0, max_delay=0.001)
told = {"steps": steps, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
stop.set()
print(json.dumps(told))
