-- What the pages show, and what those who follow the ledger are told.
-- Facts behind a number, in their order. Very long bodies are left out: nobody is told of them.
-- name: facts_after
SELECT seq, at, kind, subject, CASE WHEN length(body) < 20000 THEN body END
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
SELECT m.task_id, m.seq, d.consumed_at, d.finished_at, d.ack
FROM messages AS m JOIN deliveries AS d ON d.message = m.id
WHERE m.board = :board AND m.plan_id = :plan_id AND m.type = 'command' AND d.consumed_at IS NOT NULL
ORDER BY m.task_id, m.seq, d.id

-- Tasks of a plan that cannot go on by themselves.
-- name: troubled_tasks
SELECT task_id, agent_id, state, cause, reason, request_id, updated_at
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
