-- Workers: machines that run agents for the engine, how they are invited, and their pools.

-- name: add_invitation
INSERT INTO worker_invitations (hash, pool, labels, at, expires_at)
VALUES (:hash, :pool, :labels, :at, :expires_at)

-- name: invitation
SELECT pool, labels FROM worker_invitations WHERE hash = :hash AND expires_at > :at

-- An invitation is good for one worker, which may ask again when its answer got lost.
-- name: take_invitation
UPDATE worker_invitations SET worker = :worker
WHERE hash = :hash AND expires_at > :at AND (worker = '' OR worker = :worker)
RETURNING pool, labels

-- name: drop_invitations
DELETE FROM worker_invitations WHERE expires_at <= :at

-- name: add_worker
INSERT INTO workers (id, name, pool, labels, public_key, facts, at)
VALUES (:id, :name, :pool, :labels, :public_key, :facts, :at)
ON CONFLICT (id) DO NOTHING

-- name: worker
SELECT id, name, pool, labels, public_key, facts, state, failures, reason, at FROM workers WHERE id = :id

-- name: workers
SELECT id, name, pool, labels, public_key, facts, state, failures, reason, at FROM workers
WHERE state <> 'removed' ORDER BY pool, name, id

-- name: set_worker_facts
UPDATE workers SET facts = :facts WHERE id = :id

-- name: set_worker_state
UPDATE workers SET state = :state, failures = :failures, reason = :reason WHERE id = :id AND state <> 'removed'
RETURNING id

-- name: paused_pools
SELECT pool FROM worker_pools WHERE paused = 1 ORDER BY pool

-- name: pause_pool
INSERT INTO worker_pools (pool, paused) VALUES (:pool, :paused)
ON CONFLICT (pool) DO UPDATE SET paused = excluded.paused
