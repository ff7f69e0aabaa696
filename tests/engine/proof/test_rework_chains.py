"""Chains in which work is refused at random while engines end: they come to an end, and nothing rests on what was refused."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.ports.statements.plans import OUTPUTS_IN_FORCE
from effort import cases
from kits.plankit import Engine, engine, plan, states, task
from kits.standingkit import PlanStanding, read_standing

MOST = 3
"""Rounds that a task may have."""


@dataclass(frozen=True)
class Chain:
    """Tasks, each with those that it uses; who refuses which judgement of whom; and when engines end."""

    needs: tuple[tuple[int, ...], ...]
    refusals: frozenset[tuple[int, int, int]]
    """Consumer, producer, and at which of its judgements of it."""
    constant: frozenset[int]
    """Tasks that make the same whatever they are given."""
    rounds: tuple[int, ...]
    same_issue: bool
    ends: tuple[int, ...]
    """After how many turns each engine but the last ends."""

    def compiled(self) -> Any:
        tasks = []
        for number, needs in enumerate(self.needs):
            names = [f"t{each}" for each in needs]
            tasks.append(
                task(
                    f"t{number}",
                    f"a{number}",
                    needs=names,
                    inputs=[{"name": name, "from": f"{name}.md"} for name in names],
                    validate={name: {"quality_threshold": 50} for name in names},
                    outputs=[{"name": f"t{number}.md", "deliverable": True}],
                    max_reexecute_times=self.rounds[number],
                    on_dependency_failed="SKIP" if number % 2 else "BLOCK",
                )
            )
        return plan(*tasks)


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    size = draw(st.integers(3, 6))
    needs = tuple(
        tuple(sorted(draw(st.sets(st.integers(0, number - 1), min_size=1, max_size=3)))) if number else ()
        for number in range(size)
    )
    edges = [(consumer, producer) for consumer, found in enumerate(needs) for producer in found]
    refusals = draw(st.sets(st.tuples(st.sampled_from(edges), st.integers(1, 3)), max_size=5))
    return Chain(
        needs,
        frozenset((*edge, number) for edge, number in refusals),
        frozenset(draw(st.sets(st.integers(0, size - 1), max_size=1))),
        tuple(draw(st.lists(st.integers(0, MOST), min_size=size, max_size=size))),
        draw(st.booleans()),
        tuple(draw(st.lists(st.integers(1, 6), max_size=2))),
    )


@dataclass
class Players:
    """The agents of a chain. What they remember outlives the engines."""

    chain: Chain
    judged: Counter[tuple[int, int]] = field(default_factory=Counter)
    verdicts: dict[tuple[int, str], bool] = field(default_factory=dict)
    turns: Counter[int] = field(default_factory=Counter)
    given: dict[str, dict[str, str]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    left: int | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def play(self, turn: Turn) -> Any:
        me = int(turn.task_id[1:])
        if turn.judges is not None:
            return self._judge(me, turn)
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                self.over.set()
                await asyncio.Event().wait()
        self.turns[me] += 1
        names = [f"t{each}" for each in self.chain.needs[me]]
        self.given[turn.task_id] = {name: turn.text(name) for name in names}
        said = "constant" if me in self.chain.constant else str(self.turns[me])
        turn.outputs[f"{turn.task_id}.md"] = f"{turn.task_id} {said}"
        return "ok"

    def _judge(self, me: int, turn: Turn) -> dict[str, Any]:
        producer, text = int(str(turn.judges)[1:]), turn.text(str(turn.judges))
        if (me, text) not in self.verdicts:  # whoever is asked again says the same
            self.judged[me, producer] += 1
            self.verdicts[me, text] = (me, producer, self.judged[me, producer]) in self.chain.refusals
        if not self.verdicts[me, text]:
            return {"score": 100, "decision": "ACCEPT", "reason": "fine"}
        self.refused.add(text)
        issue = "the same" if self.chain.same_issue else f"no {text}"
        return {"score": 0, "decision": "REJECT", "reason": "no", "issues": [issue]}


async def lived(root: Path, players: Players, end: int | None) -> PlanStanding | None:
    """One engine; how the plan stands when nothing goes on any more, None when the engine ended before."""
    players.left, players.over = end, asyncio.Event()
    agents: dict[str, Any] = {f"a{number}": players.play for number in range(len(players.chain.needs))}
    async with engine(root, proving=True, **agents) as running:
        await running.submit(players.chain.compiled())
        ended = asyncio.create_task(running.ended())
        over = asyncio.create_task(players.over.wait())
        await asyncio.wait({ended, over}, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if players.over.is_set():
            ended.cancel()
            return None
        await look_at(running, players, await ended)
        return await ended


async def look_at(running: Engine, players: Players, found: PlanStanding) -> None:
    """Nothing that is done rests on anything but what is in force, and nothing in force was refused."""
    store = await running.deps.stores.board("default")
    blobs = await running.deps.stores.blobs("default")
    made: dict[str, str] = {}
    for name in states(found):
        for row in await store.read(OUTPUTS_IN_FORCE, plan_id="p", task_id=name, gateway="agent_human_gateway"):
            files = json.loads(row[6])["payload"]["files"]
            assert name not in made, "two versions are in force"
            made[name] = (await blobs.get(files[0]["sha256"])).decode()
    for name, state in states(found).items():
        if state != "COMPLETED":
            assert name not in made, f"{name} is {state}, and what it made is in force"
            continue
        assert made[name] not in players.refused
        for producer, text in players.given[name].items():
            assert states(found)[producer] == "COMPLETED"
            assert made[producer] == text, f"{name} rests on {text}, and {producer} made {made[producer]}"
    assert not {"READY", "RUNNING", "BLOCKED_WAITING_INPUT"} & set(states(found).values())
    for number, needs in enumerate(players.chain.needs):
        before = {states(found)[f"t{each}"] for each in needs}
        assert states(found)[f"t{number}"] != "PENDING" or before & {"PENDING", "BLOCKED_WAITING_REVIEW"}
    counts = Counter(states(found).values())
    assert (found.counts["completed"], found.counts["failed"]) == (counts["COMPLETED"], counts["FAILED"])
    assert found.counts["open"] == counts["PENDING"] + counts["BLOCKED_WAITING_REVIEW"]
    assert all(each["rounds"] <= MOST for each in found.tasks)
    assert (await read_standing(running.deps, "p")).tasks == found.tasks


async def played(root: Path, chain: Chain) -> PlanStanding:
    players = Players(chain)
    for end in chain.ends:
        await lived(root, players, end)
    found = await lived(root, players, None)
    assert found is not None
    for number, needs in enumerate(chain.needs):
        if not chain.refusals and not chain.ends:
            assert players.turns[number] == 1, needs
    return found


def memory() -> tempfile.TemporaryDirectory[str]:
    shared = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None)


@settings(max_examples=cases(35), suppress_health_check=list(HealthCheck), deadline=None)
@given(chains())
def test_chains_end_and_nothing_rests_on_what_was_refused(chain: Chain) -> None:
    with memory() as folder:
        asyncio.run(played(Path(folder) / "root", chain))
