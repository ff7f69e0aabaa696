"""AgentTalk's durable steps: the whole way from the command to the ledger, with an agent that does nothing.

`ours.py SHAPE STEPS FOLDER` prints one line of JSON. The shape `paced` is chains in flight whose agents take their
time, `idle` is chains in flight and then nothing to do.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.python_calls import PythonPerformer, Turn
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core.large_documents import spare_existing_objects
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.plan import PlanManifest
from agenttalk.engine.plans import submission
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.wiring import open_root

sys.path.insert(0, str(Path(__file__).parents[2]))  # when it is started by its path
from bench.peers.watch import OUTPUT, PLANS, PROMPT, Watch, tell

AGENTS = PLANS
CONTENT = OUTPUT.encode()
SETTLE, IDLE = 2.0, 11.0
"""Seconds: until the last of the work is over, and of nothing to do; the dispatcher looks at everything in between."""
WORK = (0.025, 0.075)
"""Seconds that an agent takes in `paced`, at least and at most, in the same order in each run."""
DRAWN = random.Random(1)  # noqa: S311 - a pause is not secret
WATCH = Watch()


def dag(plan_id: str, steps: int, *, chain: bool, agent: str | None = None) -> TaskDag:
    """Steps one after the other, or side by side."""
    nodes: list[dict[str, Any]] = []
    for number in range(steps):
        node: dict[str, Any] = {
            "task_id": f"t{number}",
            "assigned_agent_id": agent or f"a{number % AGENTS}",
            "prompt": PROMPT,
            "outputs": [{"name": "out", "deliverable": not chain, "deliver_to": [agent] if chain and agent else []}],
        }
        if chain and number:
            node["depends_on"] = [f"t{number - 1}"]
            node["inputs"] = [{"name": "in", "selector": {"type": "by_output_name", "value": "out"}}]
        nodes.append(node)
    return TaskDag.from_json({"schema_version": "1.1", "plan_id": plan_id, "nodes": nodes})


def plans_of(shape: str, steps: int) -> list[TaskDag]:
    """What is run: one chain, one fan-out, 32 chains at once, or plans of one step."""
    if shape == "chain":
        return [dag("p", steps, chain=True, agent="a0")]
    if shape == "fanout":
        return [dag("p", steps, chain=False)]
    if shape in {"inflight", "paced", "idle"}:
        return [dag(f"p{n}", steps // AGENTS, chain=True, agent=f"a{n}") for n in range(AGENTS)]
    return [dag(f"p{n}", 1, chain=False, agent=f"a{n % AGENTS}") for n in range(steps)]


async def work(turn: Turn) -> str:
    """Nothing but an output."""
    WATCH.enter(turn.plan_id)
    turn.outputs["out"] = CONTENT
    WATCH.leave(turn.plan_id)
    return "ok"


async def work_a_while(turn: Turn) -> str:
    """An output after some time."""
    WATCH.enter(turn.plan_id)
    await asyncio.sleep(DRAWN.uniform(*WORK))
    turn.outputs["out"] = CONTENT
    WATCH.leave(turn.plan_id)
    return "ok"


async def idle() -> dict[str, Any]:
    """How much of a core is busy while there is nothing to do."""
    await asyncio.sleep(SETTLE)
    since, began, cpu = time.clock_gettime(time.CLOCK_REALTIME), time.perf_counter(), time.process_time()
    await asyncio.sleep(IDLE)
    busy = (time.process_time() - cpu) / (time.perf_counter() - began)
    return {"idle_cpu": busy, "window": [since, time.clock_gettime(time.CLOCK_REALTIME)]}


async def main(shape: str, steps: int, root: Path) -> dict[str, Any]:
    """Run it, and say how long it took."""
    for name in ("agents", "system_runtime"):
        (root / name).mkdir(parents=True)
    profiles = {
        name: AgentProfile.from_json({"schema_version": "1.0", "agent_id": name, "driver": "python"})
        for name in (f"a{n}" for n in range(AGENTS))
    }
    plans = plans_of(shape, steps)
    url = os.environ.get("BENCH_POSTGRES", "")
    async with AsyncExitStack() as sparing, open_root(root, url=url) as deps:
        agent = work_a_while if shape == "paced" else work
        calls = PythonPerformer(dict.fromkeys(profiles, agent), deps.stores.blobs)
        dispatcher = Dispatcher(deps, {"python": calls}, LocalProcesses(), max_running=AGENTS)
        stop = asyncio.Event()
        sparing.enter_context(spare_existing_objects())  # as the engine does, see wiring/engine.py
        running = asyncio.create_task(dispatcher.run(stop))
        warm = dag("warm", 3, chain=True, agent="a0")
        await submission.submit(deps, warm, PlanManifest.from_json({"plan_id": "warm"}), profiles)
        dispatcher.nudge()
        await ended(dispatcher, [warm])
        if shape != "single":
            for each in plans:
                await submission.submit(deps, each, PlanManifest.from_json({"plan_id": each.plan_id}), profiles)
        WATCH.begin()
        if shape == "single":
            await asyncio.gather(*(create(deps, each, profiles) for each in plans))
        dispatcher.nudge()
        await ended(dispatcher, plans)
        told = WATCH.end(shape, steps)
        if shape == "idle":
            told |= await idle()
        stop.set()
        await running
    return told


async def create(deps: Any, plan: TaskDag, profiles: dict[str, AgentProfile]) -> None:
    """Submit a plan of one step."""
    await submission.submit(deps, plan, PlanManifest.from_json({"plan_id": plan.plan_id}), profiles)


async def ended(dispatcher: Dispatcher, plans: list[TaskDag]) -> None:
    """Wait until all plans have ended."""
    still_open = {each.plan_id for each in plans}
    with dispatcher.subscribe_ends() as news:
        while still_open:
            await news.wait()
            news.clear()
            still_open -= dispatcher.pop_ended_plans()


if __name__ == "__main__":
    tell(asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
