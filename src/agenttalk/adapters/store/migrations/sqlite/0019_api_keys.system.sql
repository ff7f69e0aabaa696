-- Writes that came with a key of their own, so that each is carried out once: what was asked, by a hash, and what was
-- answered. One without a status was begun, and nobody knows what came of it.
CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    asked TEXT NOT NULL,
    at TEXT NOT NULL,
    status INTEGER,
    answer BLOB
) STRICT;
CREATE INDEX api_keys_age ON api_keys (at);
