-- Where a plan lives.
CREATE TABLE plan_boards (
    plan_id TEXT PRIMARY KEY,
    board TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX plan_boards_used ON plan_boards (board);

-- Who may come in, by the hash of the token. Tokens of attempts are columns of their tasks.
CREATE TABLE tokens (
    hash TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('operator', 'viewer', 'worker')),
    label TEXT NOT NULL,
    at TEXT NOT NULL,
    revoked_at TEXT
) STRICT, WITHOUT ROWID;
