-- Plans that the engine runs, their tasks and how those move.

-- Plans that the engine runs.
-- name: add_run
INSERT INTO runs (board, plan_id, state, settings, open, closing, began_at)
VALUES (:board, :plan_id, :state, :settings, :open, :closing, :at)
ON CONFLICT (board, plan_id) DO UPDATE
SET state = excluded.state, settings = excluded.settings, open = excluded.open, closing = excluded.closing,
    began_at = excluded.began_at
WHERE runs.state = 'SUBMITTED'
RETURNING plan_id

-- What there is of a plan that is to be submitted; one row in any case. While its parts are coming, `settings` says by
-- whose hand.
-- name: submitted
SELECT
    (SELECT origin FROM plans WHERE board = :board AND plan_id = :plan_id) AS origin,
    (SELECT dag_sha256 FROM plans WHERE board = :board AND plan_id = :plan_id) AS dag_sha256,
    (SELECT state FROM runs WHERE board = :board AND plan_id = :plan_id) AS state,
    (SELECT coalesce((SELECT b.content FROM blobs AS b WHERE b.hash = CAST(r.settings AS TEXT)), r.settings)
     FROM runs AS r WHERE r.board = :board AND r.plan_id = :plan_id) AS settings

-- name: submitted@postgres
SELECT
    (SELECT origin FROM plans WHERE board = :board AND plan_id = :plan_id) AS origin,
    (SELECT dag_sha256 FROM plans WHERE board = :board AND plan_id = :plan_id) AS dag_sha256,
    (SELECT state FROM runs WHERE board = :board AND plan_id = :plan_id) AS state,
    (SELECT coalesce((SELECT b.content FROM blobs AS b WHERE b.hash = convert_from(r.settings, 'UTF8') COLLATE "default"),
        r.settings)
     FROM runs AS r WHERE r.board = :board AND r.plan_id = :plan_id) AS settings

-- `settings` are a content that is kept under its hash, because the row changes with every step and many plans have the same;
-- large ones stand there themselves.
-- name: run
SELECT r.state, coalesce(b.content, r.settings) AS settings, r.open, r.completed, r.failed, r.skipped, r.began_at,
    r.ended_at, p.dag_sha256, p.revision, r.closing
FROM runs AS r JOIN plans AS p ON p.board = r.board AND p.plan_id = r.plan_id
LEFT JOIN blobs AS b ON b.hash = CAST(r.settings AS TEXT)
WHERE r.board = :board AND r.plan_id = :plan_id

-- name: run@postgres
SELECT r.state,
    coalesce((SELECT b.content FROM blobs AS b WHERE b.hash = convert_from(r.settings, 'UTF8') COLLATE "default"),
        r.settings) AS settings,
    r.open, r.completed, r.failed, r.skipped, r.began_at, r.ended_at, p.dag_sha256, p.revision, r.closing
FROM runs AS r JOIN plans AS p ON p.board = r.board AND p.plan_id = r.plan_id
WHERE r.board = :board AND r.plan_id = :plan_id

-- The board is compared in a way that hides it from SQLite's planner; see `unshown_views`.
-- name: open_runs
SELECT plan_id, state, open FROM runs WHERE board || '' = :board AND state <> 'ENDED' ORDER BY plan_id

-- name: any_run
SELECT plan_id FROM runs WHERE board = :board ORDER BY plan_id LIMIT 1

-- name: set_run_state
UPDATE runs SET state = :state, ended_at = CASE WHEN :state = 'ENDED' THEN :at ELSE NULL END
WHERE board = :board AND plan_id = :plan_id AND state <> :state
RETURNING plan_id, closing

-- name: count_run
UPDATE runs
SET open = open + :open, completed = completed + :completed, failed = failed + :failed, skipped = skipped + :skipped
WHERE board = :board AND plan_id = :plan_id
RETURNING open, closing, completed, failed, skipped, plan_id

-- What is asked for. Many rows come as one JSON object, by task: that is one statement, during which other threads work.
-- name: put_nodes
INSERT INTO nodes (board, plan_id, task_id, node)
SELECT :board, :plan_id, key, CAST(value AS BLOB) FROM json_each(:rows) WHERE true
ON CONFLICT (board, plan_id, task_id) DO UPDATE SET node = excluded.node, wards = NULL, guards = NULL

-- name: put_nodes@postgres
INSERT INTO nodes (board, plan_id, task_id, node)
SELECT :board, :plan_id, key, convert_to(value, 'UTF8') FROM json_each_text(:rows::json)
ON CONFLICT (board, plan_id, task_id) DO UPDATE SET node = excluded.node, wards = NULL, guards = NULL

-- name: link_node
UPDATE nodes SET wards = :wards, guards = :guards
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- name: node
SELECT node, wards, guards FROM nodes WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- name: put_edge
INSERT INTO edges (board, plan_id, task_id, dependant) VALUES (:board, :plan_id, :task_id, :dependant)
ON CONFLICT (board, plan_id, task_id, dependant) DO NOTHING

-- name: put_edges
INSERT INTO edges (board, plan_id, task_id, dependant)
SELECT :board, :plan_id, task.key, dependant.value
FROM json_each(:rows) AS task CROSS JOIN json_each(task.value) AS dependant WHERE true
ON CONFLICT (board, plan_id, task_id, dependant) DO NOTHING

-- name: put_edges@postgres
INSERT INTO edges (board, plan_id, task_id, dependant)
SELECT :board, :plan_id, task.key, dependant.value
FROM json_each(:rows::json) AS task CROSS JOIN json_array_elements_text(task.value) AS dependant
ON CONFLICT (board, plan_id, task_id, dependant) DO NOTHING

-- name: dependants
SELECT e.dependant, t.state, t.unmet
FROM edges AS e CROSS JOIN tasks AS t
WHERE e.board = :board AND e.plan_id = :plan_id AND e.task_id = :task_id
    AND t.board = e.board AND t.plan_id = e.plan_id AND t.task_id = e.dependant
ORDER BY e.dependant

-- Tasks that the engine runs.
-- name: put_engine_task
INSERT INTO tasks (board, plan_id, task_id, agent_id, updated_at, unmet, held, priority)
VALUES (:board, :plan_id, :task_id, :agent_id, :at, :unmet, :held, :priority)
ON CONFLICT (board, plan_id, task_id) DO UPDATE
SET agent_id = excluded.agent_id, unmet = excluded.unmet, held = excluded.held, priority = excluded.priority,
    updated_at = excluded.updated_at

-- name: put_engine_tasks
INSERT INTO tasks (board, plan_id, task_id, agent_id, updated_at, unmet, held, priority)
SELECT :board, :plan_id, key, value ->> 0, :at, value ->> 1, value ->> 2, value ->> 3 FROM json_each(:rows) WHERE true
ON CONFLICT (board, plan_id, task_id) DO UPDATE
SET agent_id = excluded.agent_id, unmet = excluded.unmet, held = excluded.held, priority = excluded.priority,
    updated_at = excluded.updated_at

-- name: put_engine_tasks@postgres
INSERT INTO tasks (board, plan_id, task_id, agent_id, updated_at, unmet, held, priority)
SELECT :board, :plan_id, key, value ->> 0, :at, (value ->> 1)::bigint, (value ->> 2)::bigint, (value ->> 3)::bigint
FROM json_each(:rows::json)
ON CONFLICT (board, plan_id, task_id) DO UPDATE
SET agent_id = excluded.agent_id, unmet = excluded.unmet, held = excluded.held, priority = excluded.priority,
    updated_at = excluded.updated_at

-- name: engine_task
SELECT agent_id, state, epoch, lease, delivery, attempt, unmet, phase, cause, reason, score, retries, sent_back, deaths,
    reexecutions, missing, request_id, waiting_since, held, fact, reason_message
FROM tasks WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- One dependency less for all dependants of a task. `unmet` is 0 where it was the last one.
-- name: meet
UPDATE tasks SET unmet = unmet - 1
WHERE board = :board AND plan_id = :plan_id AND unmet > 0 AND task_id IN (
    SELECT dependant FROM edges WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id)
RETURNING task_id, unmet, state, delivery

-- name: meet_one
UPDATE tasks SET unmet = unmet - 1
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id
RETURNING unmet, state

-- name: meet_first
UPDATE tasks SET unmet = 0
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND unmet = 1 AND state = 'PENDING' AND delivery IS NULL

-- name: activate
UPDATE tasks SET unmet = unmet - 1, held = 0
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND held = 1
RETURNING unmet, state

-- Tasks that wait for nothing and were not considered yet.
-- name: due_tasks
SELECT task_id, delivery FROM tasks
WHERE board = :board AND plan_id = :plan_id AND task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state = 'PENDING' AND o.unmet = 0
    ORDER BY o.task_id LIMIT :limit)
ORDER BY task_id

-- The server would look at every task of the plan for each of them.
-- name: due_tasks@postgres
SELECT task_id, delivery FROM tasks
WHERE board = :board AND plan_id = :plan_id AND state = 'PENDING' AND unmet = 0
ORDER BY task_id LIMIT :limit

-- name: queue_task
UPDATE tasks
SET state = 'READY', cause = :cause, delivery = :delivery, queued = :queued, updated_at = :at, phase = NULL,
    attempt = :attempt, missing = NULL, request_id = NULL, waiting_since = NULL, reason = NULL, reason_message = NULL
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- A task gets another command, which is in no queue yet.
-- name: ready_task
UPDATE tasks
SET state = 'READY', cause = :cause, queued = NULL, updated_at = :at, phase = NULL, missing = NULL, request_id = NULL,
    waiting_since = NULL, reason = NULL, reason_message = NULL, fresh = 1, unproven = 0, unisolated = 0
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- name: reassign_task
UPDATE tasks SET agent_id = :agent_id WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- name: set_engine_task
UPDATE tasks
SET state = :state, cause = :cause, reason = :reason, reason_message = :reason_message, queued = NULL, phase = NULL, updated_at = :at, missing = :missing,
    request_id = :request_id, fresh = 1, unproven = :unproven,
    waiting_since = CASE WHEN :state LIKE 'BLOCKED%' THEN coalesce(waiting_since, :at) ELSE NULL END
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- name: queue_first
UPDATE tasks
SET state = 'READY', cause = :cause, delivery = :delivery, queued = :queued, updated_at = :at, attempt = :attempt, unmet = 0
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND lease IS NULL
    AND unmet = 1 AND state = 'PENDING' AND delivery IS NULL

-- name: set_phase
UPDATE tasks SET phase = :phase
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND lease = :lease

-- A task that refused an input waits for another version of it.
-- name: wait_for_input
UPDATE tasks SET waiting_since = :at, missing = :missing
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- What a task made, as far as it is on its way or there; not what people gave it.
-- name: outputs_in_force
SELECT id, message_id, state, seq, output_name, command_id, envelope FROM messages
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND type = 'artifact' AND output_name IS NOT NULL
    AND producer <> :gateway AND state IN ('stored', 'delivered')
ORDER BY output_name DESC, seq DESC, id DESC

-- What a task had made before a message was written, the newest version of each output first, withdrawn ones included.
-- name: versions_before
SELECT output_name, message_id, seq, state, producer, envelope FROM messages
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND type = 'artifact' AND output_name IS NOT NULL
    AND id < :before
ORDER BY output_name DESC, seq DESC, id DESC

-- name: withdraw_deliveries
UPDATE deliveries SET state = 'superseded', finished_at = :at, details = :details
WHERE board = :board AND message = :message AND state IN ('stored', 'delivered', 'claimed')
RETURNING id

-- name: order_of_delivery
SELECT m.id, m.message_id, m.state, m.seq, m.command_id, m.envelope, d.receiver, d.state AS delivery_state, m.sha256
FROM deliveries AS d JOIN messages AS m ON m.id = d.message
WHERE d.board = :board AND d.id = :id

-- A turn that is to end because its inputs were replaced: it keeps its lease until nothing of it runs any more.
-- name: revoke_turn
UPDATE tasks SET epoch = epoch + 1, cause = 'SUPERSEDED', token = NULL
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND lease IS NOT NULL AND cause <> 'SUPERSEDED'
RETURNING lease

-- name: set_unmet
UPDATE tasks SET unmet = :unmet WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- Dependants that have not begun wait for a task again.
-- name: unmeet
UPDATE tasks SET unmet = unmet + 1
WHERE board = :board AND plan_id = :plan_id AND (state = 'PENDING' OR unmet > 0) AND task_id IN (
    SELECT dependant FROM edges WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id)

-- name: run_state
SELECT state FROM runs WHERE board = :board AND plan_id = :plan_id

-- name: unqueue_plan
UPDATE tasks SET queued = NULL
WHERE board = :board AND plan_id = :plan_id AND queued IS NOT NULL AND task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED') AND o.state = 'READY')

-- name: requeue_plan
UPDATE tasks SET queued = delivery
WHERE board = :board AND plan_id = :plan_id AND queued IS NULL AND unmet IS NOT NULL AND task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED') AND o.state = 'READY')
RETURNING agent_id

-- Tasks of one agent of a plan, which it finds elsewhere.
-- name: unqueue_agent
UPDATE tasks SET queued = NULL
WHERE board = :board AND plan_id = :plan_id AND agent_id = :agent_id AND queued IS NOT NULL AND task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED') AND o.state = 'READY')

-- Messages that need no folder.
-- name: add_arrived_artifact
INSERT INTO deliveries (board, plan_id, message, receiver, delivery_id, state, shown, priority, stored_at, ack,
    consumed_at, finished_at)
VALUES (:board, :plan_id, :message, :receiver, :delivery_id, 'processed', 'processed', 1, :at, 'SUCCEEDED', :at, :at)

-- A message that has arrived when it is written: a command that waits in its agent's queue or that the agent gets at once,
-- or an output.
-- name: put_delivery
INSERT INTO deliveries (id, board, plan_id, message, receiver, delivery_id, state, shown, priority, stored_at, ack,
    consumed_at, injected_at, finished_at, prompt_sha256)
VALUES (:id, :board, :plan_id, :message, :receiver, :delivery_id, :state, :state, :priority, :at, :ack, :taken_at,
    :injected_at, :finished_at, :prompt_sha256)

-- name: put_delivery@postgres
INSERT INTO deliveries (id, board, plan_id, message, receiver, delivery_id, state, shown, priority, stored_at, ack,
    consumed_at, injected_at, finished_at, prompt_sha256)
OVERRIDING SYSTEM VALUE
VALUES (:id, :board, :plan_id, :message, :receiver, :delivery_id, :state, :state, :priority, :at, :ack, :taken_at,
    :injected_at, :finished_at, :prompt_sha256)

-- name: last_seq
SELECT coalesce(max(seq), 0) AS seq FROM messages
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND type = 'command'

-- The newest version of each output of a task.
-- name: versions_from
SELECT m.output_name, m.message_id, m.seq, m.command_id, m.accepted_at, m.envelope
FROM messages AS m
WHERE m.board = :board AND m.plan_id = :plan_id AND m.task_id = :task_id AND m.type = 'artifact'
    AND m.output_name IS NOT NULL AND m.state = 'delivered'
ORDER BY m.output_name DESC, m.seq DESC, m.id DESC

-- name: command_of_delivery
SELECT m.message_id, m.envelope FROM deliveries AS d JOIN messages AS m ON m.id = d.message
WHERE d.board = :board AND d.id = :id

-- name: add_round
UPDATE tasks SET reexecutions = reexecutions + :rounds
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id
RETURNING reexecutions

-- name: note_request
UPDATE tasks SET request_id = :request_id, reason = :reason, reason_message = :reason_message
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- Whether anything of a plan continues by itself: tasks that run, wait in a queue, or are due. Not what a person does, and
-- not what an agent elsewhere has yet to take.
-- And the state that the plan is in at that moment.
-- name: activity
SELECT
    (SELECT count(*) FROM tasks AS t
     WHERE t.board = :board AND t.plan_id = :plan_id AND t.lease IS NOT NULL AND t.phase NOT IN ('asking', 'offered', 'awaiting')
        AND t.task_id IN (
        SELECT o.task_id FROM tasks AS o
        WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED')
            AND o.state = 'RUNNING')) AS working,
    (SELECT count(*) FROM tasks AS t
     WHERE t.board = :board AND t.plan_id = :plan_id AND t.queued IS NOT NULL AND t.task_id IN (
        SELECT o.task_id FROM tasks AS o
        WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED')
            AND o.state = 'READY')) AS queued,
    (SELECT count(*) FROM tasks WHERE board = :board AND plan_id = :plan_id AND state = 'PENDING' AND unmet = 0) AS due,
    (SELECT state FROM runs WHERE board = :board AND plan_id = :plan_id) AS state,
    (SELECT open FROM runs WHERE board = :board AND plan_id = :plan_id) AS open

-- Every task of a plan, for people.
-- name: standings
SELECT task_id, agent_id, state, cause, score
FROM tasks WHERE board = :board AND plan_id = :plan_id AND unmet IS NOT NULL ORDER BY task_id

-- name: skipped_by_failure
SELECT count(*) AS tasks FROM tasks
WHERE board = :board AND plan_id = :plan_id AND state = 'SKIPPED' AND cause = 'DEPENDENCY_SKIP'

-- What is shown of commands and receipts.
-- name: cursor_value
SELECT value FROM cursors WHERE board = :board AND name = :name

-- name: set_cursor
INSERT INTO cursors (board, name, value) VALUES (:board, :name, :value)
ON CONFLICT (board, name) DO UPDATE SET value = excluded.value

-- name: engine_commands
SELECT id AS seq, plan_id, name, envelope FROM messages
WHERE id > :after AND board || '' = :board AND type = 'command' AND producer = 'engine'
ORDER BY id LIMIT :limit

-- name: newest_message
SELECT coalesce(max(id), 0) AS newest FROM messages

-- name: ended_acks
SELECT seq, body FROM ledger WHERE seq > :after AND board || '' = :board AND kind = 'turn.ended'
ORDER BY seq LIMIT :limit

-- name: cancel_tasks
UPDATE tasks
SET state = 'FAILED', cause = 'CANCELLED', reason = :reason, reason_message = :reason_message, queued = NULL, phase = NULL, updated_at = :at,
    waiting_since = NULL, missing = NULL, request_id = NULL, lease = NULL, owner = NULL, token = NULL, leased_at = NULL
WHERE board = :board AND plan_id = :plan_id AND unmet IS NOT NULL AND state NOT IN ('COMPLETED', 'FAILED', 'SKIPPED')
RETURNING task_id

-- name: cancel_deliveries
UPDATE deliveries
SET state = 'processed', shown = CASE WHEN shown = '' THEN '' ELSE 'processed' END, ack = 'FAILED', finished_at = :at,
    consumed_at = coalesce(consumed_at, :at), details = :reason
WHERE board = :board AND state IN ('delivered', 'claimed') AND id IN (
    SELECT delivery FROM tasks WHERE board = :board AND plan_id = :plan_id AND cause = 'CANCELLED' AND delivery IS NOT NULL)

-- Tasks that something failed before them has stopped.
-- name: stopped_dependants
SELECT e.dependant, t.state
FROM edges AS e CROSS JOIN tasks AS t
WHERE e.board = :board AND e.plan_id = :plan_id AND e.task_id = :task_id
    AND t.board = e.board AND t.plan_id = e.plan_id AND t.task_id = e.dependant
    AND t.cause IN ('DEPENDENCY_SKIP', 'DEPENDENCY_BLOCK', 'DEPENDENCY_REPLAN')
ORDER BY e.dependant

-- name: fresh_start
UPDATE tasks SET retries = 0, sent_back = 0, deaths = 0, reexecutions = 0, score = NULL
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- Tasks that waited for a person, and what was answered.
-- name: answered_tasks
SELECT t.task_id, t.state, t.cause, t.delivery, r.response, r.answered_by
FROM tasks AS t CROSS JOIN requests AS r
WHERE t.board = :board AND t.plan_id = :plan_id AND t.task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED') AND o.state IN ('BLOCKED_WAITING_HUMAN', 'BLOCKED_WAITING_REVIEW'))
    AND t.unmet IS NOT NULL AND r.board = t.board AND r.request_id = t.request_id AND r.state = 'answered'
ORDER BY t.task_id

-- name: answered_tasks@postgres
SELECT t.task_id, t.state, t.cause, t.delivery, r.response, r.answered_by
FROM (
    SELECT * FROM tasks WHERE board = :board AND plan_id = :plan_id AND state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED')
        AND state = 'BLOCKED_WAITING_HUMAN'
    UNION ALL
    SELECT * FROM tasks WHERE board = :board AND plan_id = :plan_id AND state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED')
        AND state = 'BLOCKED_WAITING_REVIEW') AS t CROSS JOIN requests AS r
WHERE t.unmet IS NOT NULL AND r.board = t.board AND r.request_id = t.request_id AND r.state = 'answered'
ORDER BY t.task_id

-- name: waiting_tasks
SELECT task_id, waiting_since, request_id, cause FROM tasks
WHERE board = :board AND plan_id = :plan_id AND unmet IS NOT NULL AND task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED') AND o.state = 'BLOCKED_WAITING_INPUT')
ORDER BY task_id

-- name: waiting_tasks@postgres
SELECT task_id, waiting_since, request_id, cause FROM tasks
WHERE board = :board AND plan_id = :plan_id AND unmet IS NOT NULL
    AND state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED') AND state = 'BLOCKED_WAITING_INPUT'
ORDER BY task_id

-- Refusals that came through folders.
-- name: add_refusal
INSERT INTO refusals (board, refusal_id, plan_id, task_id, agent_id, body, at)
VALUES (:board, :refusal_id, :plan_id, :task_id, :agent_id, :body, :at)
ON CONFLICT (board, refusal_id) DO NOTHING

-- A receipt that the agent did not write, although the outputs are there.
-- name: acknowledge_by_hand
UPDATE deliveries
SET state = 'processed', ack = :ack, finished_at = :at, consumed_at = coalesce(consumed_at, :at), details = :details,
    acted_at = coalesce(acted_at, :at)
WHERE board = :board AND id = :id AND state IN ('delivered', 'claimed')

-- A new revision.
-- name: nodes_of
SELECT task_id, node FROM nodes WHERE board = :board AND plan_id = :plan_id ORDER BY task_id

-- name: removed_tasks
SELECT task_id FROM tasks
WHERE board = :board AND plan_id = :plan_id AND state = 'SKIPPED' AND cause = 'REMOVED' ORDER BY task_id

-- name: held_tasks
SELECT task_id FROM tasks WHERE board = :board AND plan_id = :plan_id AND held = 1 ORDER BY task_id

-- name: drop_edges
DELETE FROM edges WHERE board = :board AND plan_id = :plan_id

-- name: drop_nodes
DELETE FROM nodes WHERE board = :board AND plan_id = :plan_id

-- name: drop_tasks
DELETE FROM tasks WHERE board = :board AND plan_id = :plan_id

-- name: drop_task
DELETE FROM tasks WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND lease IS NULL

-- name: recount_task
UPDATE tasks SET unmet = :unmet, held = :held, agent_id = :agent_id, priority = :priority
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- name: recount_run
UPDATE runs
SET open = (SELECT count(*) FROM tasks AS t WHERE t.board = :board AND t.plan_id = :plan_id AND t.unmet IS NOT NULL
        AND t.state NOT IN ('COMPLETED', 'FAILED', 'SKIPPED')),
    completed = (SELECT count(*) FROM tasks AS t WHERE t.board = :board AND t.plan_id = :plan_id AND t.state = 'COMPLETED'),
    failed = (SELECT count(*) FROM tasks AS t WHERE t.board = :board AND t.plan_id = :plan_id AND t.state = 'FAILED'),
    skipped = (SELECT count(*) FROM tasks AS t WHERE t.board = :board AND t.plan_id = :plan_id AND t.state = 'SKIPPED')
WHERE board = :board AND plan_id = :plan_id

-- name: set_run_closing
UPDATE runs SET closing = :closing WHERE board = :board AND plan_id = :plan_id

-- name: set_run_settings
UPDATE runs SET settings = :settings WHERE board = :board AND plan_id = :plan_id

-- name: withdraw_direct
UPDATE deliveries
SET state = 'processed', shown = CASE WHEN shown = '' THEN '' ELSE 'processed' END, ack = 'FAILED', finished_at = :at,
    consumed_at = coalesce(consumed_at, :at), details = :details
WHERE board = :board AND id = :id AND state IN ('delivered', 'claimed')
