-- Tasks that have failed and wait for a person's word: few, whatever else has failed.
CREATE INDEX tasks_asked ON tasks (board, request_id) WHERE state = 'FAILED' AND request_id IS NOT NULL;

-- What agents who work in folders refuse, until whoever runs the plan has it done again.
CREATE TABLE refusals (
    board TEXT NOT NULL,
    refusal_id TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    body BLOB NOT NULL,
    at TEXT NOT NULL,
    ended_at TEXT,
    PRIMARY KEY (board, refusal_id)
) STRICT;
CREATE INDEX refusals_open ON refusals (board, plan_id, at) WHERE ended_at IS NULL;
