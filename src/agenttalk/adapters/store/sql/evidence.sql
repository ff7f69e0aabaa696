-- What shows that tasks are done.
-- name: put_evidence
INSERT INTO evidence (board, plan_id, task_id, check_id, command_id, commit_id, tree, result, key, fresh, at)
VALUES (:board, :plan_id, :task_id, :check_id, :command_id, :commit_id, :tree, :result, :key, 1, :at)
ON CONFLICT (board, plan_id, task_id, check_id) DO UPDATE
SET command_id = excluded.command_id, commit_id = excluded.commit_id, tree = excluded.tree, result = excluded.result,
    key = excluded.key, fresh = 1, at = excluded.at

-- name: drop_evidence
DELETE FROM evidence WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- name: evidence_of_task
SELECT check_id, command_id, commit_id, tree, result, key, fresh, at FROM evidence
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id ORDER BY check_id

-- name: evidence_of_plan
SELECT task_id, check_id, command_id, commit_id, tree, result, key, fresh, at FROM evidence
WHERE board = :board AND plan_id = :plan_id ORDER BY task_id, check_id

-- Results by what they rest on. The first one stays: the same again gives the same.
-- name: check_result
SELECT result, made_by, at FROM check_results WHERE board = :board AND key = :key

-- name: keep_check_result
INSERT INTO check_results (board, key, result, made_by, at) VALUES (:board, :key, :result, :made_by, :at)
ON CONFLICT (board, key) DO NOTHING

-- How checks stood before the work. The tip stays the first one.
-- name: baseline
SELECT onto, results FROM baselines WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- name: keep_baseline
INSERT INTO baselines (board, plan_id, task_id, onto, results, at)
VALUES (:board, :plan_id, :task_id, :onto, :results, :at)
ON CONFLICT (board, plan_id, task_id) DO UPDATE SET results = excluded.results

-- Attempts that are being verified.
-- name: put_performance
INSERT INTO performances (board, plan_id, task_id, command_id, attempt, body)
VALUES (:board, :plan_id, :task_id, :command_id, :attempt, :body)
ON CONFLICT (board, plan_id, task_id) DO UPDATE
SET command_id = excluded.command_id, attempt = excluded.attempt, body = excluded.body

-- name: performance
SELECT command_id, attempt, body FROM performances
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- name: drop_performance
DELETE FROM performances WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- What an agent claimed by the API during an attempt.
-- name: claims_of
SELECT claims FROM comments
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND id > 0 AND epoch = :epoch AND author = :author
    AND type = 'action_report' AND claims IS NOT NULL
ORDER BY id LIMIT 100

-- What is left to be verified again, and by whom.
-- name: leave_lease
UPDATE tasks SET owner = :owner
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND epoch = :epoch AND lease = :lease

-- name: renew_lease
UPDATE tasks
SET epoch = epoch + 1, lease = :lease, owner = :owner, token = :token, leased_at = :at, deaths = deaths + :deaths
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND epoch = :epoch AND lease = :old
RETURNING epoch

-- name: consumed_at
SELECT consumed_at FROM deliveries WHERE board = :board AND id = :id
