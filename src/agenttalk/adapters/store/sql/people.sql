-- Questions to people.

-- name: add_request
INSERT INTO requests (board, request_id, plan_id, task_id, agent_id, body, sha256, at)
VALUES (:board, :request_id, :plan_id, :task_id, :agent_id, :body, :sha256, :at)
ON CONFLICT (board, request_id) DO NOTHING
RETURNING request_id

-- name: request
SELECT request_id, plan_id, task_id, agent_id, body, sha256, at, state, response, answered_at, answered_by, proof
FROM requests WHERE board = :board AND request_id = :request_id

-- Open questions from a place on, the oldest first.
-- name: open_requests
SELECT request_id, plan_id, task_id, agent_id, body, sha256, at, state, response, answered_at, answered_by, proof
FROM requests
WHERE board = :board AND state = 'open' AND (at, request_id) > (:at, :request_id)
ORDER BY at, request_id
LIMIT :limit

-- name: open_requests_of
SELECT request_id FROM requests
WHERE board = :board AND state = 'open' AND plan_id = :plan_id AND task_id = :task_id ORDER BY at, request_id

-- name: open_requests_in
SELECT request_id FROM requests
WHERE board = :board AND state = 'open' AND plan_id = :plan_id ORDER BY at, request_id

-- name: answer_request
UPDATE requests SET state = 'answered', response = :response, answered_at = :at, answered_by = :by,
    proof = :proof
WHERE board = :board AND request_id = :request_id AND state = 'open'
RETURNING request_id
