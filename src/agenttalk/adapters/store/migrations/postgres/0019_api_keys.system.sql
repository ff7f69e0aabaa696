-- Writes that came with a key of their own, so that each is carried out once: what was asked, by a hash, and what was
-- answered. One without a status was begun, and nobody knows what came of it.
CREATE TABLE api_keys (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL UNIQUE,
    asked text NOT NULL,
    at text NOT NULL,
    status integer,
    answer bytea
);
CREATE INDEX api_keys_age ON api_keys (at);
