-- Evidence, whether it still holds, disputes of checks, reviews and releases.

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

-- name: drop_check_result
DELETE FROM check_results WHERE board = :board AND key = :key

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

-- Whether what was proven still holds. Writes nothing if the evidence was replaced meanwhile.
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

-- Evidence of a verifier that is not trusted any more.
-- name: distrust_evidence
UPDATE evidence SET result = :result, key = NULL, fresh = 0
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND check_id = :check_id
RETURNING check_id

-- name: is_still_evidence
SELECT 1 AS found FROM evidence
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

-- A task that has changed keeps no checks of others, and others do not keep its checks.
-- name: drop_joined
DELETE FROM joined_checks
WHERE board = :board AND plan_id = :plan_id AND (task_id = :task_id OR owner = :task_id)

-- The tips of plans' branches. The branches in the repositories follow.
-- name: tip
SELECT commit_id FROM tips WHERE board = :board AND plan_id = :plan_id

-- name: begin_tip
INSERT INTO tips (board, plan_id, commit_id) VALUES (:board, :plan_id, :commit_id)
ON CONFLICT (board, plan_id) DO NOTHING

-- name: move_tip
UPDATE tips SET commit_id = :commit_id WHERE board = :board AND plan_id = :plan_id AND commit_id = :expected
RETURNING commit_id

-- The moves of tips, each with the pack that repeats it in another repository. That without `onto` is the beginning.
-- name: keep_tip_pack
INSERT INTO tip_packs (board, plan_id, commit_id, onto, pack, attempt_key, made)
VALUES (:board, :plan_id, :commit_id, :onto, :pack, :attempt_key, :made)
ON CONFLICT (board, plan_id, commit_id) DO NOTHING

-- name: tip_packs
SELECT commit_id, onto, pack, attempt_key, made FROM tip_packs WHERE board = :board AND plan_id = :plan_id

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

-- What has to be decided: releases that are due, and DAGs that are not approved yet. The board is compared in a way that
-- hides it from SQLite's planner; see `unshown_views`.
-- name: undecided
SELECT 'release' AS kind, plan_id FROM releases WHERE board || '' = :board AND state = 'due'
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
SELECT t.task_id, max(d.finished_at) AS finished_at FROM tasks AS t JOIN deliveries AS d ON d.id = t.delivery
WHERE t.board = :board AND t.plan_id = :plan_id AND t.state = 'COMPLETED' AND d.finished_at IS NOT NULL
GROUP BY t.task_id ORDER BY t.task_id

-- When an agent got the command of a task that is in force.
-- name: command_taken_at
SELECT d.consumed_at FROM tasks AS t JOIN deliveries AS d ON d.id = t.delivery
WHERE t.board = :board AND t.plan_id = :plan_id AND t.task_id = :task_id
