-- Tasks that have failed and wait for a person's word: few, whatever else has failed.
CREATE INDEX tasks_asked ON tasks (board, request_id) WHERE state = 'FAILED' AND request_id IS NOT NULL;

-- What agents who work in folders refuse, until whoever runs the plan has it done again.
CREATE TABLE refusals (
    board text NOT NULL,
    refusal_id text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    agent_id text NOT NULL,
    body bytea NOT NULL,
    at text NOT NULL,
    ended_at text,
    PRIMARY KEY (board, refusal_id)
);
CREATE INDEX refusals_open ON refusals (board, plan_id, at) WHERE ended_at IS NULL;
