-- Statements of an agent's heartbeat.

-- name: plans_of_agent
SELECT plan_id FROM deliveries
WHERE board = :board AND receiver = :agent_id AND state IN ('delivered', 'claimed')
UNION
SELECT plan_id FROM deliveries
WHERE board = :board AND receiver = :agent_id AND shown <> state AND shown = 'claimed'
UNION
SELECT plan_id FROM handovers WHERE board = :board AND agent_id = :agent_id
ORDER BY plan_id

-- Claiming.
-- name: known_delivery
SELECT m.id, m.sha256, m.name, d.id AS delivery, d.state, d.shown, d.ack
FROM messages AS m LEFT JOIN deliveries AS d ON d.message = m.id AND d.receiver = :receiver
WHERE m.board = :board AND m.plan_id = :plan_id AND m.message_id = :message_id

-- name: add_task
INSERT INTO tasks (board, plan_id, task_id, agent_id, updated_at)
VALUES (:board, :plan_id, :task_id, :agent_id, :at)
ON CONFLICT (board, plan_id, task_id) DO NOTHING

-- name: claim_delivery
UPDATE deliveries
SET state = 'claimed', shown = 'claimed', stored_at = coalesce(stored_at, :stored_at), consumed_at = :at,
    ack = CASE WHEN :ack <> '' THEN :ack ELSE ack END
WHERE board = :board AND id = :id AND state IN ('stored', 'delivered')
RETURNING id

-- A message that was withdrawn while its file was taken: the file is ours to put away.
-- name: taken_withdrawn
UPDATE deliveries SET shown = 'claimed'
WHERE board = :board AND id = :id AND state = 'superseded'
RETURNING id

-- Messages whose files lie in `.pending`, also of those that have still to be put away.
-- `state IN (...)` is what the index of open deliveries asks for, and SQLite does not conclude it from `state = ...`.
-- name: claimed_names
SELECT m.message_id, m.name
FROM deliveries AS d CROSS JOIN messages AS m
WHERE d.board = :board AND d.plan_id = :plan_id AND d.receiver = :receiver AND d.state IN ('delivered', 'claimed')
    AND d.state = 'claimed' AND m.id = d.message
UNION ALL
SELECT m.message_id, m.name
FROM deliveries AS d CROSS JOIN messages AS m
WHERE d.board = :board AND d.plan_id = :plan_id AND d.receiver = :receiver AND d.shown <> d.state
    AND d.shown = 'claimed' AND m.id = d.message

-- name: claimed_messages
SELECT d.id, m.message_id, m.sha256, m.type, m.task_id, m.command_id, m.seq, m.output_name, m.name, m.envelope,
    d.consumed_at
FROM deliveries AS d CROSS JOIN messages AS m
WHERE d.board = :board AND d.plan_id = :plan_id AND d.receiver = :receiver AND d.state IN ('delivered', 'claimed')
    AND d.state = 'claimed' AND +d.id > :after AND m.id = d.message AND m.type = :type
ORDER BY d.id
LIMIT :limit

-- name: claimed_orders
SELECT d.id, m.message_id, m.task_id, d.priority, m.seq
FROM deliveries AS d CROSS JOIN messages AS m
WHERE d.board = :board AND d.plan_id = :plan_id AND d.receiver = :receiver AND d.state IN ('delivered', 'claimed')
    AND d.state = 'claimed' AND m.id = d.message AND m.type = 'command'
ORDER BY d.priority, d.id

-- name: order_of
SELECT m.envelope, d.consumed_at, d.state
FROM deliveries AS d JOIN messages AS m ON m.id = d.message
WHERE d.board = :board AND d.id = :id

-- name: delivery_state
SELECT state, shown FROM deliveries WHERE board = :board AND id = :id

-- name: unclaimed_messages
SELECT m.message_id, m.name, m.envelope
FROM deliveries AS d CROSS JOIN messages AS m
WHERE d.board = :board AND d.plan_id = :plan_id AND d.receiver = :receiver AND d.state IN ('delivered', 'claimed')
    AND d.state = 'delivered' AND d.shown = 'delivered' AND m.id = d.message
ORDER BY d.id

-- Deliveries whose files do not show their state yet.
-- name: unsettled
SELECT d.id, d.state, m.message_id, m.type, m.task_id, m.output_name, m.seq, m.name, m.envelope
FROM deliveries AS d JOIN messages AS m ON m.id = d.message
WHERE d.board = :board AND d.receiver = :receiver AND d.plan_id = :plan_id AND d.shown <> d.state
    AND d.shown = 'claimed' AND d.state IN ('processed', 'dead', 'superseded')
ORDER BY d.id
LIMIT :limit

-- The end of a delivery. Writes nothing if the delivery has ended before.
-- name: finish_delivery
UPDATE deliveries
SET state = :state, ack = :ack, finished_at = :at, details = :details,
    acted_at = CASE WHEN :acted = 1 THEN :at ELSE acted_at END
WHERE board = :board AND id = :id AND state || '' = 'claimed'
RETURNING id

-- name: mark_injected
UPDATE deliveries SET injected_at = :at, prompt_sha256 = :prompt_sha256
WHERE board = :board AND id = :id

-- name: mark_artifact_injected
UPDATE deliveries SET injected_at = coalesce(injected_at, :at)
WHERE board = :board AND receiver = :receiver AND message = (
    SELECT id FROM messages WHERE board = :board AND plan_id = :plan_id AND message_id = :message_id)

-- Inputs.
-- name: inputs_of
SELECT task_id, output_name, path, sha256, seq, message_id, received_at, before_message_id, before_sha256
FROM inputs WHERE board = :board AND plan_id = :plan_id AND agent_id = :agent_id AND sha256 <> ''
ORDER BY task_id, output_name, path

-- name: inputs_of_output
SELECT path, sha256, seq, message_id, before_message_id, before_sha256
FROM inputs WHERE board = :board AND plan_id = :plan_id AND agent_id = :agent_id AND task_id = :task_id
    AND output_name = :output_name
ORDER BY path

-- name: put_input
INSERT INTO inputs (board, plan_id, agent_id, task_id, output_name, path, sha256, seq, message_id, received_at)
VALUES (:board, :plan_id, :agent_id, :task_id, :output_name, :path, :sha256, :seq, :message_id, :at)
ON CONFLICT (board, plan_id, agent_id, task_id, output_name, path) DO UPDATE
SET before_message_id = CASE WHEN inputs.sha256 <> excluded.sha256 THEN inputs.message_id ELSE inputs.before_message_id END,
    before_sha256 = CASE WHEN inputs.sha256 <> excluded.sha256 THEN inputs.sha256 ELSE inputs.before_sha256 END,
    sha256 = excluded.sha256, seq = excluded.seq, message_id = excluded.message_id, received_at = excluded.received_at

-- A file that the newest version of its output has not got any more has no hash.
-- name: retire_input
UPDATE inputs
SET before_message_id = message_id, before_sha256 = sha256, sha256 = '', seq = :seq, message_id = :message_id,
    received_at = :at
WHERE board = :board AND plan_id = :plan_id AND agent_id = :agent_id AND task_id = :task_id
    AND output_name = :output_name AND path = :path

-- Waiting.
-- name: wait_for_inputs
UPDATE tasks SET state = :state, missing = :missing, request_id = :request_id, updated_at = :at, delivery = :delivery,
    waiting_since = CASE WHEN delivery = :delivery THEN coalesce(waiting_since, :at) ELSE :at END,
    attempt = CASE WHEN delivery = :delivery THEN attempt ELSE 0 END
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND lease IS NULL
RETURNING waiting_since

-- name: stop_waiting
UPDATE tasks SET waiting_since = NULL, missing = NULL, request_id = NULL
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- Handing over.
-- name: drop_handover
DELETE FROM handovers WHERE board = :board AND plan_id = :plan_id AND agent_id = :agent_id AND name = :name

-- name: handovers_in
SELECT id, name, content, message_id
FROM handovers WHERE board = :board AND agent_id = :agent_id AND plan_id = :plan_id ORDER BY id LIMIT :limit

-- name: stages_of
SELECT d.injected_at, d.prompt_sha256, d.acted_at
FROM deliveries AS d JOIN messages AS m ON m.id = d.message
WHERE m.board = :board AND m.plan_id = :plan_id AND m.message_id = :message_id AND d.receiver = :receiver

-- What the token of an attempt is checked against; NULL while the task does not run.
-- name: attempt_token
SELECT epoch, token FROM tasks WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- The turns of a command that ended, oldest first.
-- name: ended_turns
SELECT body FROM ledger WHERE board = :board AND subject = :subject AND kind = 'turn.ended' ORDER BY seq
