-- What forges and pipelines told us, with the very bytes; large ones are contents by their hash. An answer is given only
-- once this is stored. What is new has still to be decided.
CREATE TABLE webhooks (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('forge', 'pipeline')),
    delivery TEXT NOT NULL,
    event TEXT NOT NULL,
    headers BLOB NOT NULL,
    body BLOB,
    content TEXT,
    sha256 TEXT NOT NULL,
    received_at TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'done', 'ignored', 'failed')),
    outcome TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX webhooks_new ON webhooks (id) WHERE state = 'new';
CREATE UNIQUE INDEX webhooks_delivery ON webhooks (source, delivery, sha256) WHERE delivery <> '';
