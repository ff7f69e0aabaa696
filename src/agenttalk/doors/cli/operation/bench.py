"""`agenttalk bench`: measures the speed of steps on this machine."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption

if TYPE_CHECKING:
    from agenttalk.doors.library import Turn

app = typer.Typer(add_completion=False)
SIDE_BY_SIDE = 16
"""How many agents work at the same time in the second measurement."""


@app.command("bench")
def bench(
    ctx: typer.Context,
    steps: Annotated[int, typer.Option("--steps", min=16, max=10_000, help="Steps per measurement.")] = 400,
    folder: Annotated[
        Path, typer.Option("--dir", help="Folder on the disk to measure. Nothing is left in it.")
    ] = Path(),
    as_json: JsonOption = False,
) -> int:
    """Measure how many durable steps per second this machine and its disk carry out, with agents that do nothing.

    First one by one, then in parallel. Run it while the machine is idle.
    """
    import asyncio

    out = CommandOutput.from_options(CommonOptions.merge(ctx, None, as_json))
    if not folder.is_dir():
        raise UsageError(Code.FILE_UNREADABLE, f"{folder} is not a folder", hint="pass an existing folder to --dir")
    with tempfile.TemporaryDirectory(prefix=".agenttalk-bench-", dir=folder) as scratch:
        root = Path(scratch)
        found = {
            "syncs_per_second": round(_syncs(root)),
            "chain": asyncio.run(_measured(root / "chain", steps, chain=True)),
            "side_by_side": asyncio.run(_measured(root / "side", steps, chain=False)),
        }
    if out.as_json:
        out.write_json({"ok": True, "steps": steps, **found})
        return 0
    out.say(f"the disk       {found['syncs_per_second']:7,} synced writes per second")
    for words, key in (("one by one", "chain"), ("in parallel", "side_by_side")):
        told: dict[str, float] = found[key]  # type: ignore[assignment]
        wait = f", {told['p50_ms']:.1f} ms from step to step (p99 {told['p99_ms']:.1f})" if "p50_ms" in told else ""
        out.say(f"{words:14} {told['per_second']:7,.0f} steps per second, {told['cpu_ms']:.2f} ms of CPU each{wait}")
    return 0


def _syncs(folder: Path) -> float:
    """Return how many synced appends the disk takes per second."""
    with (folder / "syncs").open("wb", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(100):
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
        return 100 / (time.perf_counter() - began)


class BenchStep(NamedTuple):
    """A step that does nothing."""

    began: float
    ended: float
    cpu: float
    """The CPU time of the process by then."""


async def _measured(root: Path, steps: int, *, chain: bool) -> dict[str, float]:
    """Run a plan of steps that do nothing, and return their speed."""
    from agenttalk.doors.library import Plan, run

    calls: list[BenchStep] = []

    async def work(turn: Turn) -> str:
        began = time.perf_counter()
        turn.outputs["out"] = b"x" * 1024
        calls.append(BenchStep(began, time.perf_counter(), time.process_time()))
        return "ok"

    plan = Plan("bench")
    agents = ["a0"] if chain else [f"a{number}" for number in range(SIDE_BY_SIDE)]
    before: str | None = None
    for number in range(steps):
        needs = {"needs": [before]} if chain and before else {}
        before = plan.task(
            f"t{number}",
            agent=agents[number % len(agents)],
            prompt="Nothing.",
            outputs=[{"name": "out", "deliverable": True}],
            **needs,
        )
    outcome = await run(plan, root=root, agents=dict.fromkeys(agents, work))
    if not outcome.done or len(calls) != steps:
        raise RuntimeError(f"{len(calls)} of {steps} steps ended with {outcome.result}")
    first, last = calls[0], calls[-1]
    found = {
        "per_second": (steps - 1) / (last.began - first.began),
        "cpu_ms": 1000 * (last.cpu - first.cpu) / (steps - 1),
    }
    if chain:
        waits = [1000 * (after.began - step.ended) for step, after in pairwise(calls)]
        *_, p99 = statistics.quantiles(waits, n=100)
        found |= {"p50_ms": statistics.median(waits), "p99_ms": p99}
    return found
