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
SELECT d.plan_id, m.message_id, d.receiver, d.state, coalesce(d.ack, '')
FROM deliveries AS d JOIN messages AS m ON m.id = d.message
WHERE d.board = :board AND (
    (d.state = 'processed' AND coalesce(d.ack, '') NOT IN ('SUCCEEDED', 'FAILED'))
    OR (d.state = 'claimed' AND coalesce(d.ack, 'CONSUMED') <> 'CONSUMED')
    OR (d.state IN ('stored', 'delivered') AND d.ack IS NOT NULL))
ORDER BY d.id

-- name: fsck_leases
SELECT plan_id, task_id, state, coalesce(owner, '')
FROM tasks
WHERE board = :board AND ((lease IS NOT NULL AND (state <> 'RUNNING' OR owner IS NULL OR epoch < 1))
    OR (lease IS NULL AND token IS NOT NULL))
ORDER BY plan_id, task_id

-- Who runs a task received its command; the task itself may be another's by now.
-- name: fsck_busy_agents
SELECT d.receiver, count(*)
FROM tasks AS t JOIN deliveries AS d ON d.id = t.delivery
WHERE t.board = :board AND t.lease IS NOT NULL AND coalesce(t.phase, '') NOT IN ('asking', 'awaiting')
GROUP BY d.receiver HAVING count(*) > 1 ORDER BY d.receiver

-- name: fsck_payloads
SELECT p.plan_id, p.receiver, p.path, coalesce(d.state, 'gone')
FROM payloads AS p LEFT JOIN deliveries AS d ON d.id = p.delivery
WHERE p.board = :board AND (d.id IS NULL OR d.state NOT IN ('stored', 'delivered', 'claimed'))
ORDER BY p.plan_id, p.receiver, p.path

-- name: artifacts_of
SELECT id, message_id, envelope FROM messages
WHERE board = :board AND plan_id = :plan_id AND type = 'artifact' AND state <> 'superseded' AND id > :after
ORDER BY id LIMIT :limit

-- name: kept_contents
SELECT 'dead letter ' || deadletter_id, original FROM deadletters WHERE board = :board AND original IS NOT NULL
UNION ALL
SELECT 'view ' || path, content FROM views WHERE board = :board AND content IS NOT NULL
UNION ALL
SELECT 'input ' || agent_id || '/' || path, sha256 FROM inputs WHERE board = :board AND sha256 <> ''
UNION ALL
SELECT 'handover ' || agent_id || '/' || name, content FROM handovers WHERE board = :board
