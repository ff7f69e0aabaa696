"""A past for a store: plans whose tasks are all finished, with everything that finished tasks leave behind.

Rows are written by SQL, so that hundreds of thousands take seconds. Hashes are made up: nobody verifies this chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_SQLITE: Final = {"blob": "zeroblob(40)", "hash": "zeroblob(32)", "given": ""}
_POSTGRES: Final = {
    "blob": "decode(repeat('00', 40), 'hex')",
    "hash": "decode(repeat('00', 32), 'hex')",
    "given": "OVERRIDING SYSTEM VALUE",
}

_BOARD: Final = """
CREATE TEMP TABLE numbers (value INTEGER PRIMARY KEY);

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < 3 * {plans} * {tasks})
INSERT INTO numbers SELECT value FROM upto;

INSERT INTO plans (board, plan_id, origin, sent, delivered)
SELECT '{board}', 'old_' || value, 'foreign', 2 * {tasks}, 2 * {tasks} FROM numbers WHERE value < {plans};

INSERT INTO documents (board, plan_id, dag)
SELECT '{board}', 'old_' || value, {blob} FROM numbers WHERE value < {plans};

INSERT INTO journals (board, plan_id, latest, seq, base, size)
SELECT '{board}', 'old_' || value, 3 * {plans} * {tasks}, 3 * {plans} * {tasks}, 0, 0 FROM numbers WHERE value < {plans};

INSERT INTO tasks (board, plan_id, task_id, agent_id, state, updated_at, epoch, attempt, unmet)
SELECT '{board}', 'old_' || (value / {tasks}), 't' || (value % {tasks}), 'dev', 'COMPLETED', '2026', 1, 1, 0
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO runs (board, plan_id, state, settings, completed, began_at, ended_at)
SELECT '{board}', 'old_' || value, 'ENDED', {blob}, {tasks}, '2026', '2026' FROM numbers WHERE value < {plans};

INSERT INTO nodes (board, plan_id, task_id, node)
SELECT '{board}', 'old_' || (value / {tasks}), 't' || (value % {tasks}), {blob} FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO edges (board, plan_id, task_id, dependant)
SELECT '{board}', 'old_' || (value / {tasks}), 't' || (value % {tasks}), 't' || (value % {tasks} + 1)
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO spendings (board, name, tokens, cost_usd, seconds, tool_calls)
SELECT '{board}', 'task:old_' || (value / {tasks}) || '/t' || (value % {tasks}), 1, 1, 1, 1
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO objections (board, plan_id, task_id, checkpoint, digest, severity, reasons, trace_id, at)
SELECT '{board}', 'old_' || (value / {tasks}), 't' || (value % {tasks}), 'pre-act', 'sha256:x', 'soft-deny', {blob}, '', '2026'
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO elsewhere (board, plan_id, task_id, epoch, kind, name, path, sha256, size, body, at)
SELECT '{board}', 'old_' || (value / {tasks}), 't' || (value % {tasks}), 1, 'result', '', '', '', 0, {blob}, '2026'
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO cursors (board, name, value) SELECT 'other_' || value, 'acks', 1 FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO messages (id, board, plan_id, message_id, sha256, type, task_id, command_id, seq, output_name, producer,
    name, envelope, dag_sha256, accepted_at, state) {given}
SELECT value + 1, '{board}', 'old_' || (value / 2 / {tasks}), 'msg_' || value, 'sha256:' || value,
    CASE value % 2 WHEN 0 THEN 'command' ELSE 'artifact' END, 't' || (value / 2 % {tasks}),
    CASE value % 2 WHEN 0 THEN 'cmd_t' || (value / 2 % {tasks}) || '_001' END, 1,
    CASE value % 2 WHEN 1 THEN 'report.md' END, 'lead', 'cmd_' || value || '.msg.json', {blob},
    CASE value % 2 WHEN 0 THEN 'sha256:dag' ELSE '' END, '2026', 'delivered'
FROM numbers WHERE value < 2 * {plans} * {tasks};

INSERT INTO deliveries (id, board, plan_id, message, receiver, delivery_id, state, shown, stored_at, ack) {given}
SELECT value + 1, '{board}', 'old_' || (value / 2 / {tasks}), value + 1, 'dev', 'dlv_' || value, 'processed',
    'processed', '2026', 'SUCCEEDED'
FROM numbers WHERE value < 2 * {plans} * {tasks};

INSERT INTO controls (board, plan_id, kind, id, agent_id, sha256, body, at)
SELECT '{board}', 'old_' || (value / {tasks}), 'ack', 'msg_' || value || '/dev', 'dev', 'sha256:' || value, {blob}, '2026'
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO views (board, path, rank, body, shown)
SELECT '{board}', 'plans/old_' || (value / {tasks}) || '/commands/cmd_' || value || '.msg.json', 0, {blob}, 1
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO inputs (board, plan_id, agent_id, task_id, output_name, path, sha256, seq, message_id, received_at)
SELECT '{board}', 'old_' || (value / {tasks}), 'dev', 't' || (value % {tasks}), 'report.md', 'report.md', 'sha256:x', 1,
    'msg_' || value, '2026'
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO effects (id, board, kind, key, body, state) {given}
SELECT value + 1, '{board}', 'post', 'key_' || value, {blob}, 'done' FROM numbers WHERE value < {plans} * {tasks} / 2;

INSERT INTO honesty (board, agent_id, model, turns, claims, proven, unproven, refuted, overturned, stale, rounds, judged,
    misled, overruled, tokens, cost_usd, seconds)
SELECT 'other_' || value, 'dev', '', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1 FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO traced (board, name, body)
SELECT 'other_' || value, 'plan/old', {blob} FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO releases (board, plan_id, number, release_id, state, at)
SELECT '{board}', 'old_' || value, 1, 'rel_' || value, 'rejected', '2026' FROM numbers WHERE value < {plans};

INSERT INTO judgements (board, plan_id, sha256, validator, accepted, task_id, output_name, at)
SELECT '{board}', 'old_' || (value / {tasks}), 'sha256:' || value, 'dev', 1, 't' || (value % {tasks}), 'report.md', '2026'
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO reviews (board, plan_id, revision, dag_sha256, state, review_plan, began_at)
SELECT '{board}', 'old_' || value, 1, 'sha256:dag', 'approved', 'review_' || value, '2026' FROM numbers WHERE value < {plans};

INSERT INTO requests (board, request_id, plan_id, task_id, agent_id, body, sha256, at, state, response)
SELECT '{board}', 'req_' || value, 'old_0', 't0', 'dev', {blob}, 'sha256:x', '2026', 'answered', {blob}
FROM numbers WHERE value < {plans} * {tasks} / 2;

INSERT INTO disputes (board, request_id, plan_id, task_id, check_id, seq, agent_id, reason, state, at)
SELECT '{board}', 'req_' || value, 'old_' || (value / {tasks}), 't' || (value % {tasks}), 'works', 1, 'dev', '', 'upheld', '2026'
FROM numbers WHERE value < {plans} * {tasks} / 2;

INSERT INTO refusals (board, refusal_id, plan_id, task_id, agent_id, body, at, ended_at)
SELECT '{board}', 'refusal_' || value, 'old_0', 't0', 'dev', {blob}, '2026', '2026'
FROM numbers WHERE value < {plans} * {tasks} / 2;

INSERT INTO deadletters (id, board, plan_id, deadletter_id, key, code, reason, agent_id, box, name, retriable, state,
    at) {given}
SELECT value + 1, '{board}', 'old_0', 'dl_' || value, 'key_' || value, 'TASK_NOT_IN_DAG', '', 'dev', 'outbox', 'x', 1,
    'replayed', '2026'
FROM numbers WHERE value < {plans} * {tasks} / 2;

INSERT INTO comments (id, board, plan_id, task_id, kind, author, type, body, at) {given}
SELECT value + 1, '{board}', 'old_' || (value / {tasks}), 't' || (value % {tasks}), 'comment', 'dev', 'note', '', '2026'
FROM numbers WHERE value < {plans} * {tasks} / 2;

INSERT INTO tasks (board, plan_id, task_id, agent_id, state, updated_at, epoch, attempt, unmet)
SELECT '{board}', '{board}', 'tc-' || value, 'dev', 'COMPLETED', '2026', 1, 1, 0
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO toolchain_tasks (id, board, task_id, key, action_type, title, description, assignee, assigned_by, must_haves,
    source, object, head_sha, basis, hop, reviewer, event_at, made_at, closed_at) {given}
SELECT value + 1, '{board}', 'tc-' || value, 'key-' || value, 'ci_failure', '', '', 'dev', 'system', {blob}, 'work',
    'object-' || (value / 2), '', 'requested', 0, '', '2026', '2026', '2026'
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO sightings (board, object, head, body)
SELECT '{board}', 'object-' || value, 'head-' || value, {blob} FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO held_failures (board, head, sha256, event, at)
SELECT '{board}', 'head-' || value, 'sha256:' || value, {blob}, '2026' FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO toolchain_warnings (id, board, sha256, code, message, hint, first_at, last_at) {given}
SELECT value + 1, '{board}', 'sha256:' || value, '', '', '', '2026', '2026' FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO outgoing (id, board, key, kind, source, object, repository, number, title, body, assignee, task_id, since,
    state, not_before, made_at, ended_at) {given}
SELECT value + 1, '{board}', 'out-' || value, 'comment', 'work', 'object-' || (value / 2), 'acme/widgets', 1, '', '', 'dev',
    'tc-' || value, '', CASE value % 2 WHEN 0 THEN 'sent' ELSE 'dropped' END, '2026', '2026', '2025'
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO breakers (board, source, failures, opened_at, not_before, outage)
SELECT 'other_' || value, 'work', 0, NULL, NULL, '' FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO tasks (board, plan_id, task_id, agent_id, state, updated_at, epoch, attempt, unmet)
SELECT '{board}', '{board}', 'ml-' || value, 'dev', 'COMPLETED', '2026', 1, 1, 1
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO mails (id, board, mail_id, thread, sender, kind, subject, hop, via, sha256, size, at, body) {given}
SELECT value + 1, '{board}', 'ml-' || value, 'ml-' || (value / 2 * 2), 'sender-' || (value % 2), 'inform', '', 0, 'api',
    'sha256:x', 1, '2026', {blob}
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO mail_items (id, board, mail, task_id, addressee, way, shown, read_at, read_how, ready, closed_at) {given}
SELECT value + 1, '{board}', value + 1, 'ml-' || value, 'reader-' || (value % 2),
    CASE value % 2 WHEN 0 THEN 'command' ELSE 'hold' END, 1, '2026', 'get', 1, '2026'
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO mail_parties (board, thread, party, latest, letters)
SELECT '{board}', 'ml-' || value, 'party-' || (value % 2), value + 1, 1
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO mail_words (board, word, mail)
SELECT '{board}', 'word-' || (value % 2), value + 1 FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO blobs (hash, content) SELECT 'sha256:' || value, {blob} FROM numbers WHERE value < {plans} * {tasks} / 2;

INSERT INTO evidence (board, plan_id, task_id, check_id, command_id, tree, result, key, at)
SELECT '{board}', 'old_' || (value / {tasks}), 't' || (value % {tasks}), 'tests', 'cmd', 'tree', {blob}, 'key_' || value, '2026'
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO joined_checks (board, plan_id, task_id, owner, check_id, body, at)
SELECT '{board}', 'old_' || (value / {tasks}), 't' || (value % {tasks}), 't0', 'tests', {blob}, '2026'
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO tips (board, plan_id, commit_id)
SELECT '{board}', 'old_' || value, 'commit' FROM numbers WHERE value < {plans};

INSERT INTO tip_packs (board, plan_id, commit_id, onto, pack, attempt_key, made)
SELECT '{board}', 'old_' || (value / {tasks}), 'commit_' || value, '', '', '', ''
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO branches (board, plan_id, head)
SELECT '{board}', 'old_' || value, 'head' FROM numbers WHERE value < {plans};

INSERT INTO check_results (board, key, result, made_by, at)
SELECT '{board}', 'key_' || value, {blob}, 'old_0/t0', '2026' FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO baselines (board, plan_id, task_id, onto, results, at)
SELECT '{board}', 'old_' || (value / {tasks}), 't' || (value % {tasks}), '', {blob}, '2026'
FROM numbers WHERE value < {plans} * {tasks};

INSERT INTO ledger (seq, link, at, board, kind, subject, body, prev, hash) {given}
SELECT value + 1, value + 1, '2026', '{board}',
    CASE value % 3 WHEN 0 THEN 'message.accepted' WHEN 1 THEN 'delivery' ELSE 'control.ack' END,
    CASE value % 3 WHEN 0 THEN 'msg_' || (value / 3) WHEN 1 THEN 'deliveries/old_' || (value / 3 / {tasks})
        ELSE 'msg_' || (value / 3) || '/dev' END,
    {hash}, {hash}, {hash}
FROM numbers WHERE value < 3 * {plans} * {tasks};

DROP TABLE numbers
"""
_SYSTEM: Final = """
WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO plan_boards (plan_id, board) SELECT 'old_' || value, '{board}' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO tokens (hash, role, label, at, revoked_at) SELECT 'sha256:' || value, 'worker', '', '2026', '2026' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO schedules (name, since) SELECT 'schedule-' || value, '2026' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO day_limits (name, cost_usd, by, at) SELECT 'limit-' || value, 1, 'ada', '2026' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO agent_tokens (hash, agent_id, at, revoked_at) SELECT 'sha256:' || value, 'far', '2026', '2026' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO api_keys (id, key, asked, at, status, answer) {given}
SELECT value + 1, 'key-' || value, 'sha256:x', '2026', 200, {blob} FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO webhooks (id, source, kind, delivery, event, headers, body, sha256, received_at, state) {given}
SELECT value + 1, 'work', 'forge', 'delivery-' || value, 'push', {blob}, {blob}, 'sha256:' || value, '2026', 'done' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO workers (id, name, pool, labels, public_key, facts, state, at)
SELECT 'w' || value, 'one', 'far', '[]', 'key', {blob}, 'removed', '2026' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO machine_agents (agent_id, machine, start, at) SELECT 'agent-' || value, 'm', 's', '2026' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO verifications (lease, worker, board, plan_id, task_id, check_id, key, at)
SELECT 'lease-' || value, 'w' || value, 'default', 'p', 't', 'c', '', '2026' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO worker_pools (pool, paused) SELECT 'pool-' || value, 0 FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO worker_invitations (hash, pool, labels, at, expires_at)
SELECT 'sha256:' || value, 'far', '[]', '2026', '2027' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {plans})
INSERT INTO sessions (hash, role, name, at, expires_at) SELECT 'sha256:' || value, 'viewer', 'ada', '2026', '2027' FROM upto
"""
_ELSEWHERE: Final = """
WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {tasks})
INSERT INTO leavings (board, plan_id, agent_id, name, inode, mtime_ns, target)
SELECT '{board}', 'other', 'dev', 'file_' || value, 1, 1, '.sent' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {tasks})
INSERT INTO handovers (board, plan_id, agent_id, name, content)
SELECT '{board}', 'other', 'dev', 'file_' || value, 'sha256:x' FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {tasks})
INSERT INTO performances (board, plan_id, task_id, command_id, attempt, body)
SELECT '{board}', 'other', 't' || value, 'cmd', 1, {blob} FROM upto;

WITH RECURSIVE upto (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM upto WHERE value < {tasks})
INSERT INTO payloads (board, plan_id, receiver, path, delivery)
SELECT '{board}', 'other', 'dev', 'file_' || value, value FROM upto
"""


def board_past(dialect: str, plans: int, tasks: int, board: str = "default") -> Iterator[str]:
    """Statements that give a board its finished plans, each with so many tasks."""
    return _told(_BOARD, dialect, plans, tasks, board)


def system_past(dialect: str, plans: int, board: str = "default") -> Iterator[str]:
    """The same for what the system knows of plans, and tokens that hold no more."""
    return _told(_SYSTEM, dialect, plans, 1, board)


def busy_elsewhere(dialect: str, rows: int) -> Iterator[str]:
    """What another board, which shares the tables, has under way."""
    return _told(_ELSEWHERE, dialect, 1, rows, "elsewhere")


def _told(text: str, dialect: str, plans: int, tasks: int, board: str) -> Iterator[str]:
    words = _SQLITE if dialect == "sqlite" else _POSTGRES
    for statement in text.split(";\n"):
        yield statement.format(plans=plans, tasks=tasks, board=board, **words)
