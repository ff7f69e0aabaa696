-- A plan, and how many of its messages went where. What is on its way is counted by its rows.
CREATE TABLE plans (
    board text NOT NULL,
    plan_id text NOT NULL,
    origin text NOT NULL CHECK (origin IN ('foreign', 'engine', 'virtual')),
    dag_sha256 text NOT NULL DEFAULT '',
    revision bigint,
    halted text,
    sent bigint NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0,
    superseded bigint NOT NULL DEFAULT 0,
    duplicate bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (board, plan_id)
);
CREATE INDEX plans_under_way ON plans (board, (sent - delivered - superseded - duplicate - dead));

-- What a plan was given, apart from its counts: those change with every message, and these may be large.
CREATE TABLE documents (
    board text NOT NULL,
    plan_id text NOT NULL,
    dag bytea NOT NULL,
    pointer bytea,
    manifest bytea,
    PRIMARY KEY (board, plan_id)
);

-- A task. Its lease says who runs it; the epoch grows with each lease, and a write that carries an older one is refused.
CREATE TABLE tasks (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    agent_id text NOT NULL,
    state text NOT NULL DEFAULT 'PENDING',
    updated_at text NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    lease text,
    owner text,
    leased_at text,
    token text,
    delivery bigint,
    attempt bigint NOT NULL DEFAULT 0,
    waiting_since text,
    missing bytea,
    request_id text,
    reexecutions bigint NOT NULL DEFAULT 0,
    progress bytea,
    PRIMARY KEY (board, plan_id, task_id)
);
CREATE INDEX tasks_leased ON tasks (board, lease) WHERE lease IS NOT NULL;
CREATE INDEX tasks_open ON tasks (board, plan_id, state) WHERE state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED');

-- A message that was accepted, with the very bytes of its envelope.
CREATE TABLE messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    plan_id text NOT NULL,
    message_id text NOT NULL,
    sha256 text NOT NULL,
    type text NOT NULL CHECK (type IN ('command', 'artifact')),
    task_id text NOT NULL,
    command_id text,
    seq bigint NOT NULL DEFAULT 0,
    output_name text,
    producer text NOT NULL,
    name text NOT NULL,
    envelope bytea NOT NULL,
    dag_sha256 text NOT NULL,
    accepted_at text NOT NULL,
    state text NOT NULL CHECK (state IN ('stored', 'delivered', 'superseded', 'dead')),
    UNIQUE (board, plan_id, message_id)
);
CREATE INDEX messages_in_flight ON messages (board, plan_id, id) WHERE state = 'stored';
CREATE INDEX messages_orders ON messages (board, plan_id, task_id, dag_sha256, seq) WHERE type = 'command';
CREATE INDEX messages_versions ON messages (board, plan_id, task_id, output_name, seq) WHERE type = 'artifact';

-- A message for one receiver. `shown` is the state that the files tell of; where it differs, files have to be written.
CREATE TABLE deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    plan_id text NOT NULL,
    message bigint NOT NULL REFERENCES messages (id),
    receiver text NOT NULL,
    delivery_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('stored', 'delivered', 'claimed', 'processed', 'superseded', 'dead')),
    shown text NOT NULL DEFAULT '',
    priority bigint NOT NULL DEFAULT 1,
    stored_at text,
    injected_at text,
    prompt_sha256 text,
    acted_at text,
    ack text CHECK (ack IN ('CONSUMED', 'SUCCEEDED', 'FAILED')),
    consumed_at text,
    finished_at text,
    details text,
    UNIQUE (message, receiver)
);
CREATE INDEX deliveries_under_way ON deliveries (board, plan_id, id) WHERE stored_at IS NULL AND state <> 'superseded';
CREATE INDEX deliveries_open ON deliveries (board, receiver, plan_id, state, id)
    WHERE state IN ('delivered', 'claimed');
CREATE INDEX deliveries_unshown ON deliveries (board, shown, receiver, id) WHERE shown <> state;

-- Which unclaimed message a payload file in an inbox belongs to: another one of that path has to wait.
CREATE TABLE payloads (
    board text NOT NULL,
    plan_id text NOT NULL,
    receiver text NOT NULL,
    path text NOT NULL,
    delivery bigint NOT NULL,
    PRIMARY KEY (board, plan_id, receiver, path)
);
CREATE INDEX payloads_delivery ON payloads (board, delivery);

-- What an agent has in its workspace: the current version of each file, and the one before it.
CREATE TABLE inputs (
    board text NOT NULL,
    plan_id text NOT NULL,
    agent_id text NOT NULL,
    task_id text NOT NULL,
    output_name text NOT NULL,
    path text NOT NULL,
    sha256 text NOT NULL,
    seq bigint NOT NULL,
    message_id text NOT NULL,
    received_at text NOT NULL,
    before_message_id text,
    before_sha256 text,
    PRIMARY KEY (board, plan_id, agent_id, task_id, output_name, path)
);

-- What was refused. The key makes finding the same file again harmless; the original is a content by its hash.
CREATE TABLE deadletters (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    plan_id text NOT NULL,
    deadletter_id text NOT NULL,
    key text NOT NULL,
    code text NOT NULL,
    reason text NOT NULL,
    agent_id text NOT NULL,
    box text NOT NULL CHECK (box IN ('outbox', 'inbox')),
    name text NOT NULL,
    message_id text,
    sha256 text,
    original text,
    retriable bigint NOT NULL,
    tries bigint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replayed')),
    at text NOT NULL,
    UNIQUE (board, key),
    UNIQUE (board, deadletter_id)
);
CREATE INDEX deadletters_open ON deadletters (board, plan_id, id) WHERE state = 'open';

-- Control files that were collected, by what they are about. Another content under the same id is refused.
CREATE TABLE controls (
    board text NOT NULL,
    plan_id text NOT NULL,
    kind text NOT NULL,
    id text NOT NULL,
    agent_id text NOT NULL,
    sha256 text NOT NULL,
    body bytea NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, plan_id, kind, id)
);

-- Questions to people. An answer is bound to the hash of what was asked.
CREATE TABLE requests (
    board text NOT NULL,
    request_id text NOT NULL,
    plan_id text NOT NULL,
    task_id text,
    agent_id text NOT NULL,
    body bytea NOT NULL,
    sha256 text NOT NULL,
    at text NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'answered')),
    response bytea,
    answered_at text,
    answered_by text,
    PRIMARY KEY (board, request_id)
);
CREATE INDEX requests_open ON requests (board, at) WHERE state = 'open';

-- Files of an outbox that were taken in and have still to be moved away. Gone once they are.
CREATE TABLE leavings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    plan_id text NOT NULL,
    agent_id text NOT NULL,
    name text NOT NULL,
    inode bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    target text NOT NULL CHECK (target IN ('.sent', '.rejected')),
    reason bytea,
    payloads bytea,
    UNIQUE (board, agent_id, plan_id, name)
);

-- Files that an agent's outbox has still to get, in order. Gone once they are there.
CREATE TABLE handovers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    plan_id text NOT NULL,
    agent_id text NOT NULL,
    name text NOT NULL,
    content text NOT NULL,
    message_id text
);
CREATE INDEX handovers_agent ON handovers (board, agent_id, id);

-- Files under system_runtime/. Without a body or content the file has to go. Lower ranks are written first.
CREATE TABLE views (
    board text NOT NULL,
    path text NOT NULL,
    rank bigint NOT NULL,
    body bytea,
    content text,
    version bigint NOT NULL DEFAULT 1,
    shown bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (board, path)
);
CREATE INDEX views_unshown ON views (rank, path) WHERE shown <> version;

-- How far the lines of a plan's deliveries.jsonl are written. `latest` is its newest line, `base` what lay there before
-- us, once somebody looked.
CREATE TABLE journals (
    board text NOT NULL,
    plan_id text NOT NULL,
    latest bigint NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 0,
    base bigint,
    size bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (board, plan_id)
);
CREATE INDEX journals_unwritten ON journals (board, (latest - seq));

-- What agents and people say about a task, and what agents hand in by the API.
CREATE TABLE comments (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('comment', 'output')),
    author text NOT NULL,
    type text NOT NULL,
    body text NOT NULL,
    claims bytea,
    epoch bigint,
    at text NOT NULL
);
CREATE INDEX comments_task ON comments (board, plan_id, task_id, id);
