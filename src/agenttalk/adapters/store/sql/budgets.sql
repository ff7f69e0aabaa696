-- What turns, plans and days may cost, and what checkpoints held against tasks.

-- What may be spent on a day, in the system's database.
-- name: day_limit
SELECT cost_usd, by, at FROM day_limits WHERE name = :name

-- name: put_day_limit
INSERT INTO day_limits (name, cost_usd, by, at) VALUES (:name, :cost_usd, :by, :at)
ON CONFLICT (name) DO UPDATE SET cost_usd = excluded.cost_usd, by = excluded.by, at = excluded.at

-- name: drop_day_limit
DELETE FROM day_limits WHERE name = :name RETURNING name

-- Budgets.
-- name: spending
SELECT tokens, cost_usd, seconds, tool_calls FROM spendings WHERE board = :board AND name = :name

-- name: add_spending
INSERT INTO spendings (board, name, tokens, cost_usd, seconds, tool_calls)
VALUES (:board, :name, :tokens, :cost_usd, :seconds, :tool_calls)
ON CONFLICT (board, name) DO UPDATE
SET tokens = spendings.tokens + excluded.tokens, cost_usd = spendings.cost_usd + excluded.cost_usd,
    seconds = spendings.seconds + excluded.seconds, tool_calls = spendings.tool_calls + excluded.tool_calls
RETURNING tokens, cost_usd, seconds, tool_calls

-- name: clear_spending
DELETE FROM spendings WHERE board = :board AND name = :name

-- Everything that a plan has used so far, for one that is limited only now.
-- name: used_by_plan
SELECT CAST(coalesce(sum(tokens), 0) AS BIGINT) AS tokens, coalesce(sum(cost_usd), 0) AS cost_usd,
    coalesce(sum(seconds), 0) AS seconds, CAST(coalesce(sum(tool_calls), 0) AS BIGINT) AS tool_calls
FROM tasks WHERE board = :board AND plan_id = :plan_id AND unmet IS NOT NULL

-- What checkpoints held against tasks.
-- name: put_objection
INSERT INTO objections (board, plan_id, task_id, checkpoint, digest, severity, reasons, trace_id, at)
VALUES (:board, :plan_id, :task_id, :checkpoint, :digest, :severity, :reasons, :trace_id, :at)
ON CONFLICT (board, plan_id, task_id, checkpoint, digest) DO UPDATE
SET trace_id = excluded.trace_id, at = excluded.at

-- name: objections_to
SELECT task_id, checkpoint, severity, reasons, trace_id, at, overridden_by, why FROM objections
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id
ORDER BY at, checkpoint, digest

-- name: objections_in
SELECT task_id, checkpoint, severity, reasons, trace_id, at, overridden_by, why FROM objections
WHERE board = :board AND plan_id = :plan_id
ORDER BY task_id, at, checkpoint, digest

-- name: override
UPDATE objections SET overridden_by = :by, why = :why
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND checkpoint = :checkpoint AND digest = :digest

-- A task that was held up goes on with the command that it had.
-- name: requeue_task
UPDATE tasks
SET state = 'READY', cause = 'DECIDED', queued = :queued, updated_at = :at, reason = NULL, request_id = NULL,
    waiting_since = NULL
WHERE board = :board AND plan_id = :plan_id AND task_id = :task_id AND state = 'BLOCKED_WAITING_REVIEW'
    AND cause = 'SOFT_DENIED'
RETURNING agent_id

-- Tasks that wait because something that all plans share is used up.
-- name: held_by
SELECT t.plan_id, t.task_id, t.delivery, t.request_id, t.fact
FROM runs AS r JOIN tasks AS t ON t.board = r.board AND t.plan_id = r.plan_id
WHERE r.board || '' = :board AND r.state <> 'ENDED' AND t.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED')
    AND t.state = 'BLOCKED_WAITING_REVIEW' AND t.cause = 'SOFT_DENIED' AND t.reason_message LIKE :like
ORDER BY t.plan_id, t.task_id

-- Accounts whose provider takes no work.
-- name: account_waits
SELECT account, agent, kind, text, until, number FROM account_waits WHERE board = :board ORDER BY account

-- name: put_account_wait
INSERT INTO account_waits (board, account, agent, kind, text, until, number)
VALUES (:board, :account, :agent, :kind, :text, :until, :number)
ON CONFLICT (board, account) DO UPDATE
SET agent = excluded.agent, kind = excluded.kind, text = excluded.text, until = excluded.until, number = excluded.number

-- Tasks in the queue of an agent whose account waits say so, as far as they do not say it yet.
-- name: hold_for_account
UPDATE tasks
SET cause = 'ACCOUNT_LIMIT', reason = :reason, reason_message = :reason_message, updated_at = :at
WHERE board = :board AND plan_id = :plan_id AND task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED') AND o.state = 'READY')
    AND agent_id || '' = :agent_id AND queued IS NOT NULL
    AND (cause || '' <> 'ACCOUNT_LIMIT' OR coalesce(reason_message, '') <> :reason_message)

-- Tasks of a plan do not say it any more once a wait is over. Those whose account still waits say it again when they are next.
-- name: release_accounts
UPDATE tasks SET cause = 'ACCOUNT_FREE', reason = NULL, reason_message = NULL, updated_at = :at
WHERE board = :board AND plan_id = :plan_id AND task_id IN (
    SELECT o.task_id FROM tasks AS o
    WHERE o.board = :board AND o.plan_id = :plan_id AND o.state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED') AND o.state = 'READY')
    AND queued IS NOT NULL AND cause || '' = 'ACCOUNT_LIMIT'
