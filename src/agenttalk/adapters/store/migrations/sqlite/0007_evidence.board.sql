-- What shows that a task is done: what came of each check of its promise, and what that rests on. `result` is told as in
-- the ledger, with its fingerprint; `key` is a hash of what it is about, where it says something of later.
CREATE TABLE evidence (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    check_id TEXT NOT NULL,
    command_id TEXT NOT NULL,
    commit_id TEXT,
    tree TEXT NOT NULL,
    result BLOB NOT NULL,
    key TEXT,
    fresh INTEGER NOT NULL DEFAULT 1,
    at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, check_id)
) STRICT, WITHOUT ROWID;

-- Results of checks by everything that they may rest on, the whole tree included. `made_by` is the task for which a check was made.
CREATE TABLE check_results (
    board TEXT NOT NULL,
    key TEXT NOT NULL,
    result BLOB NOT NULL,
    made_by TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, key)
) STRICT, WITHOUT ROWID;

-- How the checks of a task stood before its work, and at which tip that was.
CREATE TABLE baselines (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    onto TEXT NOT NULL,
    results BLOB NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, task_id)
) STRICT, WITHOUT ROWID;

-- What came of an attempt that is being verified, so that a death does not lose it. Gone when the turn has ended.
CREATE TABLE performances (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    command_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (board, plan_id, task_id)
) STRICT, WITHOUT ROWID;
