-- Leases and turns, of tasks and of commands in inboxes.

-- The first task in an agent's queue.
-- name: next_task
SELECT t.plan_id, t.task_id, t.delivery, t.epoch, t.retries, t.sent_back, t.reason, t.fact, t.attempt, t.priority,
    t.agent_id, t.reason_message
FROM tasks AS t
WHERE t.board = :board AND t.agent_id = :agent_id AND t.queued IS NOT NULL AND EXISTS (
    SELECT 1 FROM runs AS r WHERE r.board = t.board AND r.plan_id = t.plan_id AND r.state = 'RUNNING')
ORDER BY t.priority, t.queued
LIMIT 1

-- The same without some plans.
-- name: next_task_apart
SELECT t.plan_id, t.task_id, t.delivery, t.epoch, t.retries, t.sent_back, t.reason, t.fact, t.attempt, t.priority,
    t.agent_id, t.reason_message
FROM tasks AS t
WHERE t.board = :board AND t.agent_id = :agent_id AND t.queued IS NOT NULL AND EXISTS (
    SELECT 1 FROM runs AS r WHERE r.board = t.board AND r.plan_id = t.plan_id AND r.state = 'RUNNING')
    AND t.plan_id NOT IN (SELECT value FROM json_each(:plans))
ORDER BY t.priority, t.queued
LIMIT 1

-- name: next_task_apart@postgres
SELECT t.plan_id, t.task_id, t.delivery, t.epoch, t.retries, t.sent_back, t.reason, t.fact, t.attempt, t.priority,
    t.agent_id, t.reason_message
FROM tasks AS t
WHERE t.board = :board AND t.agent_id = :agent_id AND t.queued IS NOT NULL AND EXISTS (
    SELECT 1 FROM runs AS r WHERE r.board = t.board AND r.plan_id = t.plan_id AND r.state = 'RUNNING')
    AND t.plan_id NOT IN (SELECT json_array_elements_text(:plans::json))
ORDER BY t.priority, t.queued
LIMIT 1

-- The tasks of a plan in an agent's queue.
-- name: queued_of_agent
SELECT t.task_id, t.delivery FROM tasks AS t
WHERE t.board = :board AND t.agent_id = :agent_id AND t.queued IS NOT NULL AND t.plan_id = :plan_id
ORDER BY t.priority, t.queued

-- name: lease_task
UPDATE tasks
SET state = 'RUNNING', cause = 'LEASED', phase = :phase, queued = NULL, epoch = epoch + 1, lease = :lease,
    owner = :owner, token = :token, leased_at = :at, updated_at = :at, attempt = attempt + 1,
    reason = CASE WHEN cause = 'ACCOUNT_LIMIT' THEN NULL ELSE reason END,
    reason_message = CASE WHEN cause = 'ACCOUNT_LIMIT' THEN NULL ELSE reason_message END
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND lease IS NULL AND state || '' = 'READY'
RETURNING epoch, attempt

-- A task whose command was just made is leased at once. It may have been in any state that can be ready.
-- name: start_task
UPDATE tasks
SET state = 'RUNNING', cause = 'LEASED', phase = :phase, queued = NULL, epoch = epoch + 1, lease = :lease,
    owner = :owner, token = :token, leased_at = :at, updated_at = :at, attempt = 1, delivery = :delivery,
    missing = NULL, request_id = NULL, waiting_since = NULL, reason = NULL, reason_message = NULL
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND lease IS NULL AND epoch = :epoch
RETURNING attempt

-- The same for the first command of a task that waited for one other task, which has just ended.
-- name: start_first
UPDATE tasks
SET state = 'RUNNING', cause = 'LEASED', phase = :phase, queued = NULL, epoch = 1, lease = :lease,
    owner = :owner, token = :token, leased_at = :at, updated_at = :at, attempt = 1, delivery = :delivery, unmet = 0
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND lease IS NULL AND epoch = :epoch
    AND unmet = 1 AND state = 'PENDING' AND delivery IS NULL

-- The same for a command of a foreign plan, which may run in any state of its task. The counters are those of the command.
-- name: lease_command
UPDATE tasks
SET state = 'RUNNING', cause = 'LEASED', phase = :phase, epoch = epoch + 1, lease = :lease, owner = :owner,
    token = :token, leased_at = :at, updated_at = :at, attempt = :attempt, delivery = :delivery, missing = :missing,
    retries = :retries, sent_back = :sent_back
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND lease IS NULL AND epoch = :epoch
RETURNING epoch

-- name: holds_lease
SELECT 1 AS found FROM tasks
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND epoch = :epoch AND lease = :lease

-- A task that waits for something that is not up to its agent, and why.
-- name: set_awaiting
UPDATE tasks SET phase = 'awaiting', reason = :reason, reason_message = :reason_message
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND lease = :lease

-- name: running_plan
SELECT plan_id FROM runs WHERE board = :board AND plan_id = :plan_id AND state = 'RUNNING'

-- The end of a turn. Nothing is written with an old epoch.
-- name: end_turn
UPDATE tasks
SET lease = NULL, owner = NULL, token = NULL, leased_at = NULL, phase = NULL, state = :state, cause = :cause,
    reason = :reason, reason_message = :reason_message, queued = :queued, updated_at = :at, score = :score, fact = :fact, unproven = :unproven,
    unisolated = :unisolated,
    retries = retries + :retries, sent_back = :sent_back, deaths = deaths + :deaths,
    seconds = seconds + :seconds, tokens = tokens + :tokens, cost_usd = cost_usd + :cost_usd,
    tool_calls = tool_calls + :tool_calls
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND epoch = :epoch AND lease = :lease
RETURNING task_id

-- name: queueing_agents
SELECT DISTINCT agent_id FROM tasks WHERE board = :board AND queued IS NOT NULL

-- name: working_tasks
SELECT plan_id, task_id, agent_id, epoch, lease, owner, delivery, phase FROM tasks
WHERE board || '' = :board AND lease IS NOT NULL AND unmet IS NOT NULL
ORDER BY plan_id, task_id

-- The leases of an agent for commands of foreign plans, whose tasks have no `unmet`.
-- The board is compared in a way that hides it from SQLite's planner; see `unshown_views`.
-- name: working_commands
SELECT t.plan_id, t.task_id, d.receiver AS agent_id, t.epoch, t.lease, t.owner, t.delivery, t.phase
FROM tasks AS t CROSS JOIN deliveries AS d
WHERE t.board || '' = :board AND t.lease IS NOT NULL AND t.unmet IS NULL AND d.id = t.delivery
    AND d.receiver = :agent_id
ORDER BY t.plan_id, t.task_id

-- How many tasks of a plan are at work, without those of people and those that no remote agent has taken yet.
-- name: at_work_in
SELECT count(*) AS tasks FROM tasks AS t
WHERE t.board = :board AND t.plan_id = :plan_id AND t.lease IS NOT NULL AND t.phase NOT IN ('asking', 'offered', 'awaiting')
    AND t.task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED')
        AND o.state = 'RUNNING')

-- name: score_of
SELECT score FROM tasks WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND state = 'COMPLETED'

-- A row is found by its id here. Without statistics PostgreSQL takes the index of all open deliveries instead, and reads the
-- whole of it; the state as an expression keeps it from that.
-- name: take_delivery
UPDATE deliveries
SET state = 'claimed', shown = 'claimed', ack = 'CONSUMED', consumed_at = coalesce(consumed_at, :at), injected_at = :at,
    prompt_sha256 = :prompt_sha256
WHERE board = :board AND id = :id AND state || '' IN ('delivered', 'claimed')
RETURNING consumed_at

-- name: end_delivery
UPDATE deliveries
SET state = 'processed', shown = 'processed', ack = :ack, finished_at = :at, details = :details,
    acted_at = CASE WHEN :acted = 1 THEN :at ELSE acted_at END
WHERE board = :board AND id = :id AND state || '' = 'claimed'
RETURNING id

-- name: note_times
UPDATE deliveries SET times = :times WHERE board = :board AND id = :id

-- Steering.
-- name: working_in_plan
SELECT lease, task_id FROM tasks
WHERE board = :board AND plan_id = :plan_id AND lease IS NOT NULL AND task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED') AND o.state = 'RUNNING')

-- Tasks that have no round left, and what a person answered; also of plans that have ended.
-- name: answered_failures
SELECT t.plan_id, t.task_id, t.request_id, r.response, r.answered_by
FROM tasks AS t CROSS JOIN requests AS r
WHERE t.board || '' = :board AND t.state = 'FAILED' AND t.request_id IS NOT NULL
    AND r.board = :board AND r.request_id = t.request_id AND r.state = 'answered'
ORDER BY t.plan_id, t.task_id

-- name: open_refusals
SELECT refusal_id, task_id, agent_id, body FROM refusals
WHERE board = :board AND plan_id = :plan_id AND ended_at IS NULL ORDER BY at, refusal_id

-- name: end_refusal
UPDATE refusals SET ended_at = :at WHERE board = :board AND refusal_id = :refusal_id

-- Tasks of folder agents, and how far their commands are.
-- name: tasks_by_hand
SELECT t.task_id, t.state, t.delivery, d.ack, d.details, t.updated_at
FROM tasks AS t CROSS JOIN deliveries AS d
WHERE t.board = :board AND t.plan_id = :plan_id AND t.task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED') AND o.state IN ('READY', 'RUNNING'))
    AND t.lease IS NULL AND t.queued IS NULL AND t.unmet IS NOT NULL AND d.id = t.delivery
ORDER BY t.task_id

-- name: end_by_hand
UPDATE tasks
SET state = :state, cause = :cause, reason = :reason, reason_message = :reason_message, updated_at = :at, phase = NULL, retries = retries + :retries,
    unproven = :unproven
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND state = 'RUNNING' AND lease IS NULL
RETURNING task_id
