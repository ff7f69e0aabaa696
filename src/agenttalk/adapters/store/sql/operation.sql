-- Schedules, sessions, fsck, garbage collection, restores and traces.

-- Who is logged in to the pages. Expired sessions are deleted at the next login.
-- name: add_session
INSERT INTO sessions (hash, role, name, at, expires_at) VALUES (:hash, :role, :name, :at, :expires_at)

-- name: session_of
SELECT role, name, expires_at FROM sessions WHERE hash = :hash AND expires_at > :at

-- name: end_session
DELETE FROM sessions WHERE hash = :hash RETURNING role, name

-- name: drop_sessions
DELETE FROM sessions WHERE expires_at <= :at

-- Each of these finds what must never be; no rows, no fault.
-- name: fsck_undelivered
SELECT m.plan_id, m.message_id, m.state
FROM messages AS m
WHERE m.board = :board AND (
    (m.state = 'delivered' AND EXISTS (
        SELECT 1 FROM deliveries AS d WHERE d.message = m.id AND d.stored_at IS NULL AND d.state <> 'superseded'))
    OR (m.state = 'stored' AND NOT EXISTS (
        SELECT 1 FROM deliveries AS d WHERE d.message = m.id AND d.stored_at IS NULL AND d.state <> 'superseded'))
    OR (m.state = 'superseded' AND EXISTS (
        SELECT 1 FROM deliveries AS d WHERE d.message = m.id AND d.state <> 'superseded' AND d.state <> 'processed')))
ORDER BY m.id

-- name: fsck_acks
SELECT d.plan_id, m.message_id, d.receiver, d.state, coalesce(d.ack, '') AS ack
FROM deliveries AS d JOIN messages AS m ON m.id = d.message
WHERE d.board = :board AND (
    (d.state = 'processed' AND coalesce(d.ack, '') NOT IN ('SUCCEEDED', 'FAILED'))
    OR (d.state = 'claimed' AND coalesce(d.ack, 'CONSUMED') <> 'CONSUMED')
    OR (d.state IN ('stored', 'delivered') AND d.ack IS NOT NULL))
ORDER BY d.id

-- name: fsck_leases
SELECT plan_id, task_id, state, coalesce(owner, '') AS owner
FROM tasks
WHERE board = :board AND ((lease IS NOT NULL AND (state <> 'RUNNING' OR owner IS NULL OR epoch < 1))
    OR (lease IS NULL AND token IS NOT NULL))
ORDER BY plan_id, task_id

-- Who runs a task received its command; the task itself may be another's by now.
-- name: fsck_busy_agents
SELECT d.receiver, count(*) AS tasks
FROM tasks AS t JOIN deliveries AS d ON d.id = t.delivery
WHERE t.board = :board AND t.lease IS NOT NULL AND coalesce(t.phase, '') NOT IN ('asking', 'awaiting')
GROUP BY d.receiver HAVING count(*) > 1 ORDER BY d.receiver

-- name: fsck_payloads
SELECT p.plan_id, p.receiver, p.path, coalesce(d.state, 'gone') AS delivery_state
FROM payloads AS p LEFT JOIN deliveries AS d ON d.id = p.delivery
WHERE p.board = :board AND (d.id IS NULL OR d.state NOT IN ('stored', 'delivered', 'claimed'))
ORDER BY p.plan_id, p.receiver, p.path

-- name: artifacts_of
SELECT id, message_id, envelope FROM messages
WHERE board = :board AND plan_id = :plan_id AND type = 'artifact' AND state <> 'superseded' AND id > :after
ORDER BY id LIMIT :limit

-- name: kept_contents
SELECT 'dead letter ' || deadletter_id AS keeper, original AS content
FROM deadletters WHERE board = :board AND original IS NOT NULL
UNION ALL
SELECT 'view ' || path, content FROM views WHERE board = :board AND content IS NOT NULL
UNION ALL
SELECT 'input ' || agent_id || '/' || path, sha256 FROM inputs WHERE board = :board AND sha256 <> ''
UNION ALL
SELECT 'handover ' || agent_id || '/' || name, content FROM handovers WHERE board = :board
UNION ALL
SELECT 'tip ' || plan_id || ' ' || commit_id, pack FROM tip_packs WHERE board = :board AND pack <> ''

-- name: gc_runs
SELECT plan_id, state, ended_at FROM runs WHERE board = :board ORDER BY plan_id

-- name: gc_tasks
SELECT plan_id, task_id, updated_at FROM tasks
WHERE board = :board AND lease IS NULL AND state IN ('COMPLETED', 'FAILED', 'SKIPPED')
ORDER BY plan_id, task_id

-- After a restore. A lease gets another name: processes of the root that was backed up may still carry the old one.
-- name: disown_leases
UPDATE tasks SET lease = lease || :suffix, owner = :owner
WHERE board || '' = :board AND lease IS NOT NULL
RETURNING plan_id, task_id

-- A post that waited in the backup may have been posted since, so it counts as begun: the engine searches for it first.
-- name: doubt_outgoing
UPDATE outgoing SET tries = 1 WHERE board = :board AND state = 'waiting' AND tries = 0
RETURNING id

-- Notices that waited may have been sent since, so they are dropped.
-- name: drop_notices
UPDATE effects SET state = 'done'
WHERE board = :board AND kind >= 'notify.' AND kind < 'notify/' AND state <> 'done'
RETURNING id

-- Schedules, in the system's database.
-- name: schedules
SELECT name, definition, paused, since, plan_id, state, why, why_message FROM schedules ORDER BY name

-- name: add_schedule
INSERT INTO schedules (name, definition, since) VALUES (:name, :definition, :since)
ON CONFLICT (name) DO NOTHING
RETURNING name

-- name: remove_schedule
DELETE FROM schedules WHERE name = :name AND definition IS NOT NULL RETURNING name

-- name: pause_schedule
UPDATE schedules SET paused = 1 WHERE name = :name AND paused = 0 RETURNING name

-- What passed meanwhile is not made up for.
-- name: resume_schedule
UPDATE schedules SET paused = 0, since = :since WHERE name = :name AND paused = 1 RETURNING name

-- The second process that claims the same time finds it done.
-- name: claim_schedule
UPDATE schedules SET since = :slot, plan_id = :plan_id, state = 'due', why = '', why_message = NULL
WHERE name = :name AND since = :since AND paused = 0 AND state = 'idle'
RETURNING name

-- name: pass_schedule
UPDATE schedules SET since = :slot, why = :why, why_message = :why_message
WHERE name = :name AND since = :since AND paused = 0 AND state = 'idle'
RETURNING name

-- name: begin_schedule
UPDATE schedules SET plan_id = :plan_id, state = 'due', why = '', why_message = NULL
WHERE name = :name AND state = 'idle'
RETURNING name

-- name: end_schedule
UPDATE schedules SET state = 'idle', why = :why, why_message = :why_message
WHERE name = :name AND plan_id = :plan_id AND state = 'due'
RETURNING name

-- After a restore.
-- name: pause_schedules
UPDATE schedules SET paused = 1 WHERE paused = 0 RETURNING name

-- name: traced
SELECT name, body FROM traced WHERE board = :board ORDER BY name

-- name: put_traced
INSERT INTO traced (board, name, body) VALUES (:board, :name, :body)
ON CONFLICT (board, name) DO UPDATE SET body = excluded.body

-- name: drop_traced
DELETE FROM traced WHERE board = :board AND name = :name

-- The first that asks for a number gives it.
-- name: add_cursor
INSERT INTO cursors (board, name, value) VALUES (:board, :name, :value)
ON CONFLICT (board, name) DO NOTHING
