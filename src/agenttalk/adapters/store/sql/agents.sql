-- What agents elsewhere hand in.

-- name: hand_in
INSERT INTO elsewhere (board, plan_id, task_id, epoch, kind, name, path, sha256, size, body, at)
VALUES (:board, :plan_id, :task_id, :epoch, :kind, :name, :path, :sha256, :size, :body, :at)
ON CONFLICT (board, plan_id, task_id, epoch, kind, name, path)
DO UPDATE SET sha256 = excluded.sha256, size = excluded.size, body = excluded.body, at = excluded.at

-- name: handed_in
SELECT kind, name, path, sha256, size, body, at FROM elsewhere
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND epoch = :epoch
ORDER BY kind, name, path

-- name: drop_handed_in
DELETE FROM elsewhere WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND epoch < :epoch

-- What waits in the queue of an agent.
-- name: queued_for
SELECT t.plan_id, t.task_id, t.priority FROM tasks AS t
WHERE t.board = :board AND t.agent_id = :agent_id AND t.queued IS NOT NULL AND EXISTS (
    SELECT 1 FROM runs AS r WHERE r.board = t.board AND r.plan_id = t.plan_id AND r.state = 'RUNNING')
ORDER BY t.priority, t.queued
LIMIT :limit
