-- What people and programs look at, page by page, and what is counted from the ledger.

-- Facts behind a number, in their order. Very long bodies are left out.
-- name: facts_after
SELECT seq, at, kind, subject, CASE WHEN length(body) < 20000 THEN body END AS body
FROM ledger
WHERE seq > :after AND board || '' = :board
ORDER BY seq
LIMIT :limit

-- The last turns that ended.
-- name: recent_turns
SELECT seq, at, body
FROM ledger
WHERE seq > :after AND board || '' = :board AND kind = 'turn.ended'
ORDER BY seq DESC
LIMIT :limit

-- When each order of a plan was taken, and when it ended.
-- name: orders_of_plan
SELECT m.task_id, m.seq, d.consumed_at, d.finished_at, d.ack, d.times
FROM messages AS m JOIN deliveries AS d ON d.message = m.id
WHERE m.board = :board AND m.plan_id = :plan_id AND m.type = 'command' AND d.consumed_at IS NOT NULL
ORDER BY m.task_id, m.seq, d.id

-- Tasks of a plan that cannot go on by themselves.
-- name: troubled_tasks
SELECT task_id, agent_id, state, cause, reason, request_id, updated_at, reason_message
FROM tasks
WHERE board = :board AND plan_id = :plan_id AND task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED')
        AND o.state IN ('FAILED', 'BLOCKED_WAITING_HUMAN', 'BLOCKED_WAITING_REVIEW', 'BLOCKED_WAITING_INPUT')
    LIMIT :limit)
ORDER BY task_id

-- How far a plan has come, without looking at its tasks.
-- name: run_counts
SELECT state, open, completed, failed, skipped FROM runs WHERE board = :board AND plan_id = :plan_id

-- Facts that say how far agents could be believed, in the order of the chain.
-- name: facts_to_count
SELECT link, kind, subject, body
FROM ledger
WHERE link > :after AND link <= :upto AND board || '' = :board AND kind IN ('turn.ended', 'rework.ordered', 'rework.exhausted',
    'rework.accepted', 'evidence.stale', 'inputs.judged', 'check.disputed', 'dispute.answered')
ORDER BY link

-- name: add_honesty
INSERT INTO honesty (board, agent_id, model, turns, claims, proven, unproven, refuted, overturned, stale, rounds, judged, misled, overruled, tokens, cost_usd, seconds, disputed, upheld, dismissed, unjudged, unisolated, gamed)
VALUES (:board, :agent_id, :model, :turns, :claims, :proven, :unproven, :refuted, :overturned, :stale, :rounds, :judged, :misled, :overruled, :tokens, :cost_usd, :seconds, :disputed, :upheld, :dismissed, :unjudged, :unisolated, :gamed)
ON CONFLICT (board, agent_id, model) DO UPDATE
SET turns = honesty.turns + excluded.turns, claims = honesty.claims + excluded.claims, proven = honesty.proven + excluded.proven,
    unproven = honesty.unproven + excluded.unproven, refuted = honesty.refuted + excluded.refuted, overturned = honesty.overturned + excluded.overturned,
    stale = honesty.stale + excluded.stale, rounds = honesty.rounds + excluded.rounds, judged = honesty.judged + excluded.judged,
    misled = honesty.misled + excluded.misled, overruled = honesty.overruled + excluded.overruled, tokens = honesty.tokens + excluded.tokens,
    cost_usd = honesty.cost_usd + excluded.cost_usd, seconds = honesty.seconds + excluded.seconds,
    disputed = honesty.disputed + excluded.disputed, upheld = honesty.upheld + excluded.upheld, dismissed = honesty.dismissed + excluded.dismissed,
    unjudged = honesty.unjudged + excluded.unjudged, unisolated = honesty.unisolated + excluded.unisolated,
    gamed = honesty.gamed + excluded.gamed

-- name: honesty
SELECT agent_id, model, turns, claims, proven, unproven, refuted, overturned, stale, rounds, judged, misled, overruled, tokens, cost_usd, seconds, disputed, upheld, dismissed, unjudged, unisolated, gamed
FROM honesty WHERE board = :board ORDER BY agent_id, model

-- Who took a command.
-- name: taken_by
SELECT d.receiver FROM messages AS m JOIN deliveries AS d ON d.message = m.id
WHERE m.board = :board AND m.plan_id = :plan_id AND m.message_id = :message_id

-- Plans, those that began last first.
-- name: plan_page
SELECT plan_id, state, open, completed, failed, skipped, began_at, ended_at
FROM runs
WHERE board = :board AND (began_at, plan_id) < (:began_at, :plan_id)
ORDER BY began_at DESC, plan_id DESC
LIMIT :limit

-- How many tasks of a plan are done by their agents' word alone.
-- name: unproven_in
SELECT count(*) AS tasks FROM tasks WHERE board = :board AND plan_id = :plan_id AND unproven = 1

-- How many tasks of a plan have agents or checks that ran without a sandbox.
-- name: unisolated_in
SELECT count(*) AS tasks FROM tasks WHERE board = :board AND plan_id = :plan_id AND unisolated = 1

-- The board is compared in a way that hides it from SQLite's planner; see `unshown_views`.
-- name: open_plan_page
SELECT plan_id, state, open, completed, failed, skipped, began_at, ended_at
FROM runs
WHERE board || '' = :board AND state <> 'ENDED' AND (began_at, plan_id) < (:began_at, :plan_id)
ORDER BY began_at DESC, plan_id DESC
LIMIT :limit

-- name: foreign_plan_page
SELECT plan_id, halted FROM plans
WHERE board = :board AND origin = 'foreign' AND plan_id < :plan_id
ORDER BY plan_id DESC
LIMIT :limit

-- name: plan_edges
SELECT task_id, dependant FROM edges WHERE board = :board AND plan_id = :plan_id ORDER BY task_id, dependant

-- Commands of a plan, and how far each of their receivers came with them.
-- name: plan_acks
SELECT d.id, m.message_id, m.task_id, m.command_id, m.seq, d.receiver, d.state, d.ack, d.stored_at, d.injected_at,
    d.acted_at, d.consumed_at, d.finished_at, d.details, d.prompt_sha256
FROM messages AS m JOIN deliveries AS d ON d.message = m.id
WHERE m.board = :board AND m.plan_id = :plan_id AND m.type = 'command' AND d.id > :after
ORDER BY d.id
LIMIT :limit

-- name: plan_artifacts
SELECT id, message_id, task_id, output_name, seq, producer, state, accepted_at, envelope
FROM messages
WHERE board = :board AND plan_id = :plan_id AND type = 'artifact' AND output_name IS NOT NULL AND id > :after
ORDER BY id
LIMIT :limit

-- name: task_orders
SELECT m.message_id, m.command_id, m.seq, m.envelope, d.receiver, d.state, d.ack, d.consumed_at, d.finished_at,
    d.prompt_sha256
FROM messages AS m LEFT JOIN deliveries AS d ON d.message = m.id
WHERE m.board = :board AND m.plan_id = :plan_id AND m.task_id = :task_id AND m.type = 'command'
ORDER BY m.seq DESC, m.id DESC, d.id
LIMIT :limit

-- name: superseded_orders
SELECT m.command_id, d.details, d.finished_at
FROM messages AS m JOIN deliveries AS d ON d.message = m.id
WHERE m.board = :board AND m.plan_id = :plan_id AND m.task_id = :task_id AND m.type = 'command' AND m.state = 'superseded'
ORDER BY m.seq DESC, m.id DESC, d.id
LIMIT :limit

-- Every fact about a plan, its tasks and their turns, in order. What they are about is looked up by name.
-- name: plan_facts
SELECT l.seq, l.link, l.at, l.kind, l.subject, l.body, l.hash
FROM ledger AS l
WHERE l.seq IN (
    SELECT f.seq FROM (
        SELECT a.seq FROM ledger AS a WHERE a.board = :board AND a.subject = :plan_id
        UNION ALL
        SELECT a.seq FROM ledger AS a WHERE a.board = :board AND a.subject = 'deliveries/' || :plan_id
        UNION ALL
        SELECT a.seq FROM tasks AS t CROSS JOIN ledger AS a
        WHERE t.board = :board AND t.plan_id = :plan_id AND a.board = :board AND a.subject = t.plan_id || '/' || t.task_id
        UNION ALL
        SELECT a.seq FROM tasks AS t CROSS JOIN ledger AS a
        WHERE t.board = :board AND t.plan_id = :plan_id AND a.board = :board
            AND a.subject = 'rework/' || t.plan_id || '/' || t.task_id
        UNION ALL
        SELECT a.seq FROM messages AS m CROSS JOIN ledger AS a
        WHERE m.board = :board AND m.plan_id = :plan_id AND m.type = 'command' AND a.board = :board
            AND a.subject = 'turns/' || m.plan_id || '/' || m.message_id
    ) AS f
    WHERE f.seq > :after ORDER BY f.seq LIMIT :limit)
ORDER BY l.seq

-- Facts of a board between two numbers, the newest first.
-- name: ledger_page
SELECT seq, link, at, kind, subject, body, hash
FROM ledger
WHERE seq < :before AND seq >= :after AND board || '' = :board
ORDER BY seq DESC
LIMIT :limit

-- name: ledger_of
SELECT seq, link, at, kind, subject, body, hash
FROM ledger
WHERE board = :board AND subject = :subject AND seq < :before
ORDER BY seq DESC
LIMIT :limit

-- name: at_work
SELECT plan_id, task_id, agent_id, state, phase, attempt, leased_at
FROM tasks WHERE board || '' = :board AND lease IS NOT NULL
ORDER BY leased_at, plan_id, task_id

-- name: queue_lengths
SELECT agent_id, count(*) AS tasks FROM tasks WHERE board = :board AND queued IS NOT NULL GROUP BY agent_id ORDER BY agent_id

-- How many tasks of plans that have not ended are in which state; of those that ended, as many as were counted.
-- name: counted_states
SELECT t.state, count(*) AS tasks
FROM runs AS r CROSS JOIN tasks AS t
WHERE r.board || '' = :board AND r.state <> 'ENDED' AND t.board = r.board AND t.plan_id = r.plan_id
    AND t.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED')
    AND t.state IN ('READY', 'RUNNING', 'BLOCKED_WAITING_INPUT', 'BLOCKED_WAITING_REVIEW', 'BLOCKED_WAITING_HUMAN')
GROUP BY t.state ORDER BY t.state

-- name: counted_runs
SELECT state, count(*) AS runs, CAST(coalesce(sum(open), 0) AS BIGINT) AS open,
    CAST(coalesce(sum(completed), 0) AS BIGINT) AS completed, CAST(coalesce(sum(failed), 0) AS BIGINT) AS failed,
    CAST(coalesce(sum(skipped), 0) AS BIGINT) AS skipped
FROM runs WHERE board || '' = :board AND state <> 'ENDED' GROUP BY state ORDER BY state

-- name: counted_outgoing
SELECT
    (SELECT count(*) FROM outgoing WHERE board = :board AND state = 'waiting') AS waiting,
    (SELECT count(*) FROM outgoing WHERE board = :board AND state = 'held') AS held

-- Contents piece by piece.
-- name: blob_size
SELECT length(content) AS size FROM blobs WHERE hash = :hash

-- name: blob_piece
SELECT substr(content, :first, :many) AS piece FROM blobs WHERE hash = :hash

-- What may have been called done, the newest first: turns, work by hand, and what a person accepted.
-- name: dones_before
SELECT seq, at, kind, subject, body
FROM ledger
WHERE seq < :before AND seq >= :after AND board || '' = :board AND kind IN ('turn.ended', 'task.by_hand', 'rework.accepted')
ORDER BY seq DESC
LIMIT :limit

-- name: order_named
SELECT envelope FROM messages WHERE board = :board AND plan_id = :plan_id AND message_id = :message_id AND type = 'command'
