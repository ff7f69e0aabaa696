-- name: board_of
SELECT board FROM plan_boards WHERE plan_id = :plan_id

-- name: place_plan
INSERT INTO plan_boards (plan_id, board) VALUES (:plan_id, :where)
ON CONFLICT (plan_id) DO NOTHING

-- name: plan_boards
SELECT plan_id, board FROM plan_boards ORDER BY plan_id

-- name: token
SELECT role, label FROM tokens WHERE hash = :hash AND revoked_at IS NULL

-- name: add_token
INSERT INTO tokens (hash, role, label, at) VALUES (:hash, :role, :label, :at)
ON CONFLICT (hash) DO NOTHING

-- name: tokens
SELECT hash, role, label, at, revoked_at FROM tokens ORDER BY at, hash

-- name: revoke_token
UPDATE tokens SET revoked_at = :at WHERE hash = :hash AND revoked_at IS NULL RETURNING hash
