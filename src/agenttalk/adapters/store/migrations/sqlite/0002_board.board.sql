-- A plan, and the number of its messages in each place. Messages in flight are counted by their rows.
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
CREATE INDEX plans_foreign ON plans (board, plan_id) WHERE origin = 'foreign';

-- The documents of a plan. They may be large, and the counts change with every message, so these have a table of their own.
CREATE TABLE documents (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    dag BLOB NOT NULL,
    pointer BLOB,
    manifest BLOB,
    PRIMARY KEY (board, plan_id)
) STRICT, WITHOUT ROWID;

-- A task. Its lease names the process that runs it; the epoch grows with each lease, and a write with an older one is refused.
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
    -- Of a task that the engine runs. `unmet` counts the tasks that it waits for, and one more while it is `held`
    -- because no task activated it; it is NULL for tasks that the engine does not run. `queued` is its place in its agent's queue.
    unmet INTEGER,
    held INTEGER NOT NULL DEFAULT 0,
    queued INTEGER,
    priority INTEGER NOT NULL DEFAULT 1,
    phase TEXT,
    cause TEXT,
    reason TEXT,
    -- The reason as a message of the catalogue, in JSON, if it is one.
    reason_message TEXT,
    fresh INTEGER NOT NULL DEFAULT 1,
    score REAL,
    retries INTEGER NOT NULL DEFAULT 0,
    sent_back INTEGER NOT NULL DEFAULT 0,
    deaths INTEGER NOT NULL DEFAULT 0,
    -- The fact of a task's last turn, which names the one before it, and what all its turns took.
    fact INTEGER,
    seconds REAL NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0,
    -- Calls of tools that all turns of a task made.
    tool_calls INTEGER NOT NULL DEFAULT 0,
    -- Whether a task is done by its agent's word alone, and nothing was verified.
    unproven INTEGER NOT NULL DEFAULT 0,
    -- Whether the work of a task rests on no isolation: its agent, or a check of its work, ran without a sandbox.
    unisolated INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (board, plan_id, task_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_leased ON tasks (board, lease) WHERE lease IS NOT NULL;
CREATE INDEX tasks_open ON tasks (board, plan_id, state) WHERE state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED');
CREATE INDEX tasks_due ON tasks (board, plan_id, task_id) WHERE state = 'PENDING' AND unmet = 0;
CREATE INDEX tasks_queued ON tasks (board, agent_id, priority, queued) WHERE queued IS NOT NULL;
-- Failed tasks that wait for a person: few, however many others have failed.
CREATE INDEX tasks_asked ON tasks (board, request_id) WHERE state = 'FAILED' AND request_id IS NOT NULL;
-- Done tasks of which something that was proven has changed since.
CREATE INDEX tasks_stale ON tasks (board, plan_id, fresh) WHERE fresh = 0;
CREATE INDEX tasks_unproven ON tasks (board, plan_id) WHERE unproven = 1;
CREATE INDEX tasks_unisolated ON tasks (board, plan_id) WHERE unisolated = 1;

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

-- A message for one receiver. `shown` is the state that the files show; if it differs, files have to be written.
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
    times TEXT,
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

-- Refused messages. The key makes finding the same file again harmless; the original is a content by its hash.
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
    -- The attestation: how it is known that a person gave an answer.
    proof TEXT,
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

-- How far the lines of a plan's deliveries.jsonl are written. `latest` is its newest line, `base` the size of the file before
-- our first line, once it was read.
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

-- A plan that the engine runs: whether it goes on, and how many of its tasks are where. `settings` holds its policies and
-- the profiles of its agents, as they were when it was submitted.
CREATE TABLE runs (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('SUBMITTED', 'RUNNING', 'PAUSED', 'ENDED')),
    settings BLOB NOT NULL,
    open INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    began_at TEXT NOT NULL,
    ended_at TEXT,
    -- Whether a plan looks once more at what was proven before it ends: when nothing of it is open, it is closing.
    closing INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (board, plan_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_open ON runs (board, plan_id) WHERE state <> 'ENDED';
-- Plans by when they began, for lists.
CREATE INDEX runs_begun ON runs (board, began_at, plan_id);

-- The definition of a task. It changes only with a new revision of the DAG. `wards` are tasks that run only if this one
-- activates them, by a branch or by failing; `guards` are the tasks that can activate this one.
CREATE TABLE nodes (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    node BLOB NOT NULL,
    wards BLOB,
    guards BLOB,
    PRIMARY KEY (board, plan_id, task_id)
) STRICT, WITHOUT ROWID;

-- Dependencies between tasks. An answered edge is followed once and stays.
CREATE TABLE edges (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    dependant TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, dependant)
) STRICT, WITHOUT ROWID;

-- How far the views of a board are written, for views that follow from rows in their order.
CREATE TABLE cursors (
    board TEXT NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (board, name)
) STRICT, WITHOUT ROWID;

-- What was used of a budget: by a task that has one, by a plan with limits, on a day that is limited.
CREATE TABLE spendings (
    board TEXT NOT NULL,
    name TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    seconds REAL NOT NULL,
    tool_calls INTEGER NOT NULL,
    PRIMARY KEY (board, name)
) STRICT, WITHOUT ROWID;

-- Objections of checkpoints: warnings, and denials with the person who overrode them. A checkpoint without an objection
-- is only in the ledger. `digest` is the hash of the reasons.
CREATE TABLE objections (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    checkpoint TEXT NOT NULL,
    digest TEXT NOT NULL,
    severity TEXT NOT NULL,
    reasons BLOB NOT NULL,
    trace_id TEXT NOT NULL,
    at TEXT NOT NULL,
    overridden_by TEXT,
    why TEXT,
    PRIMARY KEY (board, plan_id, task_id, checkpoint, digest)
) STRICT, WITHOUT ROWID;

-- The evidence of a task: the result of each check of its promise, and what that rests on. `result` is as in
-- the ledger, with its fingerprint; `key` is a hash of its subject, if the result may be used again.
CREATE TABLE evidence (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    check_id TEXT NOT NULL,
    command_id TEXT NOT NULL,
    commit_id TEXT,
    tree TEXT NOT NULL,
    result BLOB NOT NULL,
    key TEXT,
    fresh INTEGER NOT NULL DEFAULT 1,
    at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, check_id)
) STRICT, WITHOUT ROWID;

-- Results of checks by everything that they may rest on, the whole tree included. `made_by` is the task for which a check ran.
CREATE TABLE check_results (
    board TEXT NOT NULL,
    key TEXT NOT NULL,
    result BLOB NOT NULL,
    made_by TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, key)
) STRICT, WITHOUT ROWID;

-- The results of a task's checks before its work, and the tip at which they ran.
CREATE TABLE baselines (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    onto TEXT NOT NULL,
    results BLOB NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, task_id)
) STRICT, WITHOUT ROWID;

-- The performance of an attempt that is being verified, so that a crash does not lose it. Deleted when the turn has ended.
CREATE TABLE performances (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    command_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (board, plan_id, task_id)
) STRICT, WITHOUT ROWID;

-- Refusals by agents that work in folders, until the plan's engine orders the rework.
CREATE TABLE refusals (
    board TEXT NOT NULL,
    refusal_id TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    body BLOB NOT NULL,
    at TEXT NOT NULL,
    ended_at TEXT,
    PRIMARY KEY (board, refusal_id)
) STRICT;
CREATE INDEX refusals_open ON refusals (board, plan_id, at) WHERE ended_at IS NULL;

-- Checks of other tasks (`owner`) that a task broke, and that its promise demands from then on.
CREATE TABLE joined_checks (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    check_id TEXT NOT NULL,
    body BLOB NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, owner, check_id)
) STRICT, WITHOUT ROWID;

-- What is shipped of a plan. The last one counts. One that is `due` has still to be decided; `footing` is the hash of what
-- a decision rests on, so that the same is not decided twice.
CREATE TABLE releases (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    release_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('due', 'approved', 'rejected', 'revoked')),
    footing TEXT NOT NULL DEFAULT '',
    manifest BLOB,
    told BLOB,
    at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX releases_due ON releases (board, plan_id) WHERE state = 'due';

-- Judgements of an artifact by others than its maker, by its hash.
CREATE TABLE judgements (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    validator TEXT NOT NULL,
    accepted INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    output_name TEXT NOT NULL,
    at TEXT NOT NULL,
    -- The model that judged, as far as it is known.
    model TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (board, plan_id, sha256, validator)
) STRICT, WITHOUT ROWID;

-- DAGs that have to be approved before their tasks begin, by the plan's revision. An `open` one is being reviewed, one that
-- `waits` was not approved and waits for another revision or a person. `held` means that the plan stays paused afterwards.
CREATE TABLE reviews (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    dag_sha256 TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'waits', 'approved', 'dropped')),
    review_plan TEXT NOT NULL,
    request_id TEXT,
    held INTEGER NOT NULL DEFAULT 0,
    told BLOB,
    began_at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, revision)
) STRICT, WITHOUT ROWID;
CREATE INDEX reviews_undecided ON reviews (board, plan_id) WHERE state IN ('open', 'waits');

-- Forge fields of a task, beside its own row. The key identifies the obligation: of two tasks with one key only the first
-- is made. A task that was withdrawn before it began keeps its key and is restored when it is called for again.
CREATE TABLE toolchain_tasks (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    task_id TEXT NOT NULL,
    key TEXT NOT NULL,
    action_type TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    assignee TEXT NOT NULL,
    assigned_by TEXT NOT NULL,
    must_haves BLOB NOT NULL,
    source TEXT NOT NULL,
    object TEXT NOT NULL,
    head_sha TEXT NOT NULL,
    basis TEXT NOT NULL,
    hop INTEGER NOT NULL,
    reviewer TEXT NOT NULL,
    verdict TEXT,
    event_at TEXT NOT NULL,
    made_at TEXT NOT NULL,
    closed_at TEXT,
    closed_why TEXT,
    -- Since when a task waits for a report, and how many reminders were sent.
    since TEXT NOT NULL DEFAULT '',
    reminders INTEGER NOT NULL DEFAULT 0,
    UNIQUE (board, task_id),
    UNIQUE (board, key)
) STRICT;
CREATE INDEX toolchain_tasks_object ON toolchain_tasks (board, object);
CREATE INDEX toolchain_tasks_assignee ON toolchain_tasks (board, assignee, id);
CREATE INDEX toolchain_tasks_page ON toolchain_tasks (board, id);
CREATE INDEX toolchain_tasks_open ON toolchain_tasks (board, id) WHERE closed_at IS NULL;
CREATE INDEX toolchain_tasks_overdue ON toolchain_tasks (board, reminders, since) WHERE closed_at IS NULL;

-- The newest known state of a pull request or an issue. `head` is the newest commit of a pull request.
CREATE TABLE sightings (
    board TEXT NOT NULL,
    object TEXT NOT NULL,
    head TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (board, object)
) STRICT, WITHOUT ROWID;
CREATE INDEX sightings_head ON sightings (head, board);

-- Failures of commits that do not belong to a known pull request yet.
CREATE TABLE held_failures (
    board TEXT NOT NULL,
    head TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    event BLOB NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, head, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX held_failures_age ON held_failures (board, at);

-- Warnings for operators, such as events without an agent to handle them. Each text has one row.
CREATE TABLE toolchain_warnings (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    hint TEXT NOT NULL,
    times INTEGER NOT NULL DEFAULT 1,
    first_at TEXT NOT NULL,
    last_at TEXT NOT NULL,
    UNIQUE (board, sha256)
) STRICT;
CREATE INDEX toolchain_warnings_page ON toolchain_warnings (board, id);

-- Posts for forges, and questions to people where the engine cannot post. Of one pull request or issue (`object`) the oldest
-- goes first. `tries` counts the begun posts: before another try the engine searches for the post at the forge,
-- among what changed there since the event (`since`, by the forge's own clock).
CREATE TABLE outgoing (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    object TEXT NOT NULL,
    repository TEXT NOT NULL,
    number INTEGER NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    assignee TEXT NOT NULL,
    task_id TEXT NOT NULL,
    since TEXT NOT NULL,
    state TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    allowed INTEGER NOT NULL DEFAULT 0,
    not_before TEXT NOT NULL,
    made_at TEXT NOT NULL,
    ended_at TEXT,
    posted TEXT NOT NULL DEFAULT '',
    why TEXT NOT NULL DEFAULT '',
    request_id TEXT,
    UNIQUE (board, key)
) STRICT;
CREATE INDEX outgoing_page ON outgoing (board, id);
CREATE INDEX outgoing_waiting ON outgoing (board, source, object, id) WHERE state = 'waiting';
CREATE INDEX outgoing_sent ON outgoing (board, object, ended_at) WHERE state = 'sent';
CREATE INDEX outgoing_held ON outgoing (board, object, id) WHERE state = 'held';

-- Sources that do not answer. `outage` is the key of the last task for it.
CREATE TABLE breakers (
    board TEXT NOT NULL,
    source TEXT NOT NULL,
    failures INTEGER NOT NULL,
    opened_at TEXT,
    not_before TEXT,
    outage TEXT NOT NULL,
    PRIMARY KEY (board, source)
) STRICT, WITHOUT ROWID;

-- Letters. The id of a thread is that of its first letter. The body is the last column, so that lists need not read it.
CREATE TABLE mails (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    mail_id TEXT NOT NULL,
    thread TEXT NOT NULL,
    sender TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    in_reply_to TEXT,
    deadline TEXT,
    hop INTEGER NOT NULL,
    via TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL,
    at TEXT NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (board, mail_id)
) STRICT;
CREATE INDEX mails_page ON mails (board, id);
CREATE INDEX mails_sender ON mails (board, sender, id);
CREATE INDEX mails_thread ON mails (board, thread, id);

-- The task of a letter for one addressee. `ready` means that it waits for nothing else, `shown` whether
-- its file is to be written (0), was written (1), or is not needed (2).
CREATE TABLE mail_items (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    mail INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    addressee TEXT NOT NULL,
    way TEXT NOT NULL,
    shown INTEGER NOT NULL,
    due_at TEXT,
    read_at TEXT,
    read_how TEXT,
    reply TEXT,
    reminded_at TEXT,
    ready INTEGER NOT NULL DEFAULT 0,
    closed_at TEXT,
    closed_why TEXT,
    UNIQUE (board, task_id),
    UNIQUE (board, mail, addressee)
) STRICT;
CREATE INDEX mail_items_addressee ON mail_items (board, addressee, mail);
CREATE INDEX mail_items_unread ON mail_items (board, addressee, mail) WHERE read_at IS NULL;
CREATE INDEX mail_items_unshown ON mail_items (board, id) WHERE shown = 0;
CREATE INDEX mail_items_lying ON mail_items (board, id) WHERE shown = 1 AND read_at IS NULL;
CREATE INDEX mail_items_handed ON mail_items (board, id) WHERE way = 'command' AND read_at IS NULL;
CREATE INDEX mail_items_ready ON mail_items (board, id) WHERE ready = 1 AND closed_at IS NULL;
CREATE INDEX mail_items_due ON mail_items (board, due_at) WHERE due_at IS NOT NULL;

-- The members of a thread, and its newest letter; '*' stands for all members.
CREATE TABLE mail_parties (
    board TEXT NOT NULL,
    thread TEXT NOT NULL,
    party TEXT NOT NULL,
    latest INTEGER NOT NULL,
    letters INTEGER NOT NULL,
    PRIMARY KEY (board, thread, party)
) STRICT, WITHOUT ROWID;
CREATE INDEX mail_parties_latest ON mail_parties (board, party, latest);

-- Word → letters that contain it.
CREATE TABLE mail_words (
    board TEXT NOT NULL,
    word TEXT NOT NULL,
    mail INTEGER NOT NULL,
    PRIMARY KEY (board, word, mail)
) STRICT, WITHOUT ROWID;

-- Submissions of remote agents during an attempt: the acceptance, files, the tree of a repository, and at last a
-- result; `base` is the commit that such a tree is built on. They count for that attempt alone, and are kept here
-- until the engine has taken them in.
CREATE TABLE elsewhere (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('base', 'claim', 'artifact', 'tree', 'snapshot', 'result', 'lost')),
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL,
    body BLOB NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, epoch, kind, name, path)
) STRICT, WITHOUT ROWID;

-- How often claims of agents held, counted from the ledger step by step; see `rules.proof.honesty`. The position is a cursor.
CREATE TABLE honesty (
    board TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    model TEXT NOT NULL,
    turns INTEGER NOT NULL,
    claims INTEGER NOT NULL,
    proven INTEGER NOT NULL,
    unproven INTEGER NOT NULL,
    refuted INTEGER NOT NULL,
    overturned INTEGER NOT NULL,
    stale INTEGER NOT NULL,
    rounds INTEGER NOT NULL,
    judged INTEGER NOT NULL,
    misled INTEGER NOT NULL,
    overruled INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    seconds REAL NOT NULL,
    -- How many of them an agent raised, and what people said of them.
    disputed INTEGER NOT NULL DEFAULT 0,
    upheld INTEGER NOT NULL DEFAULT 0,
    dismissed INTEGER NOT NULL DEFAULT 0,
    -- Inputs that an agent was asked to judge, without a readable judgement.
    unjudged INTEGER NOT NULL DEFAULT 0,
    -- Done tasks whose agent or a check ran without a sandbox.
    unisolated INTEGER NOT NULL DEFAULT 0,
    -- Turns that passed the checks that their agent knew, and failed a hidden one.
    gamed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (board, agent_id, model)
) STRICT, WITHOUT ROWID;

-- Checks that agents say are wrong. Each is a question to a person, and changes nothing.
CREATE TABLE disputes (
    board TEXT NOT NULL,
    request_id TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    check_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open',
    at TEXT NOT NULL,
    answered_by TEXT,
    answered_at TEXT,
    note TEXT,
    PRIMARY KEY (board, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX disputes_of_task ON disputes (board, plan_id, task_id, at);

-- Beginnings of spans that are not yet exported; see `rules.operation.traces`. The position is a cursor.
CREATE TABLE traced (
    board TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (board, name)
) STRICT, WITHOUT ROWID;

-- Unmerged branches of ended plans, and the tip of each at the last check.
CREATE TABLE branches (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    head TEXT NOT NULL,
    PRIMARY KEY (board, plan_id)
) STRICT, WITHOUT ROWID;

-- The commit that is the tip of a plan's branch. The branch in the repository follows.
CREATE TABLE tips (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    commit_id TEXT NOT NULL,
    PRIMARY KEY (board, plan_id)
) STRICT, WITHOUT ROWID;

-- The moves of tips. With a clone of the user's repository, their packs make the branch of the plan again.
CREATE TABLE tip_packs (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    commit_id TEXT NOT NULL,
    onto TEXT NOT NULL,
    pack TEXT NOT NULL,
    attempt_key TEXT NOT NULL,
    made TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, commit_id)
) STRICT, WITHOUT ROWID;

-- Until when the agents of an account take no work, because its provider does not. `account` is a hash.
CREATE TABLE account_waits (
    board TEXT NOT NULL,
    account TEXT NOT NULL,
    agent TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    until TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (board, account)
) STRICT, WITHOUT ROWID;
