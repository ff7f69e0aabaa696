"""Routing costs the same whatever lies behind: a board with 200,000 finished tasks against an empty one."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from agenttalk.engine.deps import Deps
from agenttalk.engine.router import Router
from agenttalk.store import queries
from agenttalk.wiring import opened
from treekit import Tree, node, output

PLANS: Final = 200
TASKS: Final = 1_000
"""In each plan."""
ROUNDS: Final = 15
BATCH: Final = 20
ASKED_BY_PEOPLE: Final = {
    "artifacts_of", "comments_of", "count_facts", "counted_deadletters", "counted_messages", "counted_open",
    "counted_states", "counted_tasks", "deadletters", "kept_contents", "sealed_facts", "tasks_of", "views_under",
}  # fmt: skip
"""Statements that look at a whole plan or board by design: none of them runs for a message."""
EVERY_VIEW: Final = {"unshow_views"}
"""Writes all views anew, when a person asks for it."""

# One row for each finished task; `n` is its number. Hashes are made up: nobody verifies this chain.
FILL: Final = """
CREATE TEMP TABLE numbers (value INTEGER PRIMARY KEY);

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < 3 * :plans * :tasks)
INSERT INTO temp.numbers SELECT value FROM upto;

INSERT INTO plans (board, plan_id, origin, sent, delivered)
SELECT 'default', 'old_' || value, 'foreign', :tasks, :tasks FROM temp.numbers WHERE value < :plans;

INSERT INTO journals (board, plan_id, seq, base, size)
SELECT 'default', 'old_' || value, 3 * :plans * :tasks, 0, 0 FROM temp.numbers WHERE value < :plans;

INSERT INTO tasks (board, plan_id, task_id, agent_id, state, updated_at, epoch, attempt)
SELECT 'default', 'old_' || (value / :tasks), 't' || (value % :tasks), 'dev', 'COMPLETED', '2026', 1, 1
FROM temp.numbers WHERE value < :plans * :tasks;

INSERT INTO messages (id, board, plan_id, message_id, sha256, type, task_id, command_id, seq, producer, name, envelope,
    dag_sha256, accepted_at, state)
SELECT value + 1, 'default', 'old_' || (value / :tasks), 'msg_' || value, 'sha256:' || value, 'command',
    't' || (value % :tasks), 'cmd_t' || (value % :tasks) || '_001', 1, 'lead', 'cmd_' || value || '.msg.json',
    zeroblob(200), 'sha256:dag', '2026', 'delivered'
FROM temp.numbers WHERE value < :plans * :tasks;

INSERT INTO deliveries (id, board, plan_id, message, receiver, delivery_id, state, shown, stored_at, ack)
SELECT value + 1, 'default', 'old_' || (value / :tasks), value + 1, 'dev', 'dlv_' || value, 'processed', 'processed',
    '2026', 'SUCCEEDED'
FROM temp.numbers WHERE value < :plans * :tasks;

INSERT INTO controls (board, plan_id, kind, id, agent_id, sha256, body, at)
SELECT 'default', 'old_' || (value / :tasks), 'ack', 'msg_' || value || '/dev', 'dev', 'sha256:' || value, zeroblob(200), '2026'
FROM temp.numbers WHERE value < :plans * :tasks;

INSERT INTO views (board, path, body, shown)
SELECT 'default', 'plans/old_' || (value / :tasks) || '/commands/cmd_' || value || '.msg.json', zeroblob(200), 1
FROM temp.numbers WHERE value < :plans * :tasks;

INSERT INTO ledger (seq, link, at, board, kind, subject, body, prev, hash)
SELECT value + 1, value + 1, '2026', 'default',
    CASE value % 3 WHEN 0 THEN 'message.accepted' WHEN 1 THEN 'delivery' ELSE 'control.ack' END,
    CASE value % 3 WHEN 0 THEN 'msg_' || (value / 3) WHEN 1 THEN 'deliveries/old_' || (value / 3 / :tasks)
        ELSE 'msg_' || (value / 3) || '/dev' END,
    x'7b7d', zeroblob(32), zeroblob(32)
FROM temp.numbers WHERE value < 3 * :plans * :tasks;
"""


@dataclass
class Meter:
    """What SQLite did: statements, steps of its machine, and rows that it went through without an index."""

    statements: int = 0
    steps: int = 0
    scanned: int = 0

    def take(self, event: dict[str, Any]) -> None:
        status = event["stmt_status"]
        self.statements += 1
        self.steps += status["SQLITE_STMTSTATUS_VM_STEP"]
        self.scanned += status["SQLITE_STMTSTATUS_FULLSCAN_STEP"]


@contextmanager
def metered(meter: Meter) -> Iterator[None]:
    """Every connection that is opened meanwhile reports to the meter."""

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, meter.take)

    apsw.connection_hooks.append(watch)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(watch)


def fill(root: Path, plans: int, tasks: int) -> None:
    """Give a root's board a past."""

    async def make() -> None:
        async with opened(root) as deps:
            await deps.stores.board("default")

    asyncio.run(make())
    connection = apsw.Connection(str(root / "data/projects/default/blackboard.db"))
    connection.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")
    with connection:
        for statement in FILL.split(";\n"):
            connection.execute(statement, {"plans": plans, "tasks": tasks})
    connection.close()


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A root with 200,000 finished tasks, and all that they left."""
    root = tmp_path_factory.mktemp("past")
    fill(root, PLANS, TASKS)
    yield root
    shutil.rmtree(root)


class Desk:
    """A root in which a lead orders work, one message for each task of a plan."""

    def __init__(self, root: Path, deps: Deps, meter: Meter) -> None:
        self.meter = meter
        self._router = Router(deps)
        self._tree = Tree(root, plan_id="plan_new")
        self._tree.agent("lead")
        self._tree.dag([node(f"t{number}", "dev") for number in range(ROUNDS * BATCH)])
        self._sent = 0

    async def route(self, count: int) -> float:
        """Send and route some messages; the CPU seconds that the routing took."""
        for number in range(self._sent, self._sent + count):
            self._tree.command("lead", f"t{number}")
        self._sent += count
        start = time.process_time()
        report = await self._router.pass_()
        taken = time.process_time() - start
        assert report.delivered == count
        return taken


async def compare(past: Path, empty: Path) -> tuple[Meter, Meter, float]:
    """What the same messages cost with a past and without one, and the ratio of the CPU time."""
    old, new = Meter(), Meter()
    with metered(old):
        long_lived = opened(past)
        deps = await long_lived.__aenter__()
    ratios = []
    async with opened(empty) as other:
        pass
    return old, new, statistics.median(ratios)
