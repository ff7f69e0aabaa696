"""The write path by itself: facts, rows and effects in transactions, and what is said once they are kept."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from agenttalk.adapters.store import audit
from agenttalk.adapters.store.blobs import put_small
from agenttalk.adapters.store.root import list_databases
from agenttalk.ports.statements.core import LATEST_FACT
from agenttalk.ports.storage import Tx
from crash.life import Life, Scenario, Step
from crash.snapshot import opened
from kits.effectkit import Effect, claim_effects, finish_effect

BOARD = "default"
_SHIPPED = "system_runtime/shipped"


def _order(tx: Tx, number: int) -> None:
    """A fact, a row and an effect, unless a process that died had written them."""
    subject = f"order/{number}"
    if not tx.run(LATEST_FACT, subject=subject, kind="order.placed"):
        tx.record("order.placed", subject, {"content": put_small(tx, f"order {number}".encode())})
        tx.queue_effect("ship", f"ship/{number}", {"number": number})


def _refused(tx: Tx) -> None:
    tx.record("order.refused", "order/none", {})
    raise ValueError("this one is undone alone")


async def _write(life: Life) -> None:
    """One order by itself; while it is written, two more and a wrong one are handed over, which share a commit."""
    store = await life.deps.stores.board(BOARD)
    await (await life.deps.stores.blobs(BOARD)).put(b"Too large for a row. " * 4_000)
    began, handed = threading.Event(), threading.Event()

    def first(tx: Tx) -> None:
        began.set()
        handed.wait(10)
        _order(tx, 0)

    async def place(number: int) -> None:
        await store.transact(first if number == 0 else lambda tx: _order(tx, number))
        life.say(f"order/{number}")

    one = asyncio.create_task(place(0))
    await asyncio.to_thread(began.wait, 10)
    others = [asyncio.create_task(each) for each in (place(1), store.transact(_refused), place(2))]
    await asyncio.sleep(0)
    handed.set()
    answers = await asyncio.gather(one, *others, return_exceptions=True)
    if [type(each) for each in answers if each is not None] != [ValueError]:
        raise RuntimeError(f"unexpected: {answers}")


async def _ship(life: Life) -> None:
    """Do what is to be done: claim, do, finish, tell."""
    store = await life.deps.stores.board(BOARD)

    def claim(tx: Tx) -> list[Effect]:
        return claim_effects(tx, "ship", 10, now=life.deps.clock.now())

    for effect in await store.transact(claim):
        name = f"{_SHIPPED}/{effect.body['number']}.txt"
        await asyncio.to_thread(life.deps.root.write, name, effect.key.encode(), parents=True)
        await store.transact(lambda tx, number=effect.id: finish_effect(tx, number))  # type: ignore[misc]
        life.say(effect.key)


def _kept(root: Path, said: list[str]) -> list[str]:
    """Whatever was said must be there, what was undone must not, and the chain must hold."""
    path = list_databases(root).get(BOARD)
    if path is None:
        return [f"{each} was said, and nothing is there" for each in said]
    connection = opened(path)
    try:
        made = [str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE name = 'effects'")]
        if not made:
            return [f"{each} was said, and no table is there" for each in said]
        facts = [str(row[0]) for row in connection.execute("SELECT subject FROM ledger")]
        states = dict(connection.execute("SELECT key, state FROM effects"))
        contents = {bytes(row[0]) for row in connection.execute("SELECT content FROM blobs")}
    finally:
        connection.close()
    told = [f"{each} was said and is lost" for each in said if each.startswith("order/") and each not in facts]
    told += [f"{each} was said and is not done" for each in said if each[:5] == "ship/" and states[each] != "done"]
    for number in range(3):
        parts = (f"order/{number}" in facts, f"ship/{number}" in states, f"order {number}".encode() in contents)
        if len(set(parts)) > 1:
            told.append(f"of order {number} only a part is there: {parts}")
        if states.get(f"ship/{number}") == "done" and not (root / _SHIPPED / f"{number}.txt").exists():
            told.append(f"ship/{number} is noted as done and is not")
    told += [f"{each} is there {facts.count(each)} times" for each in sorted(set(facts)) if facts.count(each) > 1]
    told += ["what was undone is there"] if "order/none" in facts else []
    return told + [f"{each.chain}: {each.verdict}" for each in audit.verify(root) if not each.verdict.intact]


WRITES = Scenario(
    "writes",
    lambda _: None,
    (Step(_write), Step(_ship), Step(_ship, seconds=120), Step(_ship, seconds=240)),
    made=False,
    witness=_kept,
)
"""From an empty folder. What a dead process had claimed comes back after its time; there are steps for two of them."""
SCENARIOS = (WRITES,)
