-- Workers: machines that run agents for the engine, how they are invited, and their pools.

-- name: add_invitation
INSERT INTO worker_invitations (hash, pool, labels, role, at, expires_at)
VALUES (:hash, :pool, :labels, :role, :at, :expires_at)

-- name: invitation
SELECT pool, labels, role FROM worker_invitations WHERE hash = :hash AND expires_at > :at

-- An invitation is good for one worker, which may ask again when its answer got lost.
-- name: take_invitation
UPDATE worker_invitations SET worker = :worker
WHERE hash = :hash AND expires_at > :at AND (worker = '' OR worker = :worker)
RETURNING pool, labels, role

-- name: drop_invitations
DELETE FROM worker_invitations WHERE expires_at <= :at

-- name: add_worker
INSERT INTO workers (id, name, pool, labels, role, public_key, facts, at)
VALUES (:id, :name, :pool, :labels, :role, :public_key, :facts, :at)
ON CONFLICT (id) DO NOTHING

-- name: worker
SELECT id, name, pool, labels, public_key, facts, state, failures, reason, at, role, tried_at FROM workers WHERE id = :id

-- name: workers
SELECT id, name, pool, labels, public_key, facts, state, failures, reason, at, role, tried_at FROM workers
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

-- A pool gets the role of its first invitation.
-- name: add_pool
INSERT INTO worker_pools (pool, paused, role) VALUES (:pool, 0, :role)
ON CONFLICT (pool) DO NOTHING

-- name: pool_role
SELECT role FROM worker_pools WHERE pool = :pool

-- name: add_machine_agent
INSERT INTO machine_agents (agent_id, machine, start, at) VALUES (:agent_id, :machine, :start, :at)
ON CONFLICT (agent_id, machine, start) DO NOTHING

-- name: machines_of_agent
SELECT machine, start FROM machine_agents WHERE agent_id = :agent_id ORDER BY machine, start

-- For what is the work of any agent.
-- name: machines_of_agents
SELECT DISTINCT machine, start FROM machine_agents ORDER BY machine, start

-- A verifier that answered rightly: what it found before counts.
-- name: set_verifier_tried
UPDATE workers SET tried_at = :at WHERE id = :id

-- name: add_verification
INSERT INTO verifications (lease, worker, board, plan_id, task_id, check_id, key, at)
VALUES (:lease, :worker, :of_board, :plan_id, :task_id, :check_id, :key, :at)
ON CONFLICT (lease) DO NOTHING

-- name: verifications_of
SELECT board, plan_id, task_id, check_id, key, at FROM verifications WHERE worker = :worker ORDER BY at, lease

-- name: drop_verifications
DELETE FROM verifications WHERE worker = :worker AND at <= :at
