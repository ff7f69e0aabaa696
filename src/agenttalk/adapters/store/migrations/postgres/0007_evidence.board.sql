-- What shows that a task is done: what came of each check of its promise, and what that rests on. `result` is told as in
-- the ledger, with its fingerprint; `key` is a hash of what it is about, where it says something of later.
CREATE TABLE evidence (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    check_id text NOT NULL,
    command_id text NOT NULL,
    commit_id text,
    tree text NOT NULL,
    result bytea NOT NULL,
    key text,
    fresh bigint NOT NULL DEFAULT 1,
    at text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, check_id)
);

-- Results of checks by everything that they may rest on, the whole tree included. `made_by` is the task for which a check was made.
CREATE TABLE check_results (
    board text NOT NULL,
    key text NOT NULL,
    result bytea NOT NULL,
    made_by text NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, key)
);

-- How the checks of a task stood before its work, and at which tip that was.
CREATE TABLE baselines (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    onto text NOT NULL,
    results bytea NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id)
);

-- What came of an attempt that is being verified, so that a death does not lose it. Gone when the turn has ended.
CREATE TABLE performances (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    command_id text NOT NULL,
    attempt bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (board, plan_id, task_id)
);
