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

-- Writes of operators that came with a key. The first to use one gets a row; everybody else sees what came of it.
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

-- What forges told us, the newest first; and having something decided about anew.
-- name: webhook_page
SELECT id, source, kind, delivery, event, sha256, received_at, state, outcome FROM webhooks
WHERE id < :before ORDER BY id DESC LIMIT :limit

-- name: replay_webhook
UPDATE webhooks SET state = 'new', outcome = '' WHERE id = :id AND state <> 'new' RETURNING id

-- name: counted_webhooks
SELECT (SELECT count(*) FROM webhooks WHERE state = 'new'), (SELECT coalesce(max(id), 0) FROM webhooks)

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
UPDATE webhooks SET state = :state, outcome = :outcome WHERE id = :id AND state = 'new' RETURNING id

-- name: webhook
SELECT id, source, kind, delivery, event, sha256, received_at, state, outcome FROM webhooks WHERE id = :id

-- Who is logged in to the pages. What has expired is gone when somebody else logs in.
-- name: add_session
INSERT INTO sessions (hash, role, name, at, expires_at) VALUES (:hash, :role, :name, :at, :expires_at)

-- name: session
SELECT role, name, expires_at FROM sessions WHERE hash = :hash AND expires_at > :at

-- name: end_session
DELETE FROM sessions WHERE hash = :hash RETURNING role, name

-- name: drop_sessions
DELETE FROM sessions WHERE expires_at <= :at
