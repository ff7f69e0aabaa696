-- Who is logged in to the pages, by the hash of what the browser keeps.
CREATE TABLE sessions (
    hash text PRIMARY KEY,
    role text NOT NULL CHECK (role IN ('operator', 'viewer')),
    name text NOT NULL,
    at text NOT NULL,
    expires_at text NOT NULL
);
CREATE INDEX sessions_expiring ON sessions (expires_at);
