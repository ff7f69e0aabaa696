-- Checks that agents say are wrong. Each is a question to a person, and changes nothing.
CREATE TABLE disputes (
    board text NOT NULL,
    request_id text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    check_id text NOT NULL,
    seq bigint NOT NULL,
    agent_id text NOT NULL,
    reason text NOT NULL,
    state text NOT NULL DEFAULT 'open',
    at text NOT NULL,
    answered_by text,
    answered_at text,
    note text,
    PRIMARY KEY (board, request_id)
);
CREATE INDEX disputes_of_task ON disputes (board, plan_id, task_id, at);

-- How many of them an agent raised, and what people said of them.
ALTER TABLE honesty ADD COLUMN disputed bigint NOT NULL DEFAULT 0;
ALTER TABLE honesty ADD COLUMN upheld bigint NOT NULL DEFAULT 0;
ALTER TABLE honesty ADD COLUMN dismissed bigint NOT NULL DEFAULT 0;
