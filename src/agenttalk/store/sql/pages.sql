-- What the pages show, and what those who follow the ledger are told.
-- Facts behind a number, in their order. Long bodies are left out: nobody is told of them.
-- name: facts_after
SELECT seq, at, kind, subject, CASE WHEN length(body) < 2000 THEN body END
FROM ledger
WHERE seq > :after AND board || '' = :board
ORDER BY seq
LIMIT :limit

-- Facts before a number, the newest first.
-- name: facts_before
SELECT seq, link, at, kind, subject, body, hash
FROM ledger
WHERE seq < :before AND seq > :after AND board || '' = :board
ORDER BY seq DESC
LIMIT :limit

-- The last turns that ended.
-- name: recent_turns
SELECT seq, at, body
FROM ledger
WHERE seq > :after AND board || '' = :board AND kind = 'turn.ended'
ORDER BY seq DESC
LIMIT :limit

-- Every plan that the engine runs or has run, the newest first.
-- name: runs_page
SELECT r.plan_id, r.state, r.open, r.completed, r.failed, r.skipped, r.began_at, r.ended_at
FROM runs AS r
WHERE r.board = :board
ORDER BY r.began_at DESC, r.plan_id
LIMIT :limit

-- When each order of a plan was taken, and when it ended.
-- name: orders_of_plan
SELECT m.task_id, m.seq, d.consumed_at, d.finished_at, d.ack
FROM messages AS m JOIN deliveries AS d ON d.message = m.id
WHERE m.board = :board AND m.plan_id = :plan_id AND m.type = 'command' AND d.consumed_at IS NOT NULL
ORDER BY m.task_id, m.seq, d.id

-- The orders of a task, the newest first, with what was told of each.
-- name: orders_of_task
SELECT m.message_id, m.command_id, m.seq, m.envelope, d.receiver, d.state, d.consumed_at, d.finished_at, d.prompt_sha256
FROM messages AS m LEFT JOIN deliveries AS d ON d.message = m.id
WHERE m.board = :board AND m.plan_id = :plan_id AND m.task_id = :task_id AND m.type = 'command'
ORDER BY m.seq DESC, m.id DESC, d.id
LIMIT :limit

-- Tasks that somebody works on now.
-- name: tasks_at_work
SELECT plan_id, task_id, agent_id, state, phase, attempt, leased_at, cause
FROM tasks WHERE board || '' = :board AND lease IS NOT NULL
ORDER BY leased_at, plan_id, task_id

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

-- Tasks in agents' queues.
-- name: queued_tasks
SELECT agent_id, count(*) FROM tasks WHERE board = :board AND queued IS NOT NULL GROUP BY agent_id ORDER BY agent_id
