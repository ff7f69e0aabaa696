-- A plan, and how many of its messages went where. What is on its way is counted by its rows.
CREATE TABLE plans (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    origin TEXT NOT NULL CHECK (origin IN ('foreign', 'engine', 'virtual')),
    dag_sha256 TEXT NOT NULL DEFAULT '',
    revision INTEGER,
    halted TEXT,
    sent INTEGER NOT NULL DEFAULT 0,
    delivered INTEGER NOT NULL DEFAULT 0,
    superseded INTEGER NOT NULL DEFAULT 0,
    duplicate INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (board, plan_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX plans_under_way ON plans (board, (sent - delivered - superseded - duplicate - dead));

-- What a plan was given, apart from its counts: those change with every message, and these may be large.
CREATE TABLE documents (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    dag BLOB NOT NULL,
    pointer BLOB,
    manifest BLOB,
    PRIMARY KEY (board, plan_id)
) STRICT, WITHOUT ROWID;

-- A task. Its lease says who runs it; the epoch grows with each lease, and a write that carries an older one is refused.
CREATE TABLE tasks (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'PENDING',
    updated_at TEXT NOT NULL,
    epoch INTEGER NOT NULL DEFAULT 0,
    lease TEXT,
    owner TEXT,
    leased_at TEXT,
    token TEXT,
    delivery INTEGER,
    attempt INTEGER NOT NULL DEFAULT 0,
    waiting_since TEXT,
    missing BLOB,
    request_id TEXT,
    reexecutions INTEGER NOT NULL DEFAULT 0,
    progress BLOB,
    PRIMARY KEY (board, plan_id, task_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_leased ON tasks (board, lease) WHERE lease IS NOT NULL;
CREATE INDEX tasks_open ON tasks (board, plan_id, state) WHERE state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED');

-- A message that was accepted, with the very bytes of its envelope.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    type TEXT NOT NULL CHECK (type IN ('command', 'artifact')),
    task_id TEXT NOT NULL,
    command_id TEXT,
    seq INTEGER NOT NULL DEFAULT 0,
    output_name TEXT,
    producer TEXT NOT NULL,
    name TEXT NOT NULL,
    envelope BLOB NOT NULL,
    dag_sha256 TEXT NOT NULL,
    accepted_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('stored', 'delivered', 'superseded', 'dead')),
    UNIQUE (board, plan_id, message_id)
) STRICT;
CREATE INDEX messages_in_flight ON messages (board, plan_id, id) WHERE state = 'stored';
CREATE INDEX messages_orders ON messages (board, plan_id, task_id, dag_sha256, seq) WHERE type = 'command';
CREATE INDEX messages_versions ON messages (board, plan_id, task_id, output_name, seq) WHERE type = 'artifact';

-- A message for one receiver. `shown` is the state that the files tell of; where it differs, files have to be written.
CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    message INTEGER NOT NULL REFERENCES messages (id),
    receiver TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('stored', 'delivered', 'claimed', 'processed', 'superseded', 'dead')),
    shown TEXT NOT NULL DEFAULT '',
    priority INTEGER NOT NULL DEFAULT 1,
    stored_at TEXT,
    injected_at TEXT,
    prompt_sha256 TEXT,
    acted_at TEXT,
    ack TEXT CHECK (ack IN ('CONSUMED', 'SUCCEEDED', 'FAILED')),
    consumed_at TEXT,
    finished_at TEXT,
    details TEXT,
    UNIQUE (message, receiver)
) STRICT;
CREATE INDEX deliveries_under_way ON deliveries (board, plan_id, id) WHERE stored_at IS NULL AND state <> 'superseded';
CREATE INDEX deliveries_open ON deliveries (board, receiver, plan_id, state, id)
    WHERE state IN ('delivered', 'claimed');
CREATE INDEX deliveries_unshown ON deliveries (board, shown, receiver, id) WHERE shown <> state;

-- Which unclaimed message a payload file in an inbox belongs to: another one of that path has to wait.
CREATE TABLE payloads (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    receiver TEXT NOT NULL,
    path TEXT NOT NULL,
    delivery INTEGER NOT NULL,
    PRIMARY KEY (board, plan_id, receiver, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX payloads_delivery ON payloads (board, delivery);

-- What an agent has in its workspace: the current version of each file, and the one before it.
CREATE TABLE inputs (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    output_name TEXT NOT NULL,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    seq INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    received_at TEXT NOT NULL,
    before_message_id TEXT,
    before_sha256 TEXT,
    PRIMARY KEY (board, plan_id, agent_id, task_id, output_name, path)
) STRICT, WITHOUT ROWID;

-- What was refused. The key makes finding the same file again harmless; the original is a content by its hash.
CREATE TABLE deadletters (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    deadletter_id TEXT NOT NULL,
    key TEXT NOT NULL,
    code TEXT NOT NULL,
    reason TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    box TEXT NOT NULL CHECK (box IN ('outbox', 'inbox')),
    name TEXT NOT NULL,
    message_id TEXT,
    sha256 TEXT,
    original TEXT,
    retriable INTEGER NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replayed')),
    at TEXT NOT NULL,
    UNIQUE (board, key),
    UNIQUE (board, deadletter_id)
) STRICT;
CREATE INDEX deadletters_open ON deadletters (board, plan_id, id) WHERE state = 'open';

-- Control files that were collected, by what they are about. Another content under the same id is refused.
CREATE TABLE controls (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    body BLOB NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, kind, id)
) STRICT, WITHOUT ROWID;

-- Questions to people. An answer is bound to the hash of what was asked.
CREATE TABLE requests (
    board TEXT NOT NULL,
    request_id TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT,
    agent_id TEXT NOT NULL,
    body BLOB NOT NULL,
    sha256 TEXT NOT NULL,
    at TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'answered')),
    response BLOB,
    answered_at TEXT,
    answered_by TEXT,
    PRIMARY KEY (board, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_open ON requests (board, at) WHERE state = 'open';

-- Files of an outbox that were taken in and have still to be moved away. Gone once they are.
CREATE TABLE leavings (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    name TEXT NOT NULL,
    inode INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    target TEXT NOT NULL CHECK (target IN ('.sent', '.rejected')),
    reason BLOB,
    payloads BLOB,
    UNIQUE (board, agent_id, plan_id, name)
) STRICT;

-- Files that an agent's outbox has still to get, in order. Gone once they are there.
CREATE TABLE handovers (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    name TEXT NOT NULL,
    content TEXT NOT NULL,
    message_id TEXT
) STRICT;
CREATE INDEX handovers_agent ON handovers (board, agent_id, id);

-- Files under system_runtime/. Without a body or content the file has to go. Lower ranks are written first.
CREATE TABLE views (
    board TEXT NOT NULL,
    path TEXT NOT NULL,
    rank INTEGER NOT NULL,
    body BLOB,
    content TEXT,
    version INTEGER NOT NULL DEFAULT 1,
    shown INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (board, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX views_unshown ON views (rank, path) WHERE shown <> version;

-- How far the lines of a plan's deliveries.jsonl are written. `latest` is its newest line, `base` what lay there before
-- us, once somebody looked.
CREATE TABLE journals (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    latest INTEGER NOT NULL DEFAULT 0,
    seq INTEGER NOT NULL DEFAULT 0,
    base INTEGER,
    size INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (board, plan_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX journals_unwritten ON journals (board, (latest - seq));

-- What agents and people say about a task, and what agents hand in by the API.
CREATE TABLE comments (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('comment', 'output')),
    author TEXT NOT NULL,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    claims BLOB,
    epoch INTEGER,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX comments_task ON comments (board, plan_id, task_id, id);
