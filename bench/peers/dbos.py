"""DBOS on SQLite in WAL, or on the PostgreSQL that BENCH_POSTGRES names.

`-m bench.peers.dbos SHAPE STEPS FOLDER THREADS`.
"""

import asyncio
import os
import sqlite3
import sys
from contextlib import closing

from bench.peers.watch import OUTPUT, PLANS, PROMPT, Watch, tell
from dbos import DBOS

WATCH = Watch()


@DBOS.step()
def step(plan, prompt):
    WATCH.enter(plan)
    WATCH.leave(plan)
    return OUTPUT


@DBOS.step()
async def side(prompt):
    WATCH.enter(None)
    return OUTPUT


@DBOS.workflow()
def flow(plan, count, prompt):
    for _ in range(count):
        step(plan, prompt)


@DBOS.workflow()
async def fan(count, prompt):
    await asyncio.gather(*(side(prompt) for _ in range(count)))


def configured(folder, threads):
    """WAL is set before DBOS has the file open: afterwards the change may find it locked."""
    config = {"name": "bench", "log_level": "ERROR", "max_executor_threads": threads}
    url = os.environ.get("BENCH_POSTGRES")
    if url:
        return config | {"system_database_url": url, "sys_db_pool_size": 32}
    file = f"{folder}/dbos.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    # Only one can write to SQLite: threads that wait for one connection waste less than those that try again.
    one = {"pool_size": 1, "max_overflow": 0}
    return config | {"system_database_url": f"sqlite:///{file}", "db_engine_kwargs": one}


async def fanned(steps):
    await fan(3, PROMPT)
    WATCH.begin()
    await fan(steps, PROMPT)
    return WATCH.end("fanout", steps)


def flown(shape, steps):
    plans = {"chain": 1, "inflight": PLANS, "single": steps}[shape]
    flow("warm", 3, PROMPT)
    WATCH.begin()
    handles = [DBOS.start_workflow(flow, plan, steps // plans, PROMPT) for plan in range(plans)]
    for handle in handles:
        handle.get_result()
    return WATCH.end(shape, steps)


def main(shape, steps, folder, threads):
    DBOS(config=configured(folder, threads))
    DBOS.launch()
    tell(asyncio.run(fanned(steps)) if shape == "fanout" else flown(shape, steps))
    sys.stdout.flush()
    os._exit(0)  # its threads need not be waited for


main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
