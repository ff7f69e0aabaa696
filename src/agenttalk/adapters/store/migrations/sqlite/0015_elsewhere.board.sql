-- What agents that work elsewhere hand in during an attempt: that they took it, files, and in the end a result. It counts
-- for that attempt alone, and is kept here until the engine has taken it in.
CREATE TABLE elsewhere (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('claim', 'artifact', 'result', 'lost')),
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL,
    body BLOB NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, epoch, kind, name, path)
) STRICT, WITHOUT ROWID;
