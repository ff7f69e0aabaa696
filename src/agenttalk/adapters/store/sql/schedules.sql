-- Schedules, in the system's database.
-- name: schedules
SELECT name, definition, paused, since, plan_id, state, why FROM schedules ORDER BY name

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

-- Whoever comes second, from the same time on, finds it done.
-- name: claim_schedule
UPDATE schedules SET since = :slot, plan_id = :plan_id, state = 'due', why = ''
WHERE name = :name AND since = :since AND paused = 0 AND state = 'idle'
RETURNING name

-- name: pass_schedule
UPDATE schedules SET since = :slot, why = :why
WHERE name = :name AND since = :since AND paused = 0 AND state = 'idle'
RETURNING name

-- name: begin_schedule
UPDATE schedules SET plan_id = :plan_id, state = 'due', why = '' WHERE name = :name AND state = 'idle' RETURNING name

-- name: end_schedule
UPDATE schedules SET state = 'idle', why = :why WHERE name = :name AND plan_id = :plan_id AND state = 'due'
RETURNING name

-- After a restore.
-- name: pause_schedules
UPDATE schedules SET paused = 1 WHERE paused = 0 RETURNING name
