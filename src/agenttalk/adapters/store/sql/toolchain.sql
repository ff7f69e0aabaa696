-- Tasks that forge events call for.
-- name: add_toolchain_task
INSERT INTO toolchain_tasks (board, task_id, key, action_type, title, description, assignee, assigned_by, must_haves,
    source, object, head_sha, basis, hop, reviewer, verdict, event_at, made_at, since)
VALUES (:board, :task_id, :key, :action_type, :title, :description, :assignee, :assigned_by, :must_haves,
    :source, :object, :head_sha, :basis, :hop, :reviewer, :verdict, :event_at, :at, :at)
ON CONFLICT (board, key) DO NOTHING
RETURNING id

-- name: toolchain_task
SELECT c.task_id, c.key, c.action_type, c.title, c.description, c.assignee, c.assigned_by, c.must_haves, c.source,
    c.object, c.head_sha, c.hop, c.event_at, c.made_at, c.closed_at, c.closed_why, t.state, t.phase, t.cause, t.reason,
    t.reexecutions
FROM toolchain_tasks AS c CROSS JOIN tasks AS t
WHERE c.board = :board AND c.task_id = :task_id AND t.board = c.board AND t.plan_id = c.board AND t.task_id = c.task_id

-- What is known of the tasks of a thing.
-- name: toolchain_known
SELECT c.key, c.action_type, c.assignee, c.object, c.head_sha, c.basis, c.hop, c.event_at, c.reviewer, c.verdict,
    c.task_id, t.state, t.epoch, c.closed_at
FROM toolchain_tasks AS c CROSS JOIN tasks AS t
WHERE c.board = :board AND c.object = :object
    AND t.board = c.board AND t.plan_id = c.board AND t.task_id = c.task_id
ORDER BY c.id

-- name: toolchain_by_key
SELECT c.task_id, t.state, t.epoch, t.delivery, c.closed_why
FROM toolchain_tasks AS c CROSS JOIN tasks AS t
WHERE c.board = :board AND c.key = :key AND t.board = c.board AND t.plan_id = c.board AND t.task_id = c.task_id

-- name: close_toolchain_task
UPDATE toolchain_tasks SET closed_at = :at, closed_why = :why WHERE board = :board AND task_id = :task_id

-- name: toolchain_page
SELECT c.id, c.task_id, c.title, c.description, c.assignee, c.assigned_by, c.must_haves, c.source, c.object, c.made_at,
    c.closed_at, c.closed_why, t.state, t.phase, t.cause, t.reason
FROM toolchain_tasks AS c CROSS JOIN tasks AS t
WHERE c.board = :board AND c.id > :after
    AND t.board = c.board AND t.plan_id = c.board AND t.task_id = c.task_id
ORDER BY c.id LIMIT :limit

-- The same, the newest first.
-- name: toolchain_newest
SELECT c.id, c.task_id, c.title, c.description, c.assignee, c.assigned_by, c.must_haves, c.source, c.object, c.made_at,
    c.closed_at, c.closed_why, t.state, t.phase, t.cause, t.reason
FROM toolchain_tasks AS c CROSS JOIN tasks AS t
WHERE c.board = :board AND c.id < :before
    AND t.board = c.board AND t.plan_id = c.board AND t.task_id = c.task_id
ORDER BY c.id DESC LIMIT :limit

-- name: toolchain_page_open
SELECT c.id, c.task_id, c.title, c.description, c.assignee, c.assigned_by, c.must_haves, c.source, c.object, c.made_at,
    c.closed_at, c.closed_why, t.state, t.phase, t.cause, t.reason
FROM toolchain_tasks AS c CROSS JOIN tasks AS t
WHERE c.board = :board AND c.closed_at IS NULL AND c.id > :after
    AND t.board = c.board AND t.plan_id = c.board AND t.task_id = c.task_id
ORDER BY c.id LIMIT :limit

-- name: toolchain_page_of_agent
SELECT c.id, c.task_id, c.title, c.description, c.assignee, c.assigned_by, c.must_haves, c.source, c.object, c.made_at,
    c.closed_at, c.closed_why, t.state, t.phase, t.cause, t.reason
FROM toolchain_tasks AS c CROSS JOIN tasks AS t
WHERE c.board = :board AND c.assignee = :agent_id AND c.id > :after
    AND t.board = c.board AND t.plan_id = c.board AND t.task_id = c.task_id
ORDER BY c.id LIMIT :limit

-- What was seen.
-- name: sighting
SELECT object, body FROM sightings WHERE board = :board AND object = :object

-- The board is compared in a way that hides it from SQLite's planner, which would take the primary key for it.
-- name: sightings_with_head
SELECT object, body FROM sightings WHERE head = :head AND board || '' = :board

-- name: put_sighting
INSERT INTO sightings (board, object, head, body) VALUES (:board, :object, :head, :body)
ON CONFLICT (board, object) DO UPDATE SET head = excluded.head, body = excluded.body

-- name: held_failures_of
SELECT event FROM held_failures WHERE board = :board AND head = :head ORDER BY at, sha256

-- name: hold_failure
INSERT INTO held_failures (board, head, sha256, event, at) VALUES (:board, :head, :sha256, :event, :at)
ON CONFLICT (board, head, sha256) DO NOTHING

-- name: drop_old_failures
DELETE FROM held_failures WHERE board = :board AND at < :before

-- Warnings.
-- name: warn_operator
INSERT INTO toolchain_warnings (board, sha256, code, message, hint, first_at, last_at)
VALUES (:board, :sha256, :code, :message, :hint, :at, :at)
ON CONFLICT (board, sha256) DO UPDATE SET times = toolchain_warnings.times + 1, last_at = excluded.last_at
RETURNING times

-- name: toolchain_warnings
SELECT id, code, message, hint, times, first_at, last_at FROM toolchain_warnings
WHERE board = :board AND id > :after ORDER BY id LIMIT :limit

-- name: reopen_toolchain_task
UPDATE toolchain_tasks SET closed_at = NULL, closed_why = NULL, since = :at, reminders = 0
WHERE board = :board AND task_id = :task_id

-- Tasks that wait for a report, those first that wait longest.
-- name: overdue_tasks
SELECT c.task_id, c.since, t.state
FROM toolchain_tasks AS c CROSS JOIN tasks AS t
WHERE c.board = :board AND c.closed_at IS NULL AND c.reminders = :reminders AND c.since <= :before
    AND t.board = c.board AND t.plan_id = c.board AND t.task_id = c.task_id
ORDER BY c.since LIMIT :limit

-- name: next_overdue
SELECT since FROM toolchain_tasks WHERE board = :board AND closed_at IS NULL AND reminders = :reminders
ORDER BY since LIMIT 1

-- name: note_reminder
UPDATE toolchain_tasks SET reminders = :reminders, since = :since WHERE board = :board AND task_id = :task_id
