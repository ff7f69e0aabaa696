-- Who is logged in to the pages, by the hash of what the browser keeps.
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('operator', 'viewer')),
    name TEXT NOT NULL,
    at TEXT NOT NULL,
    expires_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_expiring ON sessions (expires_at);
