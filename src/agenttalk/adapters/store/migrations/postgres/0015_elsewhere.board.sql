-- What agents that work elsewhere hand in during an attempt: that they took it, files, and in the end a result. It counts
-- for that attempt alone, and is kept here until the engine has taken it in.
CREATE TABLE elsewhere (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    epoch bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('claim', 'artifact', 'result', 'lost')),
    name text NOT NULL,
    path text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    body bytea NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, epoch, kind, name, path)
);
