-- Checks that agents say are wrong. Each is a question to a person, and changes nothing.
CREATE TABLE disputes (
    board TEXT NOT NULL,
    request_id TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    check_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open',
    at TEXT NOT NULL,
    answered_by TEXT,
    answered_at TEXT,
    note TEXT,
    PRIMARY KEY (board, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX disputes_of_task ON disputes (board, plan_id, task_id, at);

-- How many of them an agent raised, and what people said of them.
ALTER TABLE honesty ADD COLUMN disputed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE honesty ADD COLUMN upheld INTEGER NOT NULL DEFAULT 0;
ALTER TABLE honesty ADD COLUMN dismissed INTEGER NOT NULL DEFAULT 0;
