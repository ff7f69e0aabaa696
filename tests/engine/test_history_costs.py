"""Routing costs the same whatever lies behind: a board with 200,000 finished tasks against an empty one.

Costs are counted by SQLite, which a busy machine cannot disturb: the steps of its machine, and the rows that it
went through without an index. Time is measured too, in pairs, so that a busy moment hits both.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from agenttalk.engine.deps import Deps
from agenttalk.engine.router import Router
from agenttalk.store import queries
from agenttalk.wiring import opened
from treekit import Tree, node

PLANS: Final = 200
TASKS: Final = 1_000
"""Of each plan."""
ROUNDS: Final = 15
BATCH: Final = 20
ALLOWED: Final = 1.5

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


class Meter:
    """What SQLite did: how many statements, steps of its machine, and rows that it found without an index."""

    def __init__(self) -> None:
        self.statements = self.steps = self.scanned = 0

    def take(self, event: dict[str, Any]) -> None:
        status = event["stmt_status"]
        self.statements += 1
        self.steps += status["SQLITE_STMTSTATUS_VM_STEP"]
        self.scanned += status["SQLITE_STMTSTATUS_FULLSCAN_STEP"]


@contextmanager
def metered(*roots: Path) -> Iterator[list[Meter]]:
    """A meter for each root: whatever is opened under it meanwhile reports to it."""
    meters = [Meter() for _ in roots]

    def watch(connection: apsw.Connection) -> None:
        for root, meter in zip(roots, meters, strict=True):
            if Path(connection.filename).is_relative_to(root):
                connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, meter.take)

    apsw.connection_hooks.append(watch)
    try:
        yield meters
    finally:
        apsw.connection_hooks.remove(watch)


def board_file(root: Path) -> str:
    return str(root / "data/projects/default/blackboard.db")


def fill(root: Path, plans: int, tasks: int) -> Path:
    """Give a root's board a past."""

    async def make() -> None:
        async with opened(root) as deps:
            await deps.stores.board("default")

    asyncio.run(make())
    connection = apsw.Connection(board_file(root))
    connection.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")
    with connection:
        for statement in FILL.split(";\n"):
            connection.execute(statement, {"plans": plans, "tasks": tasks})
    connection.close()
    return root


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A root with 200,000 finished tasks, and all that they left in the store."""
    root = tmp_path_factory.mktemp("past")
    yield fill(root, PLANS, TASKS)
    shutil.rmtree(root)  # some hundred megabytes


class Desk:
    """A root in which a lead orders work, one message for each task of a plan."""

    def __init__(self, root: Path, deps: Deps) -> None:
        self._router = Router(deps)
        self._tree = Tree(root, plan_id="plan_new")
        self._tree.agent("lead")
        self._tree.dag([node(f"t{number}", "dev") for number in range((ROUNDS + 1) * BATCH)])
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


def test_a_message_costs_no_more_after_200_000_finished_tasks(past: Path, tmp_path: Path) -> None:
    async def compare(meters: list[Meter]) -> float:
        async with opened(past) as deps, opened(tmp_path) as others:
            desks = [Desk(past, deps), Desk(tmp_path, others)]
            for desk in desks:
                await desk.route(BATCH)  # the first pass looks at everything once
            for meter in meters:
                meter.statements = meter.steps = meter.scanned = 0
            return statistics.median([await desks[0].route(BATCH) / await desks[1].route(BATCH) for _ in range(ROUNDS)])

    with metered(past, tmp_path) as (old, new):
        ratio = asyncio.run(compare([old, new]))
    print(vars(old), vars(new), ratio)
    assert new.statements
    assert old.statements <= ALLOWED * new.statements
    assert old.steps <= ALLOWED * new.steps
    assert ratio <= ALLOWED


ASKED_BY_PEOPLE: Final = {
    "artifacts_of", "comments_of", "count_facts", "counted_deadletters", "counted_messages", "counted_open",
    "counted_states", "counted_tasks", "deadletters", "kept_contents", "sealed_facts", "tasks_of", "unshow_views",
    "views_under",
}  # fmt: skip
"""Statements that look at a whole plan or board, which is what they are for."""
OF_THE_SYSTEM: Final = {name for name, _, _ in queries.split((queries.FOLDER / "registry.sql").read_text())}
BYTES: Final = ("body", "claims", "content", "dag", "envelope", "manifest", "missing", "payloads", "pointer", "prev",
    "progress", "response")  # fmt: skip
NUMBERS: Final = ("acted", "base", "dead", "delivered", "duplicate", "epoch", "inode", "mtime_ns", "priority",
    "retriable", "revision", "rounds", "sent", "size", "superseded", "attempt")  # fmt: skip


def values(plan: int, tasks: int) -> dict[str, Any]:
    """What a statement about the first task of a plan is handed."""
    number = plan * tasks
    return {
        **dict.fromkeys(BYTES, b"{}"),
        **dict.fromkeys(NUMBERS, 1),
        "board": "default", "plan_id": f"old_{plan}", "task_id": "t0", "message_id": f"msg_{number}", "id": number + 1,
        "message": number + 1, "delivery": number + 1, "receiver": "dev", "agent_id": "dev", "dag_sha256": "sha256:dag",
        "command_id": "cmd_t0_001", "seq": 1, "kind": "ack", "subject": f"msg_{number}", "ack": "SUCCEEDED",
        "state": "delivered", "type": "command", "origin": "foreign", "box": "outbox", "target": ".sent",
        "path": f"plans/old_{plan}/commands/cmd_{number}.msg.json", "after": 0, "limit": 10, "version": 2,
    }  # fmt: skip


SPECIAL: Final[dict[str, dict[str, Any]]] = {
    "seal_fact": {"hash": b"", "link": 10**9, "seq": 7},
    "add_comment": {"body": "", "kind": "comment"},
    "unsealed_facts": {"after": 10**9},
    "add_message": {"message_id": "new"},
    "add_leaving": {"reason": b""},
    "add_handover": {"content": "sha256:x"},
    "show_view": {"content": "sha256:x"},
}


def steps(root: Path, tasks: int, without: str = "") -> dict[str, int]:
    """How many steps SQLite's machine takes for each statement; `without` names an index that is missing."""
    connection = apsw.Connection(board_file(root))
    meter, taken = Meter(), {}
    known = values(5, tasks)
    for name, statement in queries.load("sqlite").items():
        if name in ASKED_BY_PEOPLE | OF_THE_SYSTEM or name.startswith("fsck_"):
            continue
        wanted = re.findall(r"(?<![:\w]):([a-z_]\w*)", statement)
        connection.execute("BEGIN")
        if without:
            connection.execute(f"DROP INDEX {without}")
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, meter.take)
        before = meter.steps
        params = {each: known.get(each, "") for each in wanted} | SPECIAL.get(name, {})
        connection.execute(statement, params).fetchall()
        taken[name] = meter.steps - before
        connection.trace_v2(0, None)
        connection.execute("ROLLBACK")
    connection.close()
    return taken


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    return {name: (before[name], after[name]) for name in after if after[name] > before[name] + 100}


def test_no_statement_takes_more_steps_with_more_finished_tasks(past: Path, tmp_path: Path) -> None:
    fill(tmp_path, PLANS, 2)
    assert grown(steps(tmp_path, 2), steps(past, TASKS)) == {}


@pytest.mark.parametrize(
    "index",
    ["messages_in_flight", "messages_orders", "deliveries_under_way", "deliveries_open", "deliveries_unshown",
     "views_unshown", "ledger_link"],
)  # fmt: skip
def test_a_missing_index_is_noticed(past: Path, tmp_path: Path, index: str) -> None:
    fill(tmp_path, PLANS, 2)
    assert grown(steps(tmp_path, 2, index), steps(past, TASKS, index)) != {}
