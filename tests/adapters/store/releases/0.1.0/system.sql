BEGIN TRANSACTION;
CREATE TABLE agent_tokens (
    hash TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    at TEXT NOT NULL,
    revoked_at TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    asked TEXT NOT NULL,
    at TEXT NOT NULL,
    status INTEGER,
    answer BLOB
) STRICT;
CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    content BLOB NOT NULL
) STRICT;
CREATE TABLE day_limits (
    name TEXT PRIMARY KEY,
    cost_usd REAL,
    by TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
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
INSERT INTO "ledger" VALUES(1,1,'2026-11-20T01:32:58.247635Z','system','head.sealed','default',X'7B2268617368223A227368613235363A35393231633266333737383034366661313933373630383662396439323538356636363563316533376662643261373965333836626662353839313766366238222C226C696E6B223A31337D',X'0000000000000000000000000000000000000000000000000000000000000000',X'1E388AB04E3BECB97BB9DEAA821F3BEA5D71245EC375FC83ED4B428C9A7F72D9');
CREATE TABLE machine_agents (
    agent_id TEXT NOT NULL,
    machine TEXT NOT NULL,
    start TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (agent_id, machine, start)
) STRICT, WITHOUT ROWID;
CREATE TABLE migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO "migrations" VALUES(1,'0001_common','sha256:8e7e54f83b3b628ad88c34bb8f95f00b9babeacd5963522998ba5dadefddc416');
INSERT INTO "migrations" VALUES(3,'0003_system.system','sha256:8510f524619e763f1fda94050ab3643609f64b35978659f01219a251780bd286');
CREATE TABLE plan_boards (
    plan_id TEXT PRIMARY KEY,
    board TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    definition BLOB,
    paused INTEGER NOT NULL DEFAULT 0,
    since TEXT NOT NULL,
    plan_id TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT 'idle' CHECK (state IN ('idle', 'due')),
    why TEXT NOT NULL DEFAULT '',
    why_message TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('operator', 'viewer')),
    name TEXT NOT NULL,
    at TEXT NOT NULL,
    expires_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE tokens (
    hash TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('operator', 'viewer', 'worker')),
    label TEXT NOT NULL,
    at TEXT NOT NULL,
    revoked_at TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE verifications (
    lease TEXT PRIMARY KEY,
    worker TEXT NOT NULL,
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    check_id TEXT NOT NULL,
    key TEXT NOT NULL,
    at TEXT NOT NULL
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
    outcome TEXT NOT NULL DEFAULT '',
    outcome_message TEXT
) STRICT;
CREATE TABLE worker_invitations (
    hash TEXT PRIMARY KEY,
    pool TEXT NOT NULL,
    labels TEXT NOT NULL,
    at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    worker TEXT NOT NULL DEFAULT '',
    role TEXT NOT NULL DEFAULT 'agents'
) STRICT, WITHOUT ROWID;
CREATE TABLE worker_pools (
    pool TEXT PRIMARY KEY,
    paused INTEGER NOT NULL,
    role TEXT NOT NULL DEFAULT 'agents'
) STRICT, WITHOUT ROWID;
CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    pool TEXT NOT NULL,
    labels TEXT NOT NULL,
    public_key TEXT NOT NULL,
    facts BLOB NOT NULL,
    state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'draining', 'quarantined', 'removed')),
    failures INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '',
    at TEXT NOT NULL,
    role TEXT NOT NULL DEFAULT 'agents' CHECK (role IN ('agents', 'verifier')),
    tried_at TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX ledger_link ON ledger (link) WHERE link IS NOT NULL;
CREATE INDEX ledger_subject ON ledger (board, subject, seq);
CREATE INDEX effects_open ON effects (board, kind, not_before, id) WHERE state <> 'done';
CREATE INDEX plan_boards_used ON plan_boards (board);
CREATE INDEX webhooks_new ON webhooks (id) WHERE state = 'new';
CREATE UNIQUE INDEX webhooks_delivery ON webhooks (source, delivery, sha256) WHERE delivery <> '';
CREATE INDEX webhooks_content ON webhooks (source, sha256, received_at) WHERE kind = 'forge';
CREATE INDEX api_keys_age ON api_keys (at);
CREATE INDEX sessions_expiring ON sessions (expires_at);
CREATE INDEX worker_invitations_expiring ON worker_invitations (expires_at);
CREATE INDEX verifications_of_worker ON verifications (worker, at);
COMMIT;
