-- What every concept uses: boards, tokens, keys, contents, effects, the ledger.

-- What the HTTP door asks for and writes.
-- name: attempt_of
SELECT t.agent_id, t.epoch, t.lease, t.token, d.receiver, t.phase
FROM tasks AS t LEFT JOIN deliveries AS d ON d.board = t.board AND d.id = t.delivery
WHERE t.board = :board AND t.plan_id = :plan_id AND t.task_id = :task_id

-- Whether an attempt still has its task. It writes, so that no other transaction ends the lease before this commit.
-- name: hold_attempt
UPDATE tasks SET token = token
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND epoch = :epoch AND token = :token
    AND lease IS NOT NULL
RETURNING task_id

-- name: add_comment
INSERT INTO comments (board, plan_id, task_id, kind, author, type, body, claims, epoch, at)
VALUES (:board, :plan_id, :task_id, :kind, :author, :type, :body, :claims, :epoch, :at)
RETURNING id

-- name: comments_of
SELECT id, kind, author, type, body, claims, epoch, at
FROM comments
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND id > :after
ORDER BY id
LIMIT :limit

-- The first request with a key gets a row; later ones get the answer of the first.
-- name: take_key
INSERT INTO controls (board, plan_id, kind, id, agent_id, sha256, body, at)
VALUES (:board, :plan_id, 'api.key', :id, :agent_id, :sha256, :body, :at)
ON CONFLICT (board, plan_id, kind, id) DO NOTHING
RETURNING id

-- name: answer_key
UPDATE controls SET body = :body
WHERE board = :board AND plan_id = :plan_id AND kind = 'api.key' AND id = :id

-- name: counted_open
SELECT
    (SELECT count(*) FROM requests WHERE board = :board AND state = 'open') AS requests,
    (SELECT count(*) FROM deadletters WHERE board = :board AND state = 'open') AS deadletters

-- name: board_of
SELECT board FROM plan_boards WHERE plan_id = :plan_id

-- name: place_plan
INSERT INTO plan_boards (plan_id, board) VALUES (:plan_id, :where)
ON CONFLICT (plan_id) DO NOTHING

-- From one board to the next by the index, however many plans they have.
-- name: boards_in_use
WITH RECURSIVE used (board) AS (
    SELECT min(board) FROM plan_boards
    UNION ALL
    SELECT (SELECT min(p.board) FROM plan_boards AS p WHERE p.board > used.board) FROM used WHERE used.board IS NOT NULL
)
SELECT board FROM used WHERE board IS NOT NULL

-- name: token
SELECT role, label FROM tokens WHERE hash = :hash AND revoked_at IS NULL

-- name: add_token
INSERT INTO tokens (hash, role, label, at) VALUES (:hash, :role, :label, :at)
ON CONFLICT (hash) DO NOTHING
RETURNING hash

-- name: tokens
SELECT hash, role, label, at, revoked_at FROM tokens ORDER BY at, hash

-- name: revoke_token
UPDATE tokens SET revoked_at = :at WHERE hash = :hash AND revoked_at IS NULL RETURNING hash

-- name: forget_token
DELETE FROM tokens WHERE hash = :hash RETURNING hash

-- name: agent_token
SELECT agent_id FROM agent_tokens WHERE hash = :hash AND revoked_at IS NULL

-- name: add_agent_token
INSERT INTO agent_tokens (hash, agent_id, at) VALUES (:hash, :agent_id, :at)
ON CONFLICT (hash) DO NOTHING
RETURNING hash

-- name: agent_tokens
SELECT hash, agent_id, at, revoked_at FROM agent_tokens ORDER BY at, hash

-- name: revoke_agent_token
UPDATE agent_tokens SET revoked_at = :at WHERE hash = :hash AND revoked_at IS NULL RETURNING hash

-- Operators' writes with a key. The first request with a key gets a row; later ones see its result.
-- name: begin_key
INSERT INTO api_keys (key, asked, at) VALUES (:key, :asked, :at)
ON CONFLICT (key) DO NOTHING
RETURNING id

-- name: api_key
SELECT asked, at, status, answer FROM api_keys WHERE key = :key

-- name: end_key
UPDATE api_keys SET status = :status, answer = :answer WHERE key = :key

-- name: forget_key
DELETE FROM api_keys WHERE key = :key AND status IS NULL

-- name: drop_old_keys
DELETE FROM api_keys WHERE at < :before

-- name: drop_many_keys
DELETE FROM api_keys WHERE id <= :id

-- Putting a content in again writes nothing, unless what lies there was damaged.
-- name: put_blob
INSERT INTO blobs (hash, content)
VALUES (:hash, :content)
ON CONFLICT (hash) DO UPDATE SET content = excluded.content
WHERE blobs.content <> excluded.content

-- name: get_blob
SELECT content
FROM blobs
WHERE hash = :hash

-- name: has_blob
SELECT 1 AS found
FROM blobs
WHERE hash = :hash

-- An effect is done at least once. `not_before` is when it may be tried (again); a claim moves it into the future,
-- so that the effect of a dead worker comes back by itself.
-- name: queue_effect
INSERT INTO effects (board, kind, key, body)
VALUES (:board, :kind, :key, :body)
ON CONFLICT (board, key) DO NOTHING
RETURNING id

-- name: claim_effects
UPDATE effects
SET state = 'claimed', attempts = attempts + 1, not_before = :until
WHERE id IN (
    SELECT id
    FROM effects
    WHERE board = :board AND kind = :kind AND state <> 'done' AND not_before <= :now
    ORDER BY not_before, id
    LIMIT :limit
)
RETURNING id, key, body, attempts

-- name: claim_effects@postgres
UPDATE effects
SET state = 'claimed', attempts = attempts + 1, not_before = :until
WHERE id IN (
    SELECT id
    FROM effects
    WHERE board = :board AND kind = :kind AND state <> 'done' AND not_before <= :now
    ORDER BY not_before, id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
RETURNING id, key, body, attempts

-- name: finish_effect
UPDATE effects SET state = 'done'
WHERE id = :id AND state <> 'done'
RETURNING id

-- name: retry_effect
UPDATE effects SET state = 'pending', not_before = :not_before
WHERE id = :id AND state <> 'done'
RETURNING id

-- name: next_effect_at
SELECT not_before
FROM effects
WHERE board = :board AND kind = :kind AND state <> 'done'
ORDER BY not_before
LIMIT 1

-- Where several servers write, facts are appended first and sealed afterwards: `link` is a fact's place in the chain of its database.
-- name: append_fact
INSERT INTO ledger (at, board, kind, subject, body)
VALUES (:at, :board, :kind, :subject, :body)
RETURNING seq

-- name: append_sealed
INSERT INTO ledger (seq, link, at, board, kind, subject, body, prev, hash)
VALUES (:seq, :link, :at, :board, :kind, :subject, :body, :prev, :hash)

-- name: append_sealed@postgres
INSERT INTO ledger (seq, link, at, board, kind, subject, body, prev, hash)
OVERRIDING SYSTEM VALUE
VALUES (:seq, :link, :at, :board, :kind, :subject, :body, :prev, :hash)

-- name: newest_fact
SELECT coalesce(max(seq), 0) AS newest FROM ledger

-- name: unsealed_facts
SELECT seq, link, at, board, kind, subject, body, prev, hash
FROM ledger
WHERE hash IS NULL AND seq > :after
ORDER BY seq
LIMIT :limit

-- name: sealed_facts
SELECT seq, link, at, board, kind, subject, body, prev, hash
FROM ledger
WHERE link > :after
ORDER BY link
LIMIT :limit

-- name: seal_fact
UPDATE ledger SET link = :link, prev = :prev, hash = :hash
WHERE seq = :seq

-- name: ledger_head
SELECT link, hash, seq
FROM ledger
WHERE link IS NOT NULL
ORDER BY link DESC
LIMIT 1

-- name: count_facts
SELECT count(*) AS facts
FROM ledger

-- name: latest_fact
SELECT seq, at, body
FROM ledger
WHERE board = :board AND subject = :subject AND kind = :kind
ORDER BY seq DESC
LIMIT 1

-- name: facts_of
SELECT seq, at, kind, body
FROM ledger
WHERE board = :board AND subject = :subject AND seq > :after
ORDER BY seq
LIMIT :limit

-- name: fact
SELECT body FROM ledger WHERE seq = :seq AND board = :board

-- Tasks as views show them. In a foreign plan the receipt of the command says why a task failed.
-- name: task_statuses
SELECT t.task_id, t.agent_id, t.state, t.phase, t.cause,
    CASE WHEN t.unmet IS NULL AND t.state = 'FAILED'
        THEN (SELECT d.details FROM deliveries AS d WHERE d.id = t.delivery AND d.ack = 'FAILED')
        ELSE t.reason END AS reason,
    t.score, t.fresh, t.attempt, t.retries, t.reexecutions, t.missing, t.request_id, t.updated_at, t.leased_at,
    t.waiting_since, t.seconds, t.tokens, t.cost_usd, t.tool_calls, t.unproven, t.unisolated,
    t.reason_message, t.unmet, t.epoch, t.lease, t.progress
FROM tasks AS t
WHERE t.board = :board AND t.plan_id = :plan_id AND t.task_id > :task_id
ORDER BY t.task_id
LIMIT :limit

-- One of them. This is a statement of its own: the list goes on after a name, and no name stands right before that of a
-- task. For "this name, or those after that one", SQLite does not seek the name in the index but reads the whole plan.
-- name: task_status
SELECT t.task_id, t.agent_id, t.state, t.phase, t.cause,
    CASE WHEN t.unmet IS NULL AND t.state = 'FAILED'
        THEN (SELECT d.details FROM deliveries AS d WHERE d.id = t.delivery AND d.ack = 'FAILED')
        ELSE t.reason END AS reason,
    t.score, t.fresh, t.attempt, t.retries, t.reexecutions, t.missing, t.request_id, t.updated_at, t.leased_at,
    t.waiting_since, t.seconds, t.tokens, t.cost_usd, t.tool_calls, t.unproven, t.unisolated,
    t.reason_message, t.unmet, t.epoch, t.lease, t.progress
FROM tasks AS t
WHERE t.board = :board AND t.plan_id = :plan_id AND t.task_id = :task_id
