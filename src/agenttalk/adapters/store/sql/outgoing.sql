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

-- Nobody else may begin it meanwhile.
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
SELECT count(*) FROM outgoing WHERE board = :board AND object = :object AND state = 'sent' AND ended_at > :since

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
SELECT min(o.not_before) FROM outgoing AS o
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
