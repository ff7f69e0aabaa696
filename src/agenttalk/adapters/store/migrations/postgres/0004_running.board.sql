-- A plan that the engine runs: whether it goes on, and how many of its tasks are where. `settings` holds its policies and
-- the profiles of its agents, as they were when it was submitted.
CREATE TABLE runs (
    board text NOT NULL,
    plan_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('SUBMITTED', 'RUNNING', 'PAUSED', 'ENDED')),
    settings bytea NOT NULL,
    open bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    began_at text NOT NULL,
    ended_at text,
    PRIMARY KEY (board, plan_id)
);
CREATE INDEX runs_open ON runs (board, plan_id) WHERE state <> 'ENDED';

-- What is asked for in a task. It changes only with a new revision of the DAG. `wards` are tasks that run only if this one
-- says so, by a branch or by failing; `guards` those that can say so of this one.
CREATE TABLE nodes (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    node bytea NOT NULL,
    wards bytea,
    guards bytea,
    PRIMARY KEY (board, plan_id, task_id)
);

-- Who waits for whom. An answered edge is gone through once and stays.
CREATE TABLE edges (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    dependant text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, dependant)
);

-- What a task of such a plan has besides. `unmet` counts the tasks that it still waits for, and one more while it is `held`
-- because nobody activated it; it is NULL for tasks that the engine does not run. `queued` is its place in its agent's queue.
ALTER TABLE tasks ADD COLUMN unmet bigint;
ALTER TABLE tasks ADD COLUMN held bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN queued bigint;
ALTER TABLE tasks ADD COLUMN priority bigint NOT NULL DEFAULT 1;
ALTER TABLE tasks ADD COLUMN phase text;
ALTER TABLE tasks ADD COLUMN cause text;
ALTER TABLE tasks ADD COLUMN reason text;
ALTER TABLE tasks ADD COLUMN fresh bigint NOT NULL DEFAULT 1;
ALTER TABLE tasks ADD COLUMN score double precision;
ALTER TABLE tasks ADD COLUMN retries bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN sent_back bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN deaths bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN verdict bytea;
CREATE INDEX tasks_due ON tasks (board, plan_id, task_id) WHERE state = 'PENDING' AND unmet = 0;
CREATE INDEX tasks_queued ON tasks (board, agent_id, priority, queued) WHERE queued IS NOT NULL;

-- How far what is shown of a board has come, for views that follow from rows in their order.
CREATE TABLE cursors (
    board text NOT NULL,
    name text NOT NULL,
    value bigint NOT NULL,
    PRIMARY KEY (board, name)
);
