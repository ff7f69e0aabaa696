"""Turns that end at the same time are written down in one transaction, and as if each were alone."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import apsw

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.ports.statements.plans import ENGINE_TASK, REVOKE_TURN, SET_UNMET
from kits.plankit import PATIENCE, Engine, fine, plan, play, states, task
from kits.standingkit import PlanStanding

MANY = 6
ALIKE = re.compile(r"(lease_|dlv_|msg_)[0-9a-f]+|sha256:[0-9a-f]{64}|\d{4}-\d\d-\d\dT[\d:.]+Z|cp-\d+")
"""What differs from run to run."""


class Meeting:
    """Agents that all end their turns at the same moment."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.came = 0
        self.all = asyncio.Event()

    async def __call__(self, turn: Turn) -> str:
        self.came += 1
        if self.came == self.number:
            self.all.set()
        await asyncio.wait_for(self.all.wait(), PATIENCE)
        return await fine(turn)


async def facts(engine: Engine, kind: str) -> list[dict[str, Any]]:
    board = await engine.deps.stores.board("default")
    rows = await board.read(FACTS_OF, subject="deliveries/p", after=0, limit=1000)
    return [json.loads(body) for _, _, each, body in rows if each == kind]


def test_turns_that_end_at_once_share_a_transaction(tmp_path: Path) -> None:
    meeting = Meeting(MANY)
    compiled = plan(*(task(f"t{n}", f"a{n}", outputs=[{"name": "o.md", "deliverable": True}]) for n in range(MANY)))

    async def use(engine: Engine) -> tuple[PlanStanding, int]:
        await engine.submit(compiled)
        found = await engine.ended()
        return found, len({body["ack"]["finished_at"] for body in await facts(engine, "turn.ended")})

    found, moments = play(tmp_path, use, **{f"a{n}": meeting for n in range(MANY)})
    assert found.result == "done"
    assert moments <= 2  # each transaction has a time of its own; the last to come may have been the first to end


def test_a_turn_that_has_lost_its_lease_does_no_harm_to_those_that_end_with_it(tmp_path: Path) -> None:
    meeting = Meeting(MANY)
    compiled = plan(*(task(f"t{n}", f"a{n}", outputs=[{"name": "o.md", "deliverable": True}]) for n in range(MANY)))

    async def use(engine: Engine) -> tuple[dict[str, str], set[str]]:
        async def robbed(turn: Turn) -> str:
            board = await engine.deps.stores.board("default")
            await board.transact(lambda tx: tx.run(REVOKE_TURN, plan_id="p", task_id=turn.task_id))
            return await meeting(turn)

        engine.agents["a0"] = robbed
        await engine.submit(compiled)
        found = await engine.until(lambda seen: list(states(seen).values()).count("COMPLETED") == MANY - 1)
        return states(found), {body["message_id"] for body in await facts(engine, "turn.ended")}

    found, ended = play(tmp_path, use, **{f"a{n}": meeting for n in range(1, MANY)})
    assert found == {"t0": "RUNNING", **{f"t{n}": "COMPLETED" for n in range(1, MANY)}}
    assert len(ended) == MANY - 1


def test_the_same_is_written_together_as_one_by_one(tmp_path: Path) -> None:
    def compiled() -> Any:
        first = [task(f"f{n}", f"a{n}", outputs=[{"name": f"f{n}.md"}]) for n in range(3)]
        needs = [{"name": f"i{n}", "from": f"f{n}.md"} for n in range(3)]
        joint = task("join", "a0", inputs=needs, outputs=[{"name": "j.md", "deliverable": True}])
        chain = [task("one", "b"), task("two", "b", needs=["one"]), task("three", "c", needs=["two", "join"])]
        return plan(*first, joint, *chain)

    async def use(engine: Engine) -> Counter[str]:
        await engine.submit(compiled())
        assert (await engine.ended()).result == "done"
        board = await engine.deps.stores.board("default")
        rows = await board.read(FACTS_OF, subject="deliveries/p", after=0, limit=1000)
        told = [(kind, json.loads(body)) for _, _, kind, body in rows]
        return Counter(each for kind, body in told for each in spoken(kind, body))

    alone = play(tmp_path / "alone", use, max_running=1)
    together = play(tmp_path / "together", use, max_running=8)
    assert together == alone


def test_a_task_that_waits_for_more_than_the_plan_says_is_not_begun(tmp_path: Path) -> None:
    meeting = Meeting(2)
    compiled = plan(task("a", "a"), task("b", "b", needs=["a"]), task("c", "c"), task("d", "d", needs=["c"]))

    async def use(engine: Engine) -> tuple[dict[str, str], list[Any]]:
        async def delayed(turn: Turn) -> str:
            board = await engine.deps.stores.board("default")
            await board.transact(lambda tx: tx.run(SET_UNMET, plan_id="p", task_id="b", unmet=2))
            return await meeting(turn)

        engine.agents["a"] = delayed
        await engine.submit(compiled)
        found = await engine.until(lambda seen: list(states(seen).values()).count("COMPLETED") == 3)
        board = await engine.deps.stores.board("default")
        return states(found), await board.read(ENGINE_TASK, plan_id="p", task_id="b")

    found, row = play(tmp_path, use, c=meeting, b=fine, d=fine)
    assert found == {"a": "COMPLETED", "b": "PENDING", "c": "COMPLETED", "d": "COMPLETED"}
    assert row[0][6] == 1  # one of the two that it waited for has ended


def test_who_says_nothing_is_not_done_although_others_like_it_are(tmp_path: Path) -> None:
    async def silent(turn: Turn) -> str:  # noqa: ARG001 - it does nothing with it
        return ""

    async def use(engine: Engine) -> dict[str, str]:
        await engine.submit(plan(task("a", "a"), task("b", "b", needs=["a"], max_reexecute_times=0), task("c", "a")))
        return states(await engine.until(lambda seen: states(seen)["b"] == "FAILED"))

    found = play(tmp_path, use, a=fine, b=silent)
    assert found == {"a": "COMPLETED", "b": "FAILED", "c": "COMPLETED"}


def test_who_is_handed_an_output_in_the_moment_it_was_made_is_seen_to_have_got_it(tmp_path: Path) -> None:
    compiled = plan(
        task("t0", "a", outputs=[{"name": "t.md"}]),
        task("t1", "b", inputs=[{"name": "i", "from": "t.md"}]),
        task("u0", "c", outputs=[{"name": "u.md"}]),
        task("u1", "c", inputs=[{"name": "i", "from": "u.md"}]),
    )

    async def use(engine: Engine) -> None:
        await engine.submit(compiled)
        assert (await engine.ended()).result == "done"

    play(tmp_path, use)
    rows = apsw.Connection(str(tmp_path / "data/projects/default/blackboard.db")).execute(
        "SELECT d.receiver, d.injected_at IS NOT NULL FROM deliveries AS d JOIN messages AS m ON m.id = d.message"
        " WHERE m.type = 'artifact' ORDER BY d.receiver"
    )
    assert list(rows) == [("b", 1), ("c", 1)]


def spoken(kind: str, body: dict[str, Any]) -> list[str]:
    """What a fact says, apart from what differs from run to run: its lines, and if it is of a turn the rest."""
    lines = body.pop("lines")
    said = [*(f"line {json.dumps(each, sort_keys=True)}" for each in lines)]
    if kind.startswith("turn."):
        body.pop("usage", None)
        body.pop("before", None)
        said.append(f"{kind} {json.dumps(body, sort_keys=True)}")
    return [ALIKE.sub("*", each) for each in said]
