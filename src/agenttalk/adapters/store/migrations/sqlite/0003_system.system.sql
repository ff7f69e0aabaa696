-- Where a plan lives.
CREATE TABLE plan_boards (
    plan_id TEXT PRIMARY KEY,
    board TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX plan_boards_used ON plan_boards (board);

-- Tokens by their hash. Tokens of attempts are columns of their tasks.
CREATE TABLE tokens (
    hash TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('operator', 'viewer', 'worker')),
    label TEXT NOT NULL,
    at TEXT NOT NULL,
    revoked_at TEXT
) STRICT, WITHOUT ROWID;

-- Deliveries of forges and pipelines with their bytes; large ones are contents by their hash. The engine answers only
-- once a delivery is stored. New ones have still to be processed.
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
CREATE INDEX webhooks_new ON webhooks (id) WHERE state = 'new';
CREATE UNIQUE INDEX webhooks_delivery ON webhooks (source, delivery, sha256) WHERE delivery <> '';
-- Only the body is signed, so a repeated delivery is recognised by its body and not by its headers.
CREATE INDEX webhooks_content ON webhooks (source, sha256, received_at) WHERE kind = 'forge';

-- Tokens of agents that work elsewhere. They open nothing but what their agent is given.
CREATE TABLE agent_tokens (
    hash TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    at TEXT NOT NULL,
    revoked_at TEXT
) STRICT, WITHOUT ROWID;

-- Writes with an idempotency key, so that each is carried out once: the hash of the request, and the
-- answer. One without a status was begun, and its result is unknown.
CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    asked TEXT NOT NULL,
    at TEXT NOT NULL,
    status INTEGER,
    answer BLOB
) STRICT;
CREATE INDEX api_keys_age ON api_keys (at);

-- Schedules. `definition` is empty for those of the settings. Times after `since` are yet to be decided
-- about; `due` means that the plan of the last time has still to be submitted.
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

-- Who is logged in to the pages, by the hash of what the browser keeps.
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('operator', 'viewer')),
    name TEXT NOT NULL,
    at TEXT NOT NULL,
    expires_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_expiring ON sessions (expires_at);

-- The limit of a day that an operator set; it overrides the settings. NULL means no limit.
CREATE TABLE day_limits (
    name TEXT PRIMARY KEY,
    cost_usd REAL,
    by TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Machines that run agents. The key tells a worker's own tokens from others; there is no shared secret.
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

-- Tokens with which a worker can enrol, by their hash. Each is good once.
CREATE TABLE worker_invitations (
    hash TEXT PRIMARY KEY,
    pool TEXT NOT NULL,
    labels TEXT NOT NULL,
    at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    worker TEXT NOT NULL DEFAULT '',
    role TEXT NOT NULL DEFAULT 'agents'
) STRICT, WITHOUT ROWID;
CREATE INDEX worker_invitations_expiring ON worker_invitations (expires_at);

-- Pools: what their workers do, and whether they are paused.
CREATE TABLE worker_pools (
    pool TEXT PRIMARY KEY,
    paused INTEGER NOT NULL,
    role TEXT NOT NULL DEFAULT 'agents'
) STRICT, WITHOUT ROWID;

-- Where agents ran on workers: no verifier there checks their work until its machine has started anew.
CREATE TABLE machine_agents (
    agent_id TEXT NOT NULL,
    machine TEXT NOT NULL,
    start TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (agent_id, machine, start)
) STRICT, WITHOUT ROWID;

-- Checks that verifiers made since they were last tried. Of one that turns out to lie none counts.
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
CREATE INDEX verifications_of_worker ON verifications (worker, at);
