-- What the HTTP door asks for and writes.
-- name: attempt_of
SELECT t.agent_id, t.epoch, t.lease, t.token, d.receiver, t.phase
FROM tasks AS t LEFT JOIN deliveries AS d ON d.board = t.board AND d.id = t.delivery
WHERE t.board = :board AND t.plan_id = :plan_id AND t.task_id = :task_id

-- Whether an attempt still has its task. It writes, so that nobody can end the lease until this is committed.
-- name: hold_attempt
UPDATE tasks SET token = token
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND epoch = :epoch AND token = :token
    AND lease IS NOT NULL
RETURNING task_id

-- name: add_comment
INSERT INTO comments (board, plan_id, task_id, kind, author, type, body, claims, epoch, at)
VALUES (:board, :plan_id, :task_id, :kind, :author, :type, :body, :claims, :epoch, :at)
RETURNING id

-- name: comments_of
SELECT id, kind, author, type, body, claims, epoch, at
FROM comments
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND id > :after
ORDER BY id
LIMIT :limit

-- The first to use a key gets a row; for everybody else the answer of the first is there.
-- name: take_key
INSERT INTO controls (board, plan_id, kind, id, agent_id, sha256, body, at)
VALUES (:board, :plan_id, 'api.key', :id, :agent_id, :sha256, :body, :at)
ON CONFLICT (board, plan_id, kind, id) DO NOTHING
RETURNING id

-- name: answer_key
UPDATE controls SET body = :body
WHERE board = :board AND plan_id = :plan_id AND kind = 'api.key' AND id = :id

-- name: counted_open
SELECT
    (SELECT count(*) FROM requests WHERE board = :board AND state = 'open'),
    (SELECT count(*) FROM deadletters WHERE board = :board AND state = 'open')
