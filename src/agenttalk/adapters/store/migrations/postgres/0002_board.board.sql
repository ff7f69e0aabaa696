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
CREATE INDEX plans_foreign ON plans (board, plan_id) WHERE origin = 'foreign';

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
    -- Of a task that the engine runs. `unmet` counts the tasks that it waits for, and one more while it is `held`
    -- because no task activated it; it is NULL for tasks that the engine does not run. `queued` is its place in its agent's queue.
    unmet bigint,
    held bigint NOT NULL DEFAULT 0,
    queued bigint,
    priority bigint NOT NULL DEFAULT 1,
    phase text,
    cause text,
    reason text,
    -- The reason as a message of the catalogue, in JSON, if it is one.
    reason_message text,
    fresh bigint NOT NULL DEFAULT 1,
    score double precision,
    retries bigint NOT NULL DEFAULT 0,
    sent_back bigint NOT NULL DEFAULT 0,
    deaths bigint NOT NULL DEFAULT 0,
    -- The fact of a task's last turn, which names the one before it, and what all its turns took.
    fact bigint,
    seconds double precision NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    cost_usd double precision NOT NULL DEFAULT 0,
    -- Calls of tools that all turns of a task made.
    tool_calls bigint NOT NULL DEFAULT 0,
    -- Whether a task is done by its agent's word alone, and nobody has verified anything of it.
    unproven bigint NOT NULL DEFAULT 0,
    -- Whether the work of a task rests on no isolation: its agent, or a check of its work, ran without a sandbox.
    unisolated bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (board, plan_id, task_id)
);
CREATE INDEX tasks_leased ON tasks (board, lease) WHERE lease IS NOT NULL;
CREATE INDEX tasks_open ON tasks (board, plan_id, state) WHERE state NOT IN ('PENDING', 'COMPLETED', 'SKIPPED');
CREATE INDEX tasks_due ON tasks (board, plan_id, task_id) WHERE state = 'PENDING' AND unmet = 0;
CREATE INDEX tasks_queued ON tasks (board, agent_id, priority, queued) WHERE queued IS NOT NULL;
-- Tasks that have failed and wait for a person's word: few, whatever else has failed.
CREATE INDEX tasks_asked ON tasks (board, request_id) WHERE state = 'FAILED' AND request_id IS NOT NULL;
-- Done tasks of which something that was proven has changed since.
CREATE INDEX tasks_stale ON tasks (board, plan_id, fresh) WHERE fresh = 0;
CREATE INDEX tasks_unproven ON tasks (board, plan_id) WHERE unproven = 1;
CREATE INDEX tasks_unisolated ON tasks (board, plan_id) WHERE unisolated = 1;

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
    -- How it is known that a person gave an answer, and what stood around it.
    proof text,
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

-- A plan that the engine runs: whether it goes on, and how many of its tasks are where. `settings` holds its policies and
-- the profiles of its agents, as they were when it was submitted.
CREATE TABLE runs (
    board text NOT NULL,
    plan_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('SUBMITTED', 'RUNNING', 'PAUSED', 'ENDED')),
    settings bytea NOT NULL,
    open bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    began_at text NOT NULL,
    ended_at text,
    -- Whether a plan looks once more at what was proven before it ends: when nothing of it is open, it is closing.
    closing bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (board, plan_id)
);
CREATE INDEX runs_open ON runs (board, plan_id) WHERE state <> 'ENDED';
-- Plans by when they began, for lists.
CREATE INDEX runs_begun ON runs (board, began_at, plan_id);

-- What is asked for in a task. It changes only with a new revision of the DAG. `wards` are tasks that run only if this one
-- says so, by a branch or by failing; `guards` those that can say so of this one.
CREATE TABLE nodes (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    node bytea NOT NULL,
    wards bytea,
    guards bytea,
    PRIMARY KEY (board, plan_id, task_id)
);

-- Who waits for whom. An answered edge is gone through once and stays.
CREATE TABLE edges (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    dependant text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, dependant)
);

-- How far what is shown of a board has come, for views that follow from rows in their order.
CREATE TABLE cursors (
    board text NOT NULL,
    name text NOT NULL,
    value bigint NOT NULL,
    PRIMARY KEY (board, name)
);

-- What was used of a budget: by a task that has one, by a plan with limits, on a day that is limited.
CREATE TABLE spendings (
    board text NOT NULL,
    name text NOT NULL,
    tokens bigint NOT NULL,
    cost_usd double precision NOT NULL,
    seconds double precision NOT NULL,
    tool_calls bigint NOT NULL,
    PRIMARY KEY (board, name)
);

-- What checkpoints held against tasks: warnings, and denials with who has overridden them. What is allowed without a word
-- stands in the ledger alone. `digest` is the hash of the reasons.
CREATE TABLE objections (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    checkpoint text NOT NULL,
    digest text NOT NULL,
    severity text NOT NULL,
    reasons bytea NOT NULL,
    trace_id text NOT NULL,
    at text NOT NULL,
    overridden_by text,
    why text,
    PRIMARY KEY (board, plan_id, task_id, checkpoint, digest)
);

-- What shows that a task is done: what came of each check of its promise, and what that rests on. `result` is told as in
-- the ledger, with its fingerprint; `key` is a hash of what it is about, where it says something of later.
CREATE TABLE evidence (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    check_id text NOT NULL,
    command_id text NOT NULL,
    commit_id text,
    tree text NOT NULL,
    result bytea NOT NULL,
    key text,
    fresh bigint NOT NULL DEFAULT 1,
    at text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, check_id)
);

-- Results of checks by everything that they may rest on, the whole tree included. `made_by` is the task for which a check was made.
CREATE TABLE check_results (
    board text NOT NULL,
    key text NOT NULL,
    result bytea NOT NULL,
    made_by text NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, key)
);

-- How the checks of a task stood before its work, and at which tip that was.
CREATE TABLE baselines (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    onto text NOT NULL,
    results bytea NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id)
);

-- What came of an attempt that is being verified, so that a death does not lose it. Gone when the turn has ended.
CREATE TABLE performances (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    command_id text NOT NULL,
    attempt bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (board, plan_id, task_id)
);

-- What agents who work in folders refuse, until whoever runs the plan has it done again.
CREATE TABLE refusals (
    board text NOT NULL,
    refusal_id text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    agent_id text NOT NULL,
    body bytea NOT NULL,
    at text NOT NULL,
    ended_at text,
    PRIMARY KEY (board, refusal_id)
);
CREATE INDEX refusals_open ON refusals (board, plan_id, at) WHERE ended_at IS NULL;

-- Checks of other tasks (`owner`) that a task broke, and that its promise demands from then on.
CREATE TABLE joined_checks (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    owner text NOT NULL,
    check_id text NOT NULL,
    body bytea NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, owner, check_id)
);

-- What is shipped of a plan. The last one counts. One that is `due` has still to be decided; `footing` is the hash of what
-- a decision rests on, so that the same is not decided twice.
CREATE TABLE releases (
    board text NOT NULL,
    plan_id text NOT NULL,
    number bigint NOT NULL,
    release_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('due', 'approved', 'rejected', 'revoked')),
    footing text NOT NULL DEFAULT '',
    manifest bytea,
    told bytea,
    at text NOT NULL,
    PRIMARY KEY (board, plan_id, number)
);
CREATE INDEX releases_due ON releases (board, plan_id) WHERE state = 'due';

-- What others than its maker said of an artifact, by its hash.
CREATE TABLE judgements (
    board text NOT NULL,
    plan_id text NOT NULL,
    sha256 text NOT NULL,
    validator text NOT NULL,
    accepted bigint NOT NULL,
    task_id text NOT NULL,
    output_name text NOT NULL,
    at text NOT NULL,
    -- The model by which somebody judged, as far as it is known.
    model text NOT NULL DEFAULT '',
    PRIMARY KEY (board, plan_id, sha256, validator)
);

-- DAGs that have to be approved before their tasks begin, by the plan's revision. An `open` one is being reviewed, one that
-- `waits` was not approved: another revision or a person is awaited. `held` says that the plan stays paused afterwards.
CREATE TABLE reviews (
    board text NOT NULL,
    plan_id text NOT NULL,
    revision bigint NOT NULL,
    dag_sha256 text NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'waits', 'approved', 'dropped')),
    review_plan text NOT NULL,
    request_id text,
    held bigint NOT NULL DEFAULT 0,
    told bytea,
    began_at text NOT NULL,
    PRIMARY KEY (board, plan_id, revision)
);
CREATE INDEX reviews_undecided ON reviews (board, plan_id) WHERE state IN ('open', 'waits');

-- What forge events call for, beside the task's own row. The key is what it is about: of two with one key only the first
-- is made. A task that was withdrawn before it began keeps its key and is restored when it is called for again.
CREATE TABLE toolchain_tasks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    task_id text NOT NULL,
    key text NOT NULL,
    action_type text NOT NULL,
    title text NOT NULL,
    description text NOT NULL,
    assignee text NOT NULL,
    assigned_by text NOT NULL,
    must_haves bytea NOT NULL,
    source text NOT NULL,
    object text NOT NULL,
    head_sha text NOT NULL,
    basis text NOT NULL,
    hop bigint NOT NULL,
    reviewer text NOT NULL,
    verdict text,
    event_at text NOT NULL,
    made_at text NOT NULL,
    closed_at text,
    closed_why text,
    -- Since when a task waits for a report, and how often somebody was told that it does.
    since text NOT NULL DEFAULT '',
    reminders bigint NOT NULL DEFAULT 0,
    UNIQUE (board, task_id),
    UNIQUE (board, key)
);
CREATE INDEX toolchain_tasks_object ON toolchain_tasks (board, object);
CREATE INDEX toolchain_tasks_assignee ON toolchain_tasks (board, assignee, id);
CREATE INDEX toolchain_tasks_page ON toolchain_tasks (board, id);
CREATE INDEX toolchain_tasks_open ON toolchain_tasks (board, id) WHERE closed_at IS NULL;
CREATE INDEX toolchain_tasks_overdue ON toolchain_tasks (board, reminders, since) WHERE closed_at IS NULL;

-- The newest that is known of a pull request or an issue. `head` is the newest commit of a pull request.
CREATE TABLE sightings (
    board text NOT NULL,
    object text NOT NULL,
    head text NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (board, object)
);
CREATE INDEX sightings_head ON sightings (head, board);

-- Failures of commits that are no pull request's head yet.
CREATE TABLE held_failures (
    board text NOT NULL,
    head text NOT NULL,
    sha256 text NOT NULL,
    event bytea NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, head, sha256)
);
CREATE INDEX held_failures_age ON held_failures (board, at);

-- What operators should know: events that nobody could be given. The same text is one row.
CREATE TABLE toolchain_warnings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    sha256 text NOT NULL,
    code text NOT NULL,
    message text NOT NULL,
    hint text NOT NULL,
    times bigint NOT NULL DEFAULT 1,
    first_at text NOT NULL,
    last_at text NOT NULL,
    UNIQUE (board, sha256)
);
CREATE INDEX toolchain_warnings_page ON toolchain_warnings (board, id);

-- What the engine has to say at forges, and to people where it cannot say it there. Of one thing (`object`) the oldest
-- goes first. `tries` counts how often it was begun: what was begun before is looked for at the forge first,
-- among what changed there since the event (`since`, by the forge's own clock).
CREATE TABLE outgoing (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    key text NOT NULL,
    kind text NOT NULL,
    source text NOT NULL,
    object text NOT NULL,
    repository text NOT NULL,
    number bigint NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    assignee text NOT NULL,
    task_id text NOT NULL,
    since text NOT NULL,
    state text NOT NULL,
    tries bigint NOT NULL DEFAULT 0,
    allowed bigint NOT NULL DEFAULT 0,
    not_before text NOT NULL,
    made_at text NOT NULL,
    ended_at text,
    posted text NOT NULL DEFAULT '',
    why text NOT NULL DEFAULT '',
    request_id text,
    UNIQUE (board, key)
);
CREATE INDEX outgoing_page ON outgoing (board, id);
CREATE INDEX outgoing_waiting ON outgoing (board, source, object, id) WHERE state = 'waiting';
CREATE INDEX outgoing_sent ON outgoing (board, object, ended_at) WHERE state = 'sent';
CREATE INDEX outgoing_held ON outgoing (board, object, id) WHERE state = 'held';

-- Sources that do not answer. `outage` is the key of the last task for it.
CREATE TABLE breakers (
    board text NOT NULL,
    source text NOT NULL,
    failures bigint NOT NULL,
    opened_at text,
    not_before text,
    outage text NOT NULL,
    PRIMARY KEY (board, source)
);

-- Letters. A thread is named after its first letter. The body comes last, so that lists need not read it.
CREATE TABLE mails (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    mail_id text NOT NULL,
    thread text NOT NULL,
    sender text NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    in_reply_to text,
    deadline text,
    hop bigint NOT NULL,
    via text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    at text NOT NULL,
    body bytea NOT NULL,
    UNIQUE (board, mail_id)
);
CREATE INDEX mails_page ON mails (board, id);
CREATE INDEX mails_sender ON mails (board, sender, id);
CREATE INDEX mails_thread ON mails (board, thread, id);

-- A letter as one of those that it is for has it: a task. `ready` says that what it waits for has come, `shown` whether
-- its file is to be written (0), was written (1), or nobody needs one (2).
CREATE TABLE mail_items (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    mail bigint NOT NULL,
    task_id text NOT NULL,
    addressee text NOT NULL,
    way text NOT NULL,
    shown bigint NOT NULL,
    due_at text,
    read_at text,
    read_how text,
    reply text,
    reminded_at text,
    ready bigint NOT NULL DEFAULT 0,
    closed_at text,
    closed_why text,
    UNIQUE (board, task_id),
    UNIQUE (board, mail, addressee)
);
CREATE INDEX mail_items_addressee ON mail_items (board, addressee, mail);
CREATE INDEX mail_items_unread ON mail_items (board, addressee, mail) WHERE read_at IS NULL;
CREATE INDEX mail_items_unshown ON mail_items (board, id) WHERE shown = 0;
CREATE INDEX mail_items_lying ON mail_items (board, id) WHERE shown = 1 AND read_at IS NULL;
CREATE INDEX mail_items_handed ON mail_items (board, id) WHERE way = 'command' AND read_at IS NULL;
CREATE INDEX mail_items_ready ON mail_items (board, id) WHERE ready = 1 AND closed_at IS NULL;
CREATE INDEX mail_items_due ON mail_items (board, due_at) WHERE due_at IS NOT NULL;

-- Who takes part in a thread, and its newest letter; '*' stands for everybody.
CREATE TABLE mail_parties (
    board text NOT NULL,
    thread text NOT NULL,
    party text NOT NULL,
    latest bigint NOT NULL,
    letters bigint NOT NULL,
    PRIMARY KEY (board, thread, party)
);
CREATE INDEX mail_parties_latest ON mail_parties (board, party, latest);

-- Which letters hold a word.
CREATE TABLE mail_words (
    board text NOT NULL,
    word text NOT NULL,
    mail bigint NOT NULL,
    PRIMARY KEY (board, word, mail)
);

-- What agents that work elsewhere hand in during an attempt: that they took it, files, and in the end a result. It counts
-- for that attempt alone, and is kept here until the engine has taken it in.
CREATE TABLE elsewhere (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    epoch bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('claim', 'artifact', 'result', 'lost')),
    name text NOT NULL,
    path text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    body bytea NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, epoch, kind, name, path)
);

-- How far agents could be believed, counted from the ledger by and by; see `rules.honesty`. How far that has come is a cursor.
CREATE TABLE honesty (
    board text NOT NULL,
    agent_id text NOT NULL,
    model text NOT NULL,
    turns bigint NOT NULL,
    claims bigint NOT NULL,
    proven bigint NOT NULL,
    unproven bigint NOT NULL,
    refuted bigint NOT NULL,
    overturned bigint NOT NULL,
    stale bigint NOT NULL,
    rounds bigint NOT NULL,
    judged bigint NOT NULL,
    misled bigint NOT NULL,
    overruled bigint NOT NULL,
    tokens bigint NOT NULL,
    cost_usd double precision NOT NULL,
    seconds double precision NOT NULL,
    -- How many of them an agent raised, and what people said of them.
    disputed bigint NOT NULL DEFAULT 0,
    upheld bigint NOT NULL DEFAULT 0,
    dismissed bigint NOT NULL DEFAULT 0,
    -- Inputs that somebody was asked to judge, and gave no judgement that can be read.
    unjudged bigint NOT NULL DEFAULT 0,
    -- Work that is done, and of which the agent or a check ran without a sandbox.
    unisolated bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (board, agent_id, model)
);

-- Checks that agents say are wrong. Each is a question to a person, and changes nothing.
CREATE TABLE disputes (
    board text NOT NULL,
    request_id text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    check_id text NOT NULL,
    seq bigint NOT NULL,
    agent_id text NOT NULL,
    reason text NOT NULL,
    state text NOT NULL DEFAULT 'open',
    at text NOT NULL,
    answered_by text,
    answered_at text,
    note text,
    PRIMARY KEY (board, request_id)
);
CREATE INDEX disputes_of_task ON disputes (board, plan_id, task_id, at);

-- What has begun and is not yet told to a tracing system; see `rules.traces`. How far that has come is a cursor.
CREATE TABLE traced (
    board text NOT NULL,
    name text NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (board, name)
);

-- Branches of plans that have ended and are not merged, and where each stood when it was looked at last.
CREATE TABLE branches (
    board text NOT NULL,
    plan_id text NOT NULL,
    head text NOT NULL,
    PRIMARY KEY (board, plan_id)
);
