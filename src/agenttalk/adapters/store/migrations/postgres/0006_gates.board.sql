-- Calls of tools that all turns of a task made.
ALTER TABLE tasks ADD COLUMN tool_calls bigint NOT NULL DEFAULT 0;
-- What was used of a budget: by a task that has one, by a plan with limits, on a day that is limited.
CREATE TABLE spendings (
    board text NOT NULL,
    name text NOT NULL,
    tokens bigint NOT NULL,
    cost_usd double precision NOT NULL,
    seconds double precision NOT NULL,
    tool_calls bigint NOT NULL,
    PRIMARY KEY (board, name)
);
-- What checkpoints held against tasks: warnings, and denials with who has overridden them. What is allowed without a word
-- stands in the ledger alone. `digest` is the hash of the reasons.
CREATE TABLE objections (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    checkpoint text NOT NULL,
    digest text NOT NULL,
    severity text NOT NULL,
    reasons bytea NOT NULL,
    trace_id text NOT NULL,
    at text NOT NULL,
    overridden_by text,
    why text,
    PRIMARY KEY (board, plan_id, task_id, checkpoint, digest)
);
