-- Calls of tools that all turns of a task made.
ALTER TABLE tasks ADD COLUMN tool_calls INTEGER NOT NULL DEFAULT 0;
-- What was used of a budget: by a task that has one, by a plan with limits, on a day that is limited.
CREATE TABLE spendings (
    board TEXT NOT NULL,
    name TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    seconds REAL NOT NULL,
    tool_calls INTEGER NOT NULL,
    PRIMARY KEY (board, name)
) STRICT, WITHOUT ROWID;
-- What checkpoints held against tasks: warnings, and denials with who has overridden them. What is allowed without a word
-- stands in the ledger alone. `digest` is the hash of the reasons.
CREATE TABLE objections (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    checkpoint TEXT NOT NULL,
    digest TEXT NOT NULL,
    severity TEXT NOT NULL,
    reasons BLOB NOT NULL,
    trace_id TEXT NOT NULL,
    at TEXT NOT NULL,
    overridden_by TEXT,
    why TEXT,
    PRIMARY KEY (board, plan_id, task_id, checkpoint, digest)
) STRICT, WITHOUT ROWID;
