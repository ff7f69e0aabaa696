-- Where a plan lives.
CREATE TABLE plan_boards (
    plan_id text PRIMARY KEY,
    board text NOT NULL
);
CREATE INDEX plan_boards_used ON plan_boards (board);

-- Tokens by their hash. Tokens of attempts are columns of their tasks.
CREATE TABLE tokens (
    hash text PRIMARY KEY,
    role text NOT NULL CHECK (role IN ('operator', 'viewer', 'worker')),
    label text NOT NULL,
    at text NOT NULL,
    revoked_at text
);

-- Deliveries of forges and pipelines with their bytes; large ones are contents by their hash. The engine answers only
-- once a delivery is stored. New ones have still to be processed.
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
    outcome text NOT NULL DEFAULT '',
    outcome_message text
);
CREATE INDEX webhooks_new ON webhooks (id) WHERE state = 'new';
CREATE UNIQUE INDEX webhooks_delivery ON webhooks (source, delivery, sha256) WHERE delivery <> '';
-- Only the body is signed, so a repeated delivery is recognised by its body and not by its headers.
CREATE INDEX webhooks_content ON webhooks (source, sha256, received_at) WHERE kind = 'forge';

-- Tokens of agents that work elsewhere. They open nothing but what their agent is given.
CREATE TABLE agent_tokens (
    hash text PRIMARY KEY,
    agent_id text NOT NULL,
    at text NOT NULL,
    revoked_at text
);

-- Writes with an idempotency key, so that each is carried out once: the hash of the request, and the
-- answer. One without a status was begun, and its result is unknown.
CREATE TABLE api_keys (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL UNIQUE,
    asked text NOT NULL,
    at text NOT NULL,
    status integer,
    answer bytea
);
CREATE INDEX api_keys_age ON api_keys (at);

-- Schedules. `definition` is empty for those of the settings. Times after `since` are yet to be decided
-- about; `due` means that the plan of the last time has still to be submitted.
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    definition BYTEA,
    paused INTEGER NOT NULL DEFAULT 0,
    since TEXT NOT NULL,
    plan_id TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT 'idle' CHECK (state IN ('idle', 'due')),
    why TEXT NOT NULL DEFAULT '',
    why_message TEXT
);

-- Who is logged in to the pages, by the hash of what the browser keeps.
CREATE TABLE sessions (
    hash text PRIMARY KEY,
    role text NOT NULL CHECK (role IN ('operator', 'viewer')),
    name text NOT NULL,
    at text NOT NULL,
    expires_at text NOT NULL
);
CREATE INDEX sessions_expiring ON sessions (expires_at);

-- The limit of a day that an operator set; it overrides the settings. NULL means no limit.
CREATE TABLE day_limits (
    name text PRIMARY KEY,
    cost_usd double precision,
    by text NOT NULL,
    at text NOT NULL
);

-- Machines that run agents. The key tells a worker's own tokens from others; there is no shared secret.
CREATE TABLE workers (
    id text PRIMARY KEY,
    name text NOT NULL,
    pool text NOT NULL,
    labels text NOT NULL,
    public_key text NOT NULL,
    facts bytea NOT NULL,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'draining', 'quarantined', 'removed')),
    failures integer NOT NULL DEFAULT 0,
    reason text NOT NULL DEFAULT '',
    at text NOT NULL,
    role text NOT NULL DEFAULT 'agents' CHECK (role IN ('agents', 'verifier')),
    tried_at text NOT NULL DEFAULT ''
);

-- Tokens with which a worker can enrol, by their hash. Each is good once.
CREATE TABLE worker_invitations (
    hash text PRIMARY KEY,
    pool text NOT NULL,
    labels text NOT NULL,
    at text NOT NULL,
    expires_at text NOT NULL,
    worker text NOT NULL DEFAULT '',
    role text NOT NULL DEFAULT 'agents'
);
CREATE INDEX worker_invitations_expiring ON worker_invitations (expires_at);

-- Pools: what their workers do, and whether they are paused.
CREATE TABLE worker_pools (
    pool text PRIMARY KEY,
    paused integer NOT NULL,
    role text NOT NULL DEFAULT 'agents'
);

-- Where agents ran on workers: no verifier there checks their work until its machine has started anew.
CREATE TABLE machine_agents (
    agent_id text NOT NULL,
    machine text NOT NULL,
    start text NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (agent_id, machine, start)
);

-- Checks that verifiers made since they were last tried. Of one that turns out to lie none counts.
CREATE TABLE verifications (
    lease text PRIMARY KEY,
    worker text NOT NULL,
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    check_id text NOT NULL,
    key text NOT NULL,
    at text NOT NULL
);
CREATE INDEX verifications_of_worker ON verifications (worker, at);
