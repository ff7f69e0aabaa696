-- Whether a plan looks once more at what was proven before it ends: when nothing of it is open, it is closing.
ALTER TABLE runs ADD COLUMN closing INTEGER NOT NULL DEFAULT 0;

-- Done tasks of which something that was proven has changed since.
CREATE INDEX tasks_stale ON tasks (board, plan_id, fresh) WHERE fresh = 0;

-- Checks of other tasks (`owner`) that a task broke, and that its promise demands from then on.
CREATE TABLE joined_checks (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    check_id TEXT NOT NULL,
    body BLOB NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, owner, check_id)
) STRICT, WITHOUT ROWID;
