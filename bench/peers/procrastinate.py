# mypy: ignore-errors
"""Procrastinate on the PostgreSQL that BENCH_POSTGRES names.

`-m bench.peers.procrastinate SHAPE STEPS FOLDER WORKERS`.
"""

import asyncio
import os
import sys

from bench.peers.watch import OUTPUT, PLANS, PROMPT, Watch, tell
from procrastinate import App, PsycopgConnector

WATCH = Watch()
SHAPE, STEPS, WORKERS = sys.argv[1], int(sys.argv[2]), int(sys.argv[4])
POOL = 2 * WORKERS + 2  # a worker listens on a connection of its own
app = App(connector=PsycopgConnector(conninfo=os.environ["BENCH_POSTGRES"], min_size=POOL, max_size=POOL))
ended = asyncio.Semaphore(0)


def queued(plan):
    """A plan's steps are in the queue of one worker, which has one job at a time: each is done before the next."""
    return step.configure(queue=f"q{plan % WORKERS}")


@app.task(name="step")
async def step(plan, number, length, prompt):
    WATCH.enter(plan)
    WATCH.leave(plan)
    if number + 1 < length:
        await queued(plan).defer_async(plan=plan, number=number + 1, length=length, prompt=prompt)
    else:
        ended.release()
    return OUTPUT


async def defer(plans, length):
    """All first steps of a queue in one statement."""
    first = [{"plan": plan, "number": 0, "length": length, "prompt": PROMPT} for plan in range(plans)]
    for number in range(min(WORKERS, plans)):
        await queued(number).batch_defer_async(*first[number::WORKERS])


async def create(plan, gate):
    async with gate:
        await queued(plan).defer_async(plan=plan, number=0, length=1, prompt=PROMPT)


def start(**more):
    options = {"concurrency": 1, "fetch_job_polling_interval": 0.1, "install_signal_handlers": False}
    return [
        asyncio.create_task(app.run_worker_async(queues=[f"q{number}"], **options, **more)) for number in range(WORKERS)
    ]


async def done(plans):
    """The last step of each plan was run, and nothing is left to be written down."""
    for _ in range(plans):
        await ended.acquire()
    while await app.job_manager.list_jobs_async(status="doing"):  # noqa: ASYNC110  (only the database knows)
        await asyncio.sleep(0.001)


async def main():
    plans = {"chain": 1, "inflight": PLANS}.get(SHAPE, STEPS)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await defer(WORKERS, 3)
        await asyncio.gather(*start(wait=False))
        await done(WORKERS)
        if SHAPE == "single":
            workers, gate = start(), asyncio.Semaphore(8)
            await asyncio.sleep(0.5)
            WATCH.begin()
            await asyncio.gather(*(create(plan, gate) for plan in range(plans)))
        else:
            await defer(plans, STEPS // plans)
            WATCH.begin()
            workers = start()
        await done(plans)
        tell(WATCH.end(SHAPE, STEPS))
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


asyncio.run(main())
