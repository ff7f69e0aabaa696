-- A plan that the engine runs: whether it goes on, and how many of its tasks are where. `settings` holds its policies and
-- the profiles of its agents, as they were when it was submitted.
CREATE TABLE runs (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('SUBMITTED', 'RUNNING', 'PAUSED', 'ENDED')),
    settings BLOB NOT NULL,
    open INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    began_at TEXT NOT NULL,
    ended_at TEXT,
    PRIMARY KEY (board, plan_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_open ON runs (board, plan_id) WHERE state <> 'ENDED';

-- What is asked for in a task. It changes only with a new revision of the DAG. `wards` are tasks that run only if this one
-- says so, by a branch or by failing; `guards` those that can say so of this one.
CREATE TABLE nodes (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    node BLOB NOT NULL,
    wards BLOB,
    guards BLOB,
    PRIMARY KEY (board, plan_id, task_id)
) STRICT, WITHOUT ROWID;

-- Who waits for whom. An answered edge is gone through once and stays.
CREATE TABLE edges (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    dependant TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, dependant)
) STRICT, WITHOUT ROWID;

-- What a task of such a plan has besides. `unmet` counts the tasks that it still waits for, and one more while it is `held`
-- because nobody activated it; it is NULL for tasks that the engine does not run. `queued` is its place in its agent's queue.
ALTER TABLE tasks ADD COLUMN unmet INTEGER;
ALTER TABLE tasks ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN queued INTEGER;
ALTER TABLE tasks ADD COLUMN priority INTEGER NOT NULL DEFAULT 1;
ALTER TABLE tasks ADD COLUMN phase TEXT;
ALTER TABLE tasks ADD COLUMN cause TEXT;
ALTER TABLE tasks ADD COLUMN reason TEXT;
ALTER TABLE tasks ADD COLUMN fresh INTEGER NOT NULL DEFAULT 1;
ALTER TABLE tasks ADD COLUMN score REAL;
ALTER TABLE tasks ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN sent_back INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN verdict BLOB;
CREATE INDEX tasks_due ON tasks (board, plan_id, task_id) WHERE state = 'PENDING' AND unmet = 0;
CREATE INDEX tasks_queued ON tasks (board, agent_id, priority, queued) WHERE queued IS NOT NULL;

-- How far what is shown of a board has come, for views that follow from rows in their order.
CREATE TABLE cursors (
    board TEXT NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (board, name)
) STRICT, WITHOUT ROWID;
