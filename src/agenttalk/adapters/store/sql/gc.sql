-- name: gc_runs
SELECT plan_id, state, ended_at FROM runs WHERE board = :board ORDER BY plan_id

-- name: gc_tasks
SELECT plan_id, task_id, updated_at FROM tasks
WHERE board = :board AND lease IS NULL AND state IN ('COMPLETED', 'FAILED', 'SKIPPED')
ORDER BY plan_id, task_id
