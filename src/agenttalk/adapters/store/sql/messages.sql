-- Plans and tasks as messages know them, messages, deliveries, dead letters and published files.

-- Plans.
-- name: plans
SELECT plan_id, origin, dag_sha256, revision, halted, sent, delivered, superseded, duplicate, dead
FROM plans WHERE board = :board ORDER BY plan_id

-- name: plan
SELECT plan_id, origin, dag_sha256, revision, halted, sent, delivered, superseded, duplicate, dead
FROM plans WHERE board = :board AND plan_id = :plan_id

-- name: plan_documents
SELECT dag, pointer, manifest FROM documents WHERE board = :board AND plan_id = :plan_id

-- name: plan_manifest
SELECT manifest FROM documents WHERE board = :board AND plan_id = :plan_id

-- name: put_plan
INSERT INTO plans (board, plan_id, origin, dag_sha256, revision, halted)
VALUES (:board, :plan_id, :origin, :dag_sha256, :revision, :halted)
ON CONFLICT (board, plan_id) DO UPDATE
SET dag_sha256 = excluded.dag_sha256, revision = excluded.revision, halted = excluded.halted

-- name: put_documents
INSERT INTO documents (board, plan_id, dag, pointer, manifest)
VALUES (:board, :plan_id, :dag, :pointer, :manifest)
ON CONFLICT (board, plan_id) DO UPDATE
SET dag = excluded.dag, pointer = excluded.pointer, manifest = excluded.manifest

-- name: add_plan
INSERT INTO plans (board, plan_id, origin)
VALUES (:board, :plan_id, :origin)
ON CONFLICT (board, plan_id) DO NOTHING

-- name: halt_plan
UPDATE plans SET halted = :why
WHERE board = :board AND plan_id = :plan_id AND halted IS DISTINCT FROM :why
RETURNING plan_id

-- name: tally
UPDATE plans
SET sent = sent + :sent, delivered = delivered + :delivered, superseded = superseded + :superseded,
    duplicate = duplicate + :duplicate, dead = dead + :dead
WHERE board = :board AND plan_id = :plan_id

-- name: in_flight
SELECT count(*) AS messages FROM messages WHERE board = :board AND plan_id = :plan_id AND state = 'stored'

-- Plans in which a message is in no state, or in two. One statement, so that it sees one moment. Plans in which nothing
-- is under way are not gone through: first those whose counts say that something is, then those whose messages do.
-- name: unbalanced_plans
SELECT p.plan_id
FROM plans AS p
WHERE p.board = :board AND p.sent - p.delivered - p.superseded - p.duplicate - p.dead > 0
    AND p.sent - p.delivered - p.superseded - p.duplicate - p.dead <> (
        SELECT count(*) FROM messages AS m WHERE m.board = p.board AND m.plan_id = p.plan_id AND m.state = 'stored')
UNION
SELECT p.plan_id
FROM plans AS p
WHERE p.board = :board AND p.sent - p.delivered - p.superseded - p.duplicate - p.dead < 0
UNION
SELECT p.plan_id
FROM (SELECT DISTINCT plan_id FROM messages WHERE board = :board AND state = 'stored') AS m
CROSS JOIN plans AS p
WHERE p.board = :board AND p.plan_id = m.plan_id AND p.sent = p.delivered + p.superseded + p.duplicate + p.dead
ORDER BY plan_id

-- name: counted_messages
SELECT state, count(*) AS messages FROM messages WHERE board = :board AND plan_id = :plan_id GROUP BY state ORDER BY state

-- name: counted_deadletters
SELECT count(*) AS deadletters FROM deadletters
WHERE board = :board AND plan_id = :plan_id AND state = 'open' AND box = 'outbox' AND name LIKE '%.msg.json'

-- Tasks.
-- name: put_task
INSERT INTO tasks (board, plan_id, task_id, agent_id, updated_at)
VALUES (:board, :plan_id, :task_id, :agent_id, :at)
ON CONFLICT (board, plan_id, task_id) DO UPDATE SET agent_id = excluded.agent_id
WHERE tasks.agent_id <> excluded.agent_id

-- name: task
SELECT agent_id, state, updated_at, epoch, lease, owner, delivery, attempt, waiting_since, missing, request_id,
    reexecutions, progress
FROM tasks WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- name: tasks_of
SELECT task_id FROM tasks WHERE board = :board AND plan_id = :plan_id ORDER BY task_id

-- name: set_task_state
UPDATE tasks SET state = :state, updated_at = :at
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND state <> :state
RETURNING task_id

-- name: set_progress
UPDATE tasks SET progress = :progress
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id

-- Messages.
-- name: message_by_id
SELECT id, sha256, state, type, task_id, command_id, seq, producer, name
FROM messages WHERE board = :board AND plan_id = :plan_id AND message_id = :message_id

-- name: message
SELECT message_id, sha256, state, type, task_id, command_id, seq, output_name, producer, name, envelope
FROM messages WHERE board = :board AND id = :id

-- name: add_message
INSERT INTO messages (board, plan_id, message_id, sha256, type, task_id, command_id, seq, output_name, producer, name,
    envelope, dag_sha256, accepted_at, state)
VALUES (:board, :plan_id, :message_id, :sha256, :type, :task_id, :command_id, :seq, :output_name, :producer, :name,
    :envelope, :dag_sha256, :at, :state)
RETURNING id

-- The ids of new messages and deliveries, for transactions that write many of them together.
-- name: free_messages
SELECT coalesce(max(id), 0) + 1 AS id FROM messages

-- name: free_messages@postgres
SELECT nextval('messages_id_seq') AS id FROM generate_series(1, :many)

-- name: free_deliveries
SELECT coalesce(max(id), 0) + 1 AS id FROM deliveries

-- name: free_deliveries@postgres
SELECT nextval('deliveries_id_seq') AS id FROM generate_series(1, :many)

-- name: free_rows
SELECT (SELECT coalesce(max(id), 0) + 1 FROM messages) AS message,
    (SELECT coalesce(max(id), 0) + 1 FROM deliveries) AS delivery,
    (SELECT coalesce(max(seq), 0) + 1 FROM ledger) AS seq

-- name: free_rows@postgres
SELECT nextval('messages_id_seq') AS message, nextval('deliveries_id_seq') AS delivery, nextval('ledger_seq_seq') AS seq
FROM generate_series(1, :many)

-- name: put_message
INSERT INTO messages (id, board, plan_id, message_id, sha256, type, task_id, command_id, seq, output_name, producer, name,
    envelope, dag_sha256, accepted_at, state)
VALUES (:id, :board, :plan_id, :message_id, :sha256, :type, :task_id, :command_id, :seq, :output_name, :producer, :name,
    :envelope, :dag_sha256, :at, :state)

-- name: put_message@postgres
INSERT INTO messages (id, board, plan_id, message_id, sha256, type, task_id, command_id, seq, output_name, producer, name,
    envelope, dag_sha256, accepted_at, state)
OVERRIDING SYSTEM VALUE
VALUES (:id, :board, :plan_id, :message_id, :sha256, :type, :task_id, :command_id, :seq, :output_name, :producer, :name,
    :envelope, :dag_sha256, :at, :state)

-- name: newest_order
SELECT id, message_id, command_id, seq
FROM messages
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND dag_sha256 = :dag_sha256 AND type = 'command'
ORDER BY seq DESC, (state = 'superseded'), id
LIMIT 1

-- name: earlier_orders
SELECT m.id, m.message_id, m.command_id, m.seq, m.state, d.id AS delivery, d.receiver,
    d.state AS delivery_state, d.consumed_at
FROM messages AS m JOIN deliveries AS d ON d.message = m.id
WHERE m.board = :board AND m.plan_id = :plan_id AND m.task_id = :task_id AND m.dag_sha256 = :dag_sha256
    AND m.type = 'command' AND m.seq < :seq AND d.state IN ('stored', 'delivered', 'claimed')
ORDER BY m.id

-- name: newest_versions
SELECT message_id, seq, envelope
FROM messages
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND output_name = :output_name
    AND type = 'artifact' AND state <> 'superseded'
ORDER BY seq DESC, id DESC
LIMIT :limit

-- name: set_message_state
UPDATE messages SET state = :state WHERE board = :board AND id = :id AND state <> :state
RETURNING id

-- Deliveries.
-- name: add_delivery
INSERT INTO deliveries (board, plan_id, message, receiver, delivery_id, state, priority)
VALUES (:board, :plan_id, :message, :receiver, :delivery_id, 'stored', :priority)
ON CONFLICT (message, receiver) DO NOTHING
RETURNING id

-- A delivery is under way until it is noted that its files reached the inbox, also when it was claimed before that.
-- name: deliveries_under_way
SELECT d.id, d.state, d.message, d.receiver, d.delivery_id, m.message_id, m.sha256, m.type, m.task_id, m.command_id, m.output_name,
    m.producer, m.name, m.envelope
FROM deliveries AS d JOIN messages AS m ON m.id = d.message
WHERE d.board = :board AND d.plan_id = :plan_id AND d.stored_at IS NULL AND d.state <> 'superseded' AND d.id > :after
ORDER BY d.id
LIMIT :limit

-- name: plans_under_way
SELECT DISTINCT plan_id FROM deliveries
WHERE board = :board AND stored_at IS NULL AND state <> 'superseded'
ORDER BY plan_id

-- Inboxes in which something lies that has not ended.
-- name: open_boxes
SELECT DISTINCT receiver, plan_id FROM deliveries
WHERE board = :board AND state IN ('delivered', 'claimed')
ORDER BY receiver, plan_id

-- name: mark_delivered
UPDATE deliveries
SET stored_at = :at,
    shown = CASE state WHEN 'stored' THEN 'delivered' ELSE shown END,
    state = CASE state WHEN 'stored' THEN 'delivered' ELSE state END
WHERE board = :board AND id = :id AND stored_at IS NULL AND state <> 'superseded'
RETURNING id

-- The board is hidden from SQLite's planner, which would go through all deliveries that are under way.
-- name: undelivered_of
SELECT count(*) AS deliveries FROM deliveries
WHERE board || '' = :board AND message = :message AND stored_at IS NULL AND state <> 'superseded'

-- name: delivery_of
SELECT d.id, d.state, d.ack, d.consumed_at, d.shown, m.id AS message, m.type, m.task_id, m.command_id, m.seq
FROM deliveries AS d JOIN messages AS m ON m.id = d.message
WHERE m.board = :board AND m.plan_id = :plan_id AND m.message_id = :message_id AND d.receiver = :receiver

-- name: withdraw
UPDATE deliveries SET state = 'superseded', ack = :ack, finished_at = :at, details = :details
WHERE board = :board AND id = :id AND state IN ('stored', 'delivered', 'claimed')
RETURNING id

-- name: withdrawn_deliveries
SELECT d.id, d.plan_id, d.receiver, d.shown, m.message_id, m.name, m.sha256
FROM deliveries AS d JOIN messages AS m ON m.id = d.message
WHERE d.board = :board AND d.state = 'superseded' AND d.shown IN ('', 'stored', 'delivered')
    AND d.shown <> d.state
ORDER BY d.id
LIMIT :limit

-- name: set_shown
UPDATE deliveries SET shown = :state WHERE board = :board AND id = :id AND state = :state

-- name: acknowledge
UPDATE deliveries
SET ack = :ack, state = :state, shown = :shown, consumed_at = coalesce(consumed_at, :consumed_at),
    finished_at = :finished_at, details = :details
WHERE board = :board AND id = :id
RETURNING id

-- name: reserve_payload
INSERT INTO payloads (board, plan_id, receiver, path, delivery)
VALUES (:board, :plan_id, :receiver, :path, :delivery)
ON CONFLICT (board, plan_id, receiver, path) DO UPDATE SET delivery = payloads.delivery
RETURNING delivery

-- name: free_payloads
DELETE FROM payloads WHERE board = :board AND delivery = :delivery

-- Dead letters.
-- name: add_deadletter
INSERT INTO deadletters (board, plan_id, deadletter_id, key, code, reason, agent_id, box, name, message_id, sha256,
    original, retriable, at)
VALUES (:board, :plan_id, :deadletter_id, :key, :code, :reason, :agent_id, :box, :name, :message_id, :sha256,
    :original, :retriable, :at)
ON CONFLICT (board, key) DO NOTHING
RETURNING id

-- Dead letters before a place, the newest first. The board is compared in a way that hides it from SQLite's planner.
-- name: deadletters
SELECT deadletter_id, plan_id, code, reason, agent_id, box, name, message_id, sha256, original, retriable, tries, state, at, id
FROM deadletters
WHERE board || '' = :board AND id < :before
ORDER BY id DESC
LIMIT :limit

-- name: deadletter
SELECT deadletter_id, plan_id, code, reason, agent_id, box, name, message_id, sha256, original, retriable, tries, state, at, id
FROM deadletters WHERE board = :board AND deadletter_id = :deadletter_id

-- name: try_deadletter
UPDATE deadletters SET tries = tries + 1, state = :state
WHERE board = :board AND deadletter_id = :deadletter_id AND state = 'open' AND tries < :limit
RETURNING tries

-- Files of outboxes that are taken in and still lie there.
-- name: add_leaving
INSERT INTO leavings (board, plan_id, agent_id, name, inode, mtime_ns, target, reason, payloads)
VALUES (:board, :plan_id, :agent_id, :name, :inode, :mtime_ns, :target, :reason, :payloads)
ON CONFLICT (board, agent_id, plan_id, name) DO UPDATE
SET inode = excluded.inode, mtime_ns = excluded.mtime_ns, target = excluded.target, reason = excluded.reason,
    payloads = excluded.payloads

-- name: leavings
SELECT id, plan_id, agent_id, name, inode, mtime_ns, target, reason, payloads
FROM leavings WHERE board = :board ORDER BY id

-- name: left
DELETE FROM leavings WHERE board = :board AND id = :id

-- Control files.
-- name: control
SELECT sha256, body, agent_id FROM controls
WHERE board = :board AND plan_id = :plan_id AND kind = :kind AND id = :id

-- name: put_control
INSERT INTO controls (board, plan_id, kind, id, agent_id, sha256, body, at)
VALUES (:board, :plan_id, :kind, :id, :agent_id, :sha256, :body, :at)
ON CONFLICT (board, plan_id, kind, id) DO UPDATE SET sha256 = excluded.sha256, body = excluded.body, at = excluded.at

-- Files that an outbox has still to get.
-- name: add_handover
INSERT INTO handovers (board, plan_id, agent_id, name, content, message_id)
VALUES (:board, :plan_id, :agent_id, :name, :content, :message_id)
RETURNING id

-- name: handed_over
DELETE FROM handovers WHERE board = :board AND id = :id

-- name: order_by_command
SELECT message_id FROM messages
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND type = 'command' AND command_id = :command_id
LIMIT 1

-- name: count_round
UPDATE tasks SET reexecutions = reexecutions + :rounds
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND :rounds > 0

-- name: holder_of
SELECT p.delivery, m.message_id, m.name, m.sha256
FROM payloads AS p
JOIN deliveries AS d ON d.id = p.delivery AND d.state <> 'stored'
JOIN messages AS m ON m.id = d.message
WHERE p.board = :board AND p.plan_id = :plan_id AND p.receiver = :receiver AND p.path = :path

-- name: counted_tasks
SELECT state, count(*) AS tasks FROM tasks WHERE board = :board AND plan_id = :plan_id GROUP BY state ORDER BY state

-- Writing the same again leaves the version as it is, so nothing is written to the folder either.
-- The pointer to a DAG comes after the DAG, and both after everything else.
-- name: show_view
INSERT INTO views (board, path, rank, body, content)
VALUES (
    :board, :path,
    CASE WHEN :path LIKE '%/active_dag_ref.json' THEN 2 WHEN :path LIKE '%/task_dag.json' THEN 1 ELSE 0 END,
    :body, :content)
ON CONFLICT (board, path) DO UPDATE
SET body = excluded.body, content = excluded.content, version = views.version + 1
WHERE views.body IS DISTINCT FROM excluded.body OR views.content IS DISTINCT FROM excluded.content

-- Many files at once, whose texts come as one JSON object by path.
-- name: show_views
INSERT INTO views (board, path, rank, body)
SELECT
    :board, key,
    CASE WHEN key LIKE '%/active_dag_ref.json' THEN 2 WHEN key LIKE '%/task_dag.json' THEN 1 ELSE 0 END,
    CAST(value AS BLOB)
FROM json_each(:rows) WHERE true
ON CONFLICT (board, path) DO UPDATE
SET body = excluded.body, content = excluded.content, version = views.version + 1
WHERE views.body IS DISTINCT FROM excluded.body OR views.content IS DISTINCT FROM excluded.content

-- name: show_views@postgres
INSERT INTO views (board, path, rank, body)
SELECT
    :board, key,
    CASE WHEN key LIKE '%/active_dag_ref.json' THEN 2 WHEN key LIKE '%/task_dag.json' THEN 1 ELSE 0 END,
    convert_to(value, 'UTF8')
FROM json_each_text(:rows::json)
ON CONFLICT (board, path) DO UPDATE
SET body = excluded.body, content = excluded.content, version = views.version + 1
WHERE views.body IS DISTINCT FROM excluded.body OR views.content IS DISTINCT FROM excluded.content

-- name: view_exists
SELECT 1 AS found FROM views WHERE board = :board AND path = :path

-- name: view_body
SELECT body FROM views WHERE board = :board AND path = :path

-- The board is compared in a way that hides it from SQLite's planner, which would go through all views of a board
-- by their primary key rather than through the few of the partial index.
-- name: unshown_views
SELECT path, body, content, version
FROM views
WHERE board || '' = :board AND shown <> version
ORDER BY rank, path
LIMIT :limit

-- The writer of an older version may have overwritten a newer one: then it has to be written once more.
-- name: view_shown
UPDATE views SET shown = CASE WHEN version = :version THEN :version ELSE 0 END
WHERE board = :board AND path = :path AND (shown < :version OR version <> :version)

-- name: unshow_views
UPDATE views SET shown = 0
WHERE board = :board AND shown <> 0

-- name: views_under
SELECT path, body FROM views
WHERE board = :board AND path >= :first AND path < :last
ORDER BY path

-- name: journal_state
SELECT seq, base, size FROM journals WHERE board = :board AND plan_id = :plan_id AND base IS NOT NULL

-- What is known to be behind stays so when more comes: so a row changes once, and not with every step.
-- name: journal_grown
INSERT INTO journals (board, plan_id, latest)
VALUES (:board, :plan_id, :seq)
ON CONFLICT (board, plan_id) DO UPDATE SET latest = excluded.latest
WHERE journals.latest <= journals.seq AND journals.latest < excluded.latest

-- name: journal_written
INSERT INTO journals (board, plan_id, seq, base, size)
VALUES (:board, :plan_id, :seq, :base, :size)
ON CONFLICT (board, plan_id) DO UPDATE SET seq = excluded.seq, base = excluded.base, size = excluded.size

-- How far the journal should have come. After `journal_written`, which holds up others that write the row.
-- name: journal_due
UPDATE journals SET latest = (
    SELECT coalesce(max(l.seq), 0) FROM ledger AS l WHERE l.board = :board AND l.subject = :subject)
WHERE board = :board AND plan_id = :plan_id

-- Plans whose newest delivery is not in their journal yet.
-- name: unwritten_journals
SELECT plan_id
FROM journals
WHERE board = :board AND latest - seq > 0
ORDER BY plan_id

-- A view that is already waiting to be written is not edited but new.
-- name: unshow_view
UPDATE views SET shown = 0
WHERE board = :board AND path = :path AND shown = version
RETURNING path
