BEGIN TRANSACTION;
CREATE TABLE agent_tokens (
    hash TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    at TEXT NOT NULL,
    revoked_at TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    content BLOB NOT NULL
) STRICT;
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
INSERT INTO "ledger" VALUES(1,1,'2026-11-16T03:14:21.890570Z','system','head.sealed','default',X'7B2268617368223A227368613235363A34386538363931363465666431616666316338623437393238356138373030396361643665613539336233323732616165353361316434376632643930343036222C226C696E6B223A31337D',X'0000000000000000000000000000000000000000000000000000000000000000',X'041136F69C13734FE2EEDB35515EBD2F6367AFC9643B10267B6B4AA946593314');
CREATE TABLE migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO "migrations" VALUES(1,'0001_ground','sha256:4bb55bbbb1851af475b18fe530bf5b3e0a085d795178f511102ecab9b90ca8d4');
INSERT INTO "migrations" VALUES(3,'0003_registry.system','sha256:8f6027f03c9f9a4c6749fefd85dc1087bf730597ff3fc859d43fbc77846daef3');
INSERT INTO "migrations" VALUES(12,'0012_webhooks.system','sha256:0bcd37e99827db48950ab510bad137c1ad042e51dd23c8fba234a14511dce9e8');
INSERT INTO "migrations" VALUES(16,'0016_agent_tokens.system','sha256:581e64f86fd055c7fbd8f8da39fff8000ab66f7d690c4c0aa7840ec0dbb2bf46');
CREATE TABLE plan_boards (
    plan_id TEXT PRIMARY KEY,
    board TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE tokens (
    hash TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('operator', 'viewer', 'worker')),
    label TEXT NOT NULL,
    at TEXT NOT NULL,
    revoked_at TEXT
) STRICT, WITHOUT ROWID;
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
CREATE UNIQUE INDEX ledger_link ON ledger (link) WHERE link IS NOT NULL;
CREATE INDEX ledger_subject ON ledger (board, subject, seq);
CREATE INDEX effects_open ON effects (board, kind, not_before, id) WHERE state <> 'done';
CREATE INDEX plan_boards_used ON plan_boards (board);
CREATE INDEX webhooks_new ON webhooks (id) WHERE state = 'new';
CREATE UNIQUE INDEX webhooks_delivery ON webhooks (source, delivery, sha256) WHERE delivery <> '';
COMMIT;
