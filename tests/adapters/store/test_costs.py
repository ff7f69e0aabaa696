"""Every statement finds its rows through an index, so none takes longer because more is finished."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw
import psycopg
import pytest

from agenttalk.adapters.store import queries
from agenttalk.adapters.store.root import RootStores
from effort import DEEP
from kits.historykit import board_past, busy_elsewhere, system_past
from kits.storekit import Place

OF_A_BOARD: Final = {"account_waits", "plans"}
"""Ask for every plan of a board, or every account that ever waited, of which each is one short row."""
OF_A_PLAN: Final = {"artifacts_named", "artifacts_of", "cancel_deliveries", "cancel_tasks", "counted_messages", "counted_tasks",
    "drop_edges", "orders_of_plan", "drop_joined", "drop_nodes", "drop_tasks", "evidence_of_plan", "finished_tasks", "gate_results", "plan_acks", "plan_artifacts", "plan_edges", "plan_facts", "held_tasks", "inputs_of", "joined_checks", "nodes_of", "objections_in", "recount_run", "removed_tasks",
    "skipped_by_failure", "standings", "tasks_of", "tip_packs", "used_by_plan", "views_under"}  # fmt: skip
"""Ask for all of one plan, which is what they are for; they find it through an index."""
FOR_PEOPLE: Final = {"count_facts", "fsck_acks", "fsck_busy_agents", "fsck_leases", "fsck_payloads",
    "agent_tokens", "fsck_undelivered", "gc_runs", "gc_tasks", "kept_contents", "pause_schedules", "schedules", "sealed_facts", "tokens", "unshow_views", "workers", "paused_pools", "machines_of_agents"}  # fmt: skip
"""Look at everything, because somebody asked to verify, list or rebuild it. Nothing asks them on its own,
but for schedules, which are as many as people have made."""

SYSTEM_TABLES: Final = {
    "agent_tokens",
    "api_keys",
    "day_limits",
    "machine_agents",
    "plan_boards",
    "schedules",
    "sessions",
    "tokens",
    "verifications",
    "webhooks",
    "worker_invitations",
    "worker_pools",
    "workers",
}
SYSTEM: Final = {name for name, tables in queries.tables_of_statements("sqlite").items() if tables & SYSTEM_TABLES}
"""Statements of the system's database."""
NAMES: Final = sorted(queries.load_statements("sqlite"))
SHORT, LONG = (10, 2), (100, 100)
"""Plans and their tasks."""
ALLOWED: Final = 60
"""Steps by which a deeper index may be dearer; a scan of the long past takes thousands."""

BYTES: Final = ("body", "claims", "content", "dag", "definition", "envelope", "manifest", "missing", "payloads", "pointer", "prev",
    "progress", "reason", "reasons", "response", "headers", "must_haves", "event", "settings", "node", "wards", "guards", "verdict", "result", "results", "told")  # fmt: skip
NUMBERS: Final = ("acted", "attempt", "base", "dead", "delivered", "duplicate", "epoch", "inode", "mtime_ns",
    "priority", "retriable", "revision", "rounds", "sent", "size", "superseded", "open", "completed", "failed", "skipped",
    "unmet", "held", "before", "message", "queued", "score", "retries", "sent_back", "deaths", "value", "tokens", "cost_usd",
    "seconds", "tool_calls", "turns", "proven", "unproven", "unisolated", "gamed", "refuted", "overturned", "stale",
    "judged", "misled", "overruled", "unjudged", "disputed", "upheld", "dismissed", "upto", "closing", "fresh", "number", "accepted", "hop", "reminders", "tries", "failures", "many")  # fmt: skip
KNOWN: Final[dict[str, Any]] = {
    **dict.fromkeys(BYTES, b"{}"),
    **dict.fromkeys(NUMBERS, 1),
    "board": "default", "plan_id": "old_5", "task_id": "t0", "receiver": "dev", "agent_id": "dev",
    "dag_sha256": "sha256:dag", "command_id": "cmd_t0_001", "output_name": "report.md", "seq": 1, "kind": "ack",
    "ack": "SUCCEEDED", "state": "delivered", "type": "command", "origin": "foreign", "box": "outbox",
    "target": ".sent", "after": 0, "limit": 10, "version": 2, "role": "worker", "hash": "sha256:5", "rows": "{}",
}  # fmt: skip
SPECIAL: Final[dict[str, dict[str, Any]]] = {
    "add_invitation": {"hash": "new"},
    "add_worker": {"id": "w5", "facts": b"{}", "role": "verifier"},
    "pause_pool": {"paused": 1},
    "set_worker_facts": {"id": "w5", "facts": b"{}"},
    "set_worker_state": {"id": "w5", "state": "active", "reason": ""},
    "worker": {"id": "w5"},
    "acknowledge_by_hand": {"ack": "SUCCEEDED"},
    "add_comment": {"body": "", "kind": "comment"},
    "add_arrived_artifact": {"receiver": "new"},
    "put_delivery": {"id": 10**9, "state": "delivered", "ack": None, "receiver": "new"},
    "put_message": {"id": 10**9, "message_id": "new"},
    "add_run": {"state": "RUNNING"},
    "hand_in": {"kind": "artifact"},
    "cancel_tasks": {"reason": ""},
    "cancel_deliveries": {"reason": ""},
    "end_turn": {"state": "READY", "reason": "", "seconds": 0.5, "cost_usd": 0.5, "tokens": 5, "fact": 5},
    "check_result": {"key": "key_5"},
    "keep_check_result": {"key": "key_5"},
    "end_by_hand": {"state": "COMPLETED", "reason": ""},
    "ended_acks": {"after": 10**9},
    "engine_commands": {"after": 10**9},
    "next_task_apart": {"plans": "[]"},
    "note_request": {"reason": ""},
    "set_engine_task": {"state": "PENDING", "reason": ""},
    "set_run_state": {"state": "RUNNING"},
    "add_deadletter": {"reason": "", "deadletter_id": "new", "key": "new"},
    "add_handover": {"content": "sha256:x"},
    "add_message": {"message_id": "new"},
    "append_sealed": {"hash": b"", "link": 10**9, "seq": 10**9},
    "claim_effects": {"kind": "post"},
    "finish_delivery": {"state": "processed"},
    "next_effect_at": {"kind": "post"},
    "queue_effect": {"kind": "post", "key": "new"},
    "seal_fact": {"hash": b"", "link": 10**9, "seq": 7},
    "add_release": {"number": 10**6},
    "add_review": {"revision": 10**6},
    "decide_release": {"state": "approved"},
    "decide_review": {"state": "approved"},
    "show_view": {"content": "sha256:x"},
    "unsealed_facts": {"after": 10**9},
    "add_honesty": {"claims": 1},
    "held_by": {"like": "%budget%"},
    "dones_before": {"before": 20, "after": 5},
    "add_dispute": {"request_id": "new", "reason": ""},
    "dispute_of_request": {"request_id": "req_5"},
    "answer_dispute": {"request_id": "req_5", "state": "upheld"},
    "facts_to_count": {"after": 5, "upto": 15},
    "plan_page": {"began_at": "9999", "plan_id": ""},
    "deadletters": {"before": 10**9},
    "open_requests": {"at": "", "request_id": ""},
    "open_plan_page": {"began_at": "9999", "plan_id": ""},
    "foreign_plan_page": {"plan_id": "old_5"},
    "task_statuses": {"task_id": "", "limit": 2},
    "ledger_page": {"before": 20, "after": 5},
    "ledger_of": {"before": 10**9},
    "blob_size": {"hash": "sha256:5"},
    "blob_piece": {"hash": "sha256:5", "first": 1},
    "begin_key": {"key": "new"},
    "api_key": {"key": "key-5"},
    "end_key": {"key": "key-5", "status": 200, "answer": b"{}"},
    "forget_key": {"key": "key-5"},
    "drop_old_keys": {"before": "2025"},
    "drop_many_keys": {"id": 0},
    "webhook_page": {"before": 10**9},
    "replay_webhook": {"id": 5},
    "add_toolchain_task": {"task_id": "new", "key": "new", "reason": "", "title": "", "verdict": None},
    "add_webhook": {"kind": "forge", "event": "push", "content": None},
    "facts_after": {"after": 10**9},
    "recent_turns": {"after": 10**9},
    "set_verifier_tried": {"id": "w5"},
    "add_session": {"role": "viewer", "hash": "new"},
    "webhook_again": {"source": "work", "delivery": "delivery-5", "sha256": "sha256:5"},
    "end_webhook": {"state": "done"},
    "toolchain_task": {"task_id": "tc-5"},
    "toolchain_by_key": {"key": "key-5"},
    "close_toolchain_task": {"task_id": "tc-5"},
    "reopen_toolchain_task": {"task_id": "tc-5"},
    "note_reminder": {"task_id": "tc-5"},
    "overdue_tasks": {"before": "2027"},
    "add_outgoing": {"key": "new", "kind": "comment", "state": "waiting"},
    "end_outgoing": {"state": "sent"},
    "due_outgoing": {"source": "work"},
    "next_outgoing_at": {"source": "work"},
    "sent_since": {"object": "object-5"},
    "held_of": {"object": "object-5"},
    "breaker": {"source": "work"},
    "put_breaker": {"source": "work"},
    "toolchain_known": {"object": "object-5"},
    "sighting": {"object": "object-5"},
    "sightings_with_head": {"head": "head-5"},
    "held_failures_of": {"head": "head-5"},
    "put_sighting": {"object": "object-5"},
    "drop_old_failures": {"before": "2025"},
    "add_mail": {"mail_id": "new"},
    "mail": {"mail_id": "ml-5"},
    "add_mail_item": {"mail": 10**9, "task_id": "new", "shown": 1},
    "mail_item": {"task_id": "ml-5"},
    "mail_items_of": {"mail": 6},
    "mail_for": {"mail": 6, "addressee": "reader-1"},
    "mail_page": {"before": 10**9},
    "mail_page_from": {"before": 10**9, "party": "sender-1"},
    "mail_page_to": {"before": 10**9, "party": "reader-1"},
    "mail_page_unread": {"before": 10**9, "party": "reader-1"},
    "mail_page_thread": {"before": 10**9, "thread": "ml-4"},
    "mail_page_word": {"before": 10**9, "word": "word-1"},
    "mail_has_word": {"word": "word-1", "mail": 6},
    "add_mail_word": {"word": "new", "mail": 6},
    "mail_unread": {"party": "reader-1"},
    "mail_unread_notes": {"party": "reader-1"},
    "join_mail_thread": {"thread": "ml-5", "party": "party-1", "mail": 6},
    "mail_threads": {"before": 10**9, "party": "party-1"},
    "read_mail": {"task_id": "ml-5", "informs": 1},
    "reply_mail": {"task_id": "ml-5"},
    "remind_mail": {"task_id": "ml-5"},
    "set_mail_due": {"task_id": "ml-5"},
    "close_mail": {"task_id": "ml-5"},
    "mail_shown": {"task_id": "ml-5", "shown": 1},
}


def values(name: str, statement: str, tasks: int) -> dict[str, Any]:
    """What a statement about the first task of a plan is handed."""
    number = 2 * 5 * tasks
    known = {
        **KNOWN,
        "id": number + 1, "message": number + 1, "delivery": number + 1, "message_id": f"msg_{number}",
        "subject": f"msg_{number}", "path": f"plans/old_5/commands/cmd_{5 * tasks}.msg.json",
        **SPECIAL.get(name, {}),
    }  # fmt: skip
    if name in {"answer_key", "control", "put_control", "take_key"}:
        known["id"] = f"msg_{number}/dev"
    wanted = re.findall(r"(?<![:\w]):([a-z_]\w*)|%\((\w+)\)s", statement)
    return {each: known.get(each, "") for pair in wanted for each in pair if each}


async def make(stores: RootStores) -> None:
    await stores.board("default")


def system_file(root: Path) -> str:
    return str(root / "data/system.db")


def board_file(root: Path) -> str:
    return str(root / "data/projects/default/blackboard.db")


def aged(root: Path, plans: int, tasks: int) -> Path:
    """A root of SQLite files with a past."""
    Place(root, "", "sqlite").play(make)
    for path, past in (
        (board_file(root), board_past("sqlite", plans, tasks)),
        (system_file(root), system_past("sqlite", plans)),
    ):
        connection = apsw.Connection(path)
        connection.execute("PRAGMA synchronous = OFF")
        with connection:
            for statement in past:
                connection.execute(statement)
        connection.close()
    return root


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return aged(tmp_path_factory.mktemp("short"), *SHORT)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return aged(tmp_path_factory.mktemp("long"), *LONG)


@pytest.fixture(scope="module")
def before(short: Path) -> dict[str, int]:
    return steps(short, SHORT[1])


@contextmanager
def undone(path: str) -> Iterator[apsw.Connection]:
    """A connection whose changes are forgotten."""
    connection = apsw.Connection(path)
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def steps(root: Path, tasks: int, without: str = "") -> dict[str, int]:
    """How many steps SQLite's machine takes for each statement; `without` names an index that is missing."""
    taken: dict[str, int] = {}
    for name, statement in queries.load_statements("sqlite").items():
        counted: list[int] = []

        def count(event: dict[str, Any], counted: list[int] = counted) -> None:
            counted.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

        with undone(system_file(root) if name in SYSTEM else board_file(root)) as connection:
            if without and name not in SYSTEM:
                connection.execute(f"DROP INDEX {without}")
            connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
            connection.execute(statement, values(name, statement, tasks)).fetchall()
            connection.trace_v2(0, None)
        taken[name] = sum(counted)
    return taken


def grown(short: dict[str, int], long: dict[str, int]) -> dict[str, tuple[int, int]]:
    allowed = OF_A_BOARD | OF_A_PLAN | FOR_PEOPLE
    return {
        name: (short[name], long[name]) for name in long if long[name] > short[name] + ALLOWED and name not in allowed
    }


def test_no_statement_takes_more_steps_with_more_history(before: dict[str, int], long: Path) -> None:
    assert grown(before, steps(long, LONG[1])) == {}


INDEXES: Final = (
    "comments_task", "deliveries_open", "deliveries_under_way", "deliveries_unshown", "effects_open",
    "journals_unwritten", "ledger_link", "ledger_subject", "mail_items_due", "mail_items_ready", "mail_items_unread",
    "mail_parties_latest", "mails_thread", "messages_in_flight", "messages_orders", "messages_versions",
    "plans_under_way", "requests_open", "sightings_head", "tasks_leased", "toolchain_tasks_object",
    "toolchain_tasks_open", "views_unshown",
)  # fmt: skip


@pytest.mark.rest_but("tasks_leased")
@pytest.mark.parametrize(
    "index", INDEXES if DEEP else ("deliveries_open", "ledger_link", "requests_open", "tasks_leased")
)
def test_a_missing_index_is_noticed(before: dict[str, int], long: Path, index: str) -> None:
    assert grown(before, steps(long, LONG[1], index)) != {}


def test_sqlite_uses_an_index_for_every_statement(short: Path) -> None:
    scanned = {}
    with undone(system_file(short)) as system, undone(board_file(short)) as board:
        for name in NAMES:
            statement = queries.load_statements("sqlite")[name]
            asked = f"EXPLAIN QUERY PLAN {statement}"
            rows = (system if name in SYSTEM else board).execute(asked, values(name, statement, SHORT[1])).fetchall()
            plan = [str(row[3]) for row in rows]
            scans = [
                step
                for step in plan
                if step.startswith("SCAN") and not re.search(r"INDEX|CONSTANT ROW|SCAN (m|used)$", step)
            ]
            if scans and name not in FOR_PEOPLE:
                scanned[name] = scans
    assert scanned == {}


def test_postgres_uses_an_index_for_every_statement(postgres: Place) -> None:
    postgres.play(make)
    scanned = {}
    plans, tasks = 3_000, 4
    for schema, past in (
        ("projects", (*board_past("postgres", plans, tasks), *busy_elsewhere("postgres", 3_000))),
        ("system", system_past("postgres", plans)),
    ):
        with psycopg.connect(postgres.url, options=f"-c search_path={schema}", autocommit=True) as session:
            for each in past:
                session.execute(each)
            session.execute("ANALYZE")
            for name, statement in queries.load_statements("postgres").items():
                if (name in SYSTEM) == (schema == "system"):
                    rows = session.execute(f"EXPLAIN {statement}", values(name, statement, tasks))
                    plan = "\n".join(row[0] for row in rows)
                    if "Seq Scan" in plan:
                        scanned[name] = plan
    assert {name: scanned[name] for name in scanned.keys() - OF_A_BOARD - FOR_PEOPLE} == {}


UNDER_WAY: Final = {
    "PENDING": "unmet = 0, delivery = NULL",
    "READY": "queued = 1",
    "RUNNING": "lease = plan_id || '/' || task_id",
}
"""What is set beside the state of a task that is still to be done."""
OF_A_STEP: Final = {"answered_tasks", "due_tasks", "end_turn", "lease_task", "next_task", "queue_first", "queue_task",
    "start_first", "start_task", "waiting_tasks"}  # fmt: skip
"""What is asked about tasks for each step, or each time that a plan is looked at."""


def looked_at(plan: dict[str, Any]) -> float:
    """How many rows a plan of PostgreSQL looked at, those included that it did not want."""
    unwanted = sum(value for key, value in plan.items() if key.startswith("Rows Removed"))
    own = (plan.get("Actual Rows", 0) + unwanted) * plan.get("Actual Loops", 1)
    return float(own + sum(looked_at(each) for each in plan.get("Plans", [])))


@pytest.mark.parametrize("state", UNDER_WAY)
def test_postgres_looks_at_few_tasks_though_it_has_no_statistics(postgres: Place, state: str) -> None:
    postgres.play(make)
    seen, tasks = {}, 400
    with psycopg.connect(postgres.url, options="-c search_path=projects", autocommit=True) as session:
        for each in board_past("postgres", 8, tasks):
            session.execute(each)
        session.execute(f"UPDATE tasks SET state = '{state}', {UNDER_WAY[state]} WHERE plan_id = 'old_5'".encode())
        session.execute("UPDATE runs SET state = 'RUNNING' WHERE plan_id = 'old_5'")
        for name in OF_A_STEP:
            statement = queries.load_statements("postgres")[name]
            asked = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}".encode()
            with session.transaction(force_rollback=True):
                [(answer,)] = session.execute(asked, values(name, statement, tasks))
            seen[name] = looked_at(answer[0]["Plan"])
    assert {name: rows for name, rows in seen.items() if rows > tasks // 10} == {}
