-- Facts. seq is given when a fact is written, link when it is sealed, which one writer does in the same commit:
-- what is not sealed is always newer than what is.
CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY,
    link INTEGER,
    at TEXT NOT NULL,
    board TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    body BLOB NOT NULL,
    prev BLOB,
    hash BLOB
) STRICT;
CREATE UNIQUE INDEX ledger_link ON ledger (link) WHERE link IS NOT NULL;
CREATE INDEX ledger_subject ON ledger (board, subject, seq);

-- Effects in the world. Keys are never deleted: they make a repeated request harmless.
CREATE TABLE effects (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'claimed', 'done')),
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before TEXT NOT NULL DEFAULT '',
    UNIQUE (board, key)
) STRICT;
CREATE INDEX effects_open ON effects (board, kind, not_before, id) WHERE state <> 'done';

-- Small contents; larger ones are files.
CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    content BLOB NOT NULL
) STRICT;
