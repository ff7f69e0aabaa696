-- Tasks that forge events call for, deliveries of webhooks, and what goes out to forges.

-- What forges told us, the newest first; and having something decided about anew.
-- name: webhook_page
SELECT id, source, kind, delivery, event, sha256, received_at, state, outcome, outcome_message FROM webhooks
WHERE id < :before ORDER BY id DESC LIMIT :limit

-- name: replay_webhook
UPDATE webhooks SET state = 'new', outcome = '', outcome_message = NULL WHERE id = :id AND state <> 'new' RETURNING id

-- name: counted_webhooks
SELECT (SELECT count(*) FROM webhooks WHERE state = 'new') AS waiting,
    (SELECT coalesce(max(id), 0) FROM webhooks) AS newest

-- Deliveries of forges and pipelines, in the system's database. The same delivery again is the first one.
-- name: add_webhook
INSERT INTO webhooks (source, kind, delivery, event, headers, body, content, sha256, received_at)
VALUES (:source, :kind, :delivery, :event, :headers, :body, :content, :sha256, :at)
ON CONFLICT (source, delivery, sha256) WHERE delivery <> '' DO NOTHING
RETURNING id

-- name: webhook_again
SELECT id FROM webhooks WHERE source = :source AND delivery = :delivery AND delivery <> '' AND sha256 = :sha256

-- name: webhook_before
SELECT id FROM webhooks
WHERE source = :source AND sha256 = :sha256 AND kind = 'forge' AND received_at < :until
ORDER BY received_at LIMIT 1

-- name: new_webhooks
SELECT id, source, kind, headers, body, content, received_at FROM webhooks WHERE state = 'new' ORDER BY id LIMIT :limit

-- name: end_webhook
UPDATE webhooks SET state = :state, outcome = :outcome, outcome_message = :outcome_message
WHERE id = :id AND state = 'new' RETURNING id

-- name: webhook
SELECT id, source, kind, delivery, event, sha256, received_at, state, outcome, outcome_message FROM webhooks WHERE id = :id

-- What goes out to forges.
-- name: add_outgoing
INSERT INTO outgoing (board, key, kind, source, object, repository, number, title, body, assignee, task_id, since,
    state, not_before, made_at, request_id)
VALUES (:board, :key, :kind, :source, :object, :repository, :number, :title, :text, :assignee, :task_id, :since,
    :state, :at, :at, :request_id)
ON CONFLICT (board, key) DO NOTHING
RETURNING id

-- The oldest of each thing, if it may be tried.
-- name: due_outgoing
SELECT o.id, o.key, o.kind, o.object, o.repository, o.number, o.title, o.body, o.assignee, o.task_id, o.tries,
    o.allowed, o.since
FROM outgoing AS o
WHERE o.board = :board AND o.source = :source AND o.state = 'waiting' AND o.not_before <= :now
    AND NOT EXISTS (
        SELECT 1 FROM outgoing AS e
        WHERE e.board = o.board AND e.source = o.source AND e.object = o.object AND e.state = 'waiting' AND e.id < o.id
    )
ORDER BY +o.id LIMIT :limit

-- Claims the post, so that no other server begins it.
-- name: begin_outgoing
UPDATE outgoing SET tries = tries + 1, not_before = :until
WHERE id = :id AND state = 'waiting' AND tries = :tries
RETURNING id

-- name: end_outgoing
UPDATE outgoing SET state = :state, ended_at = :at, posted = :posted, why = :why
WHERE id = :id AND state IN ('waiting', 'held')
RETURNING id

-- name: retry_outgoing
UPDATE outgoing SET not_before = :until, why = :why WHERE id = :id AND state = 'waiting'

-- name: hold_outgoing
UPDATE outgoing SET state = 'held', request_id = :request_id, why = :why WHERE id = :id AND state = 'waiting'
RETURNING id

-- name: release_outgoing
UPDATE outgoing SET state = 'waiting', allowed = 1, not_before = :at, request_id = NULL, why = ''
WHERE id = :id AND state = 'held'
RETURNING id

-- name: sent_since
SELECT count(*) AS posts FROM outgoing WHERE board = :board AND object = :object AND state = 'sent' AND ended_at > :since

-- name: held_of
SELECT request_id FROM outgoing
WHERE board = :board AND object = :object AND state = 'held' AND kind <> 'question' ORDER BY id LIMIT 1

-- What waits for a person, with the answer if there is one.
-- name: answered_outgoing
SELECT o.id, o.kind, o.task_id, r.response, r.answered_by
FROM outgoing AS o CROSS JOIN requests AS r
WHERE o.board = :board AND o.state = 'held' AND r.board = o.board AND r.request_id = o.request_id
    AND r.state <> 'open'
ORDER BY +o.id LIMIT :limit

-- name: next_outgoing_at
SELECT min(o.not_before) AS not_before FROM outgoing AS o
WHERE o.board = :board AND o.source = :source AND o.state = 'waiting' AND NOT EXISTS (
        SELECT 1 FROM outgoing AS e
        WHERE e.board = o.board AND e.source = o.source AND e.object = o.object AND e.state = 'waiting' AND e.id < o.id
    )

-- name: outgoing_page
SELECT id, kind, source, object, repository, number, title, assignee, task_id, state, tries, not_before, made_at,
    ended_at, posted, why, request_id
FROM outgoing WHERE board = :board AND id > :after ORDER BY id LIMIT :limit

-- Sources that do not answer.
-- name: breaker
SELECT failures, opened_at, not_before, outage FROM breakers WHERE board = :board AND source = :source

-- name: put_breaker
INSERT INTO breakers (board, source, failures, opened_at, not_before, outage)
VALUES (:board, :source, :failures, :opened_at, :until, :outage)
ON CONFLICT (board, source) DO UPDATE
SET failures = excluded.failures, opened_at = excluded.opened_at, not_before = excluded.not_before,
    outage = excluded.outage

-- name: breakers
SELECT source, failures, opened_at, not_before, outage FROM breakers WHERE board = :board ORDER BY source

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
    t.reexecutions, t.unmet, t.fresh, t.unproven, t.unisolated
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
    c.closed_at, c.closed_why, t.state, t.phase, t.cause, t.reason, t.unmet, t.fresh, t.unproven, t.unisolated
FROM toolchain_tasks AS c CROSS JOIN tasks AS t
WHERE c.board = :board AND c.id > :after
    AND t.board = c.board AND t.plan_id = c.board AND t.task_id = c.task_id
ORDER BY c.id LIMIT :limit

-- The same, the newest first.
-- name: toolchain_newest
SELECT c.id, c.task_id, c.title, c.description, c.assignee, c.assigned_by, c.must_haves, c.source, c.object, c.made_at,
    c.closed_at, c.closed_why, t.state, t.phase, t.cause, t.reason, t.unmet, t.fresh, t.unproven, t.unisolated
FROM toolchain_tasks AS c CROSS JOIN tasks AS t
WHERE c.board = :board AND c.id < :before
    AND t.board = c.board AND t.plan_id = c.board AND t.task_id = c.task_id
ORDER BY c.id DESC LIMIT :limit

-- name: toolchain_page_open
SELECT c.id, c.task_id, c.title, c.description, c.assignee, c.assigned_by, c.must_haves, c.source, c.object, c.made_at,
    c.closed_at, c.closed_why, t.state, t.phase, t.cause, t.reason, t.unmet, t.fresh, t.unproven, t.unisolated
FROM toolchain_tasks AS c CROSS JOIN tasks AS t
WHERE c.board = :board AND c.closed_at IS NULL AND c.id > :after
    AND t.board = c.board AND t.plan_id = c.board AND t.task_id = c.task_id
ORDER BY c.id LIMIT :limit

-- name: toolchain_page_of_agent
SELECT c.id, c.task_id, c.title, c.description, c.assignee, c.assigned_by, c.must_haves, c.source, c.object, c.made_at,
    c.closed_at, c.closed_why, t.state, t.phase, t.cause, t.reason, t.unmet, t.fresh, t.unproven, t.unisolated
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
