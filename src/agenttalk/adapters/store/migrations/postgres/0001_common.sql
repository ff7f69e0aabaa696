-- Facts. seq is given when a fact is written, link when it is sealed: transactions end in another order than they began.
CREATE TABLE ledger (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    link bigint,
    at text NOT NULL,
    board text NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    body bytea NOT NULL,
    prev bytea,
    hash bytea
);
CREATE UNIQUE INDEX ledger_link ON ledger (link) WHERE link IS NOT NULL;
CREATE INDEX ledger_unsealed ON ledger (seq) WHERE hash IS NULL;
CREATE INDEX ledger_subject ON ledger (board, subject, seq);

-- Effects in the world. Keys are never deleted: they make a repeated request harmless.
CREATE TABLE effects (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    body bytea NOT NULL,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'claimed', 'done')),
    attempts integer NOT NULL DEFAULT 0,
    not_before text COLLATE "C" NOT NULL DEFAULT '',
    UNIQUE (board, key)
);
CREATE INDEX effects_open ON effects (board, kind, not_before, id) WHERE state <> 'done';

-- Contents of any size.
CREATE TABLE blobs (
    hash text PRIMARY KEY,
    content bytea NOT NULL
);
ALTER TABLE blobs ALTER COLUMN content SET STORAGE EXTERNAL;
