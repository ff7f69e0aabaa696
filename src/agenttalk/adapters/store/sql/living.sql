-- Whether what was proven still holds. What was looked at may have been replaced meanwhile: then nothing is written.
-- name: renew_evidence
UPDATE evidence
SET commit_id = :commit_id, tree = :tree, result = :result, key = :key, fresh = 1, at = :at
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND check_id = :check_id
    AND command_id = :command_id AND commit_id = :seen
RETURNING check_id

-- name: set_evidence_fresh
UPDATE evidence SET fresh = :fresh
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND check_id = :check_id
    AND command_id = :command_id AND commit_id = :seen AND fresh <> :fresh
RETURNING check_id

-- name: is_still_evidence
SELECT 1 FROM evidence
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND check_id = :check_id
    AND command_id = :command_id AND commit_id = :seen

-- A done task is as fresh as the weakest evidence of it. Says whether that changed.
-- name: refresh_task
UPDATE tasks
SET fresh = CASE WHEN EXISTS (
    SELECT 1 FROM evidence AS e
    WHERE e.board = tasks.board AND e.plan_id = tasks.plan_id AND e.task_id = tasks.task_id AND e.fresh = 0)
    THEN 0 ELSE 1 END
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND state = 'COMPLETED'
RETURNING fresh

-- name: stale_tasks
SELECT task_id FROM tasks
WHERE board = :board AND plan_id = :plan_id AND state = 'COMPLETED' AND task_id IN (
    SELECT o.task_id FROM tasks AS o WHERE o.board = :board AND o.plan_id = :plan_id AND o.fresh = 0)
ORDER BY task_id

-- Checks of other tasks that a task has to keep.
-- name: joined_checks
SELECT task_id, owner, body FROM joined_checks
WHERE board = :board AND plan_id = :plan_id ORDER BY task_id, owner, check_id

-- name: join_check
INSERT INTO joined_checks (board, plan_id, task_id, owner, check_id, body, at)
VALUES (:board, :plan_id, :task_id, :owner, :check_id, :body, :at)
ON CONFLICT (board, plan_id, task_id, owner, check_id) DO UPDATE SET body = excluded.body, at = excluded.at

-- A task that is another one now keeps nothing, and nobody keeps its checks.
-- name: drop_joined
DELETE FROM joined_checks
WHERE board = :board AND plan_id = :plan_id AND (task_id = :task_id OR owner = :task_id)

-- Branches of ended plans that are watched until they are merged.
-- name: watch_branch
INSERT INTO branches (board, plan_id, head)
SELECT r.board, r.plan_id, :head FROM runs AS r WHERE r.board = :board AND r.plan_id = :plan_id AND r.closing = 1
ON CONFLICT (board, plan_id) DO UPDATE SET head = excluded.head

-- name: watched_branches
SELECT plan_id, head FROM branches WHERE board = :board AND plan_id > :plan_id ORDER BY plan_id LIMIT :limit

-- name: watched_branch
SELECT head FROM branches WHERE board = :board AND plan_id = :plan_id

-- name: leave_branch
DELETE FROM branches WHERE board = :board AND plan_id = :plan_id
