-- What forges and pipelines told us, with the very bytes; large ones are contents by their hash. An answer is given only
-- once this is stored. What is new has still to be decided.
CREATE TABLE webhooks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('forge', 'pipeline')),
    delivery text NOT NULL,
    event text NOT NULL,
    headers bytea NOT NULL,
    body bytea,
    content text,
    sha256 text NOT NULL,
    received_at text NOT NULL,
    state text NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'done', 'ignored', 'failed')),
    outcome text NOT NULL DEFAULT ''
);
CREATE INDEX webhooks_new ON webhooks (id) WHERE state = 'new';
CREATE UNIQUE INDEX webhooks_delivery ON webhooks (source, delivery, sha256) WHERE delivery <> '';
