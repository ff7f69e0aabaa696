"""DBOS on SQLite, or on PostgreSQL when BENCH_POSTGRES names one. `dbos_sqlite.py SHAPE STEPS FOLDER` prints JSON."""

import json
import os
import sqlite3
import sys
import time

from dbos import DBOS

OUTPUT = "y" * 1024
shape, steps, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
url = os.environ.get("BENCH_POSTGRES") or f"sqlite:///{folder}/dbos.db"
DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})


@DBOS.step()
def step(prompt):
    return OUTPUT


@DBOS.workflow()
def flow(count, prompt):
    for _ in range(count):
        step(prompt)
    return count


DBOS.launch()
if url.startswith("sqlite"):
    sqlite3.connect(f"{folder}/dbos.db").execute("PRAGMA journal_mode = WAL")
prompt = "x" * 1400
flow(2, prompt)
began, cpu = time.perf_counter(), time.process_time()
if shape == "chain":
    flow(steps, prompt)
elif shape == "inflight":
    handles = [DBOS.start_workflow(flow, steps // 32, prompt) for _ in range(32)]
    for handle in handles:
        handle.get_result()
elif shape == "single":
    for _ in range(steps):
        flow(1, prompt)
else:
    for start in range(0, steps, 8):  # more at once, and SQLite is locked for some of them
        handles = [DBOS.start_workflow(flow, 1, prompt) for _ in range(start, min(start + 8, steps))]
        for handle in handles:
            handle.get_result()
told = {"steps": steps, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
print(json.dumps(told), flush=True)
DBOS.destroy()
