-- What has to be decided: releases that are due, and DAGs that are not approved yet. The board is compared in a way that
-- hides it from SQLite's planner; see `unshown_views`.
-- name: undecided
SELECT 'release', plan_id FROM releases WHERE board || '' = :board AND state = 'due'
UNION ALL
SELECT 'review', plan_id FROM reviews WHERE board || '' = :board AND state IN ('open', 'waits')

-- name: latest_release
SELECT number, release_id, state, footing, manifest, told, at FROM releases
WHERE board = :board AND plan_id = :plan_id
ORDER BY number DESC LIMIT 1

-- name: approved_release
SELECT number, release_id, state, footing, manifest, told, at FROM releases
WHERE board = :board AND plan_id = :plan_id AND state = 'approved'
ORDER BY number DESC LIMIT 1

-- name: add_release
INSERT INTO releases (board, plan_id, number, release_id, state, at)
VALUES (:board, :plan_id, :number, :release_id, 'due', :at)

-- name: decide_release
UPDATE releases SET state = :state, footing = :footing, manifest = :manifest, told = :told, at = :at
WHERE board = :board AND plan_id = :plan_id AND number = :number AND state = 'due'
RETURNING release_id

-- name: drop_due_release
DELETE FROM releases WHERE board = :board AND plan_id = :plan_id AND number = :number AND state = 'due'

-- name: revoke_release
UPDATE releases SET state = 'revoked', manifest = :manifest
WHERE board = :board AND plan_id = :plan_id AND number = :number AND state = 'approved'
RETURNING release_id

-- The versions of an output, the newest first, of each task that makes it.
-- name: artifacts_named
SELECT m.task_id, m.output_name, m.producer, m.message_id, m.envelope
FROM messages AS m
WHERE m.board = :board AND m.plan_id = :plan_id AND m.type = 'artifact' AND m.state = 'delivered'
    AND m.output_name = :output_name
ORDER BY m.seq DESC, m.id DESC

-- Outputs whose names say that they are results of release gates; the newest versions first.
-- name: gate_results
SELECT m.task_id, m.output_name, m.producer, m.message_id, m.envelope
FROM messages AS m
WHERE m.board = :board AND m.plan_id = :plan_id AND m.type = 'artifact' AND m.state = 'delivered'
    AND m.output_name LIKE '%gate_result%'
ORDER BY m.task_id, m.output_name, m.seq DESC, m.id DESC

-- name: put_judgement
INSERT INTO judgements (board, plan_id, sha256, validator, accepted, task_id, output_name, at, model)
VALUES (:board, :plan_id, :sha256, :validator, :accepted, :task_id, :output_name, :at, :model)
ON CONFLICT (board, plan_id, sha256, validator) DO UPDATE
SET accepted = excluded.accepted, task_id = excluded.task_id, output_name = excluded.output_name, at = excluded.at,
    model = excluded.model

-- name: judgements_of
SELECT validator, accepted, model FROM judgements
WHERE board = :board AND plan_id = :plan_id AND sha256 = :sha256
ORDER BY validator

-- name: add_review
INSERT INTO reviews (board, plan_id, revision, dag_sha256, state, review_plan, held, began_at)
VALUES (:board, :plan_id, :revision, :dag_sha256, 'open', :review_plan, :held, :at)

-- name: latest_review
SELECT revision, dag_sha256, state, review_plan, request_id, held, told, began_at FROM reviews
WHERE board = :board AND plan_id = :plan_id
ORDER BY revision DESC LIMIT 1

-- name: decide_review
UPDATE reviews SET state = :state, request_id = :request_id, told = :told
WHERE board = :board AND plan_id = :plan_id AND revision = :revision AND state IN ('open', 'waits')
RETURNING held

-- name: drop_reviews
UPDATE reviews SET state = 'dropped'
WHERE board = :board AND plan_id = :plan_id AND state IN ('open', 'waits')
RETURNING request_id

-- name: release_task
SELECT state, cause, fresh, agent_id, unisolated FROM tasks
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- When tasks of a plan came to their end.
-- name: finished_tasks
SELECT t.task_id, max(d.finished_at) FROM tasks AS t JOIN deliveries AS d ON d.id = t.delivery
WHERE t.board = :board AND t.plan_id = :plan_id AND t.state = 'COMPLETED' AND d.finished_at IS NOT NULL
GROUP BY t.task_id ORDER BY t.task_id

-- When an agent got the command of a task that is in force.
-- name: command_taken_at
SELECT d.consumed_at FROM tasks AS t JOIN deliveries AS d ON d.id = t.delivery
WHERE t.board = :board AND t.plan_id = :plan_id AND t.task_id = :task_id
