-- Checks that agents say are wrong.
-- name: add_dispute
INSERT INTO disputes (board, request_id, plan_id, task_id, check_id, seq, agent_id, reason, at)
VALUES (:board, :request_id, :plan_id, :task_id, :check_id, :seq, :agent_id, :reason, :at)
ON CONFLICT (board, request_id) DO NOTHING
RETURNING request_id

-- name: disputes_of
SELECT request_id, check_id, seq, agent_id, reason, state, at, answered_by, answered_at, note FROM disputes
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id ORDER BY at, request_id

-- name: dispute_of_request
SELECT plan_id, task_id, check_id, agent_id, state FROM disputes WHERE board = :board AND request_id = :request_id

-- name: answer_dispute
UPDATE disputes SET state = :state, answered_by = :by, answered_at = :at, note = :note
WHERE board = :board AND request_id = :request_id AND state = 'open'
RETURNING request_id
