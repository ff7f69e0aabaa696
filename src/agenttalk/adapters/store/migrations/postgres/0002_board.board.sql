-- A plan, and the number of its messages in each place. Messages in flight are counted by their rows.
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

-- The documents of a plan. They may be large, and the counts change with every message, so these have a table of their own.
CREATE TABLE documents (
    board text NOT NULL,
    plan_id text NOT NULL,
    dag bytea NOT NULL,
    pointer bytea,
    manifest bytea,
    PRIMARY KEY (board, plan_id)
);

-- A task. Its lease names the process that runs it; the epoch grows with each lease, and a write with an older one is refused.
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
    -- Whether a task is done by its agent's word alone, and nothing was verified.
    unproven bigint NOT NULL DEFAULT 0,
    -- Whether the work of a task rests on no isolation: its agent, or a check of its work, ran without a sandbox.
    unisolated bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (board, plan_id, task_id)
);
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

-- A message for one receiver. `shown` is the state that the files show; if it differs, files have to be written.
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
    times text,
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

-- Refused messages. The key makes finding the same file again harmless; the original is a content by its hash.
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
    -- The attestation: how it is known that a person gave an answer.
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

-- How far the lines of a plan's deliveries.jsonl are written. `latest` is its newest line, `base` the size of the file before
-- our first line, once it was read.
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

-- The definition of a task. It changes only with a new revision of the DAG. `wards` are tasks that run only if this one
-- activates them, by a branch or by failing; `guards` are the tasks that can activate this one.
CREATE TABLE nodes (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    node bytea NOT NULL,
    wards bytea,
    guards bytea,
    PRIMARY KEY (board, plan_id, task_id)
);

-- Dependencies between tasks. An answered edge is followed once and stays.
CREATE TABLE edges (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    dependant text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, dependant)
);

-- How far the views of a board are written, for views that follow from rows in their order.
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

-- Objections of checkpoints: warnings, and denials with the person who overrode them. A checkpoint without an objection
-- is only in the ledger. `digest` is the hash of the reasons.
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

-- The evidence of a task: the result of each check of its promise, and what that rests on. `result` is as in
-- the ledger, with its fingerprint; `key` is a hash of its subject, if the result may be used again.
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

-- Results of checks by everything that they may rest on, the whole tree included. `made_by` is the task for which a check ran.
CREATE TABLE check_results (
    board text NOT NULL,
    key text NOT NULL,
    result bytea NOT NULL,
    made_by text NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, key)
);

-- The results of a task's checks before its work, and the tip at which they ran.
CREATE TABLE baselines (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    onto text NOT NULL,
    results bytea NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id)
);

-- The performance of an attempt that is being verified, so that a crash does not lose it. Deleted when the turn has ended.
CREATE TABLE performances (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    command_id text NOT NULL,
    attempt bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (board, plan_id, task_id)
);

-- Refusals by agents that work in folders, until the plan's engine orders the rework.
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

-- Judgements of an artifact by others than its maker, by its hash.
CREATE TABLE judgements (
    board text NOT NULL,
    plan_id text NOT NULL,
    sha256 text NOT NULL,
    validator text NOT NULL,
    accepted bigint NOT NULL,
    task_id text NOT NULL,
    output_name text NOT NULL,
    at text NOT NULL,
    -- The model that judged, as far as it is known.
    model text NOT NULL DEFAULT '',
    PRIMARY KEY (board, plan_id, sha256, validator)
);

-- DAGs that have to be approved before their tasks begin, by the plan's revision. An `open` one is being reviewed, one that
-- `waits` was not approved and waits for another revision or a person. `held` means that the plan stays paused afterwards.
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

-- Forge fields of a task, beside its own row. The key identifies the obligation: of two tasks with one key only the first
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
    -- Since when a task waits for a report, and how many reminders were sent.
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

-- The newest known state of a pull request or an issue. `head` is the newest commit of a pull request.
CREATE TABLE sightings (
    board text NOT NULL,
    object text NOT NULL,
    head text NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (board, object)
);
CREATE INDEX sightings_head ON sightings (head, board);

-- Failures of commits that do not belong to a known pull request yet.
CREATE TABLE held_failures (
    board text NOT NULL,
    head text NOT NULL,
    sha256 text NOT NULL,
    event bytea NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, head, sha256)
);
CREATE INDEX held_failures_age ON held_failures (board, at);

-- Warnings for operators, such as events without an agent to handle them. Each text has one row.
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

-- Posts for forges, and questions to people where the engine cannot post. Of one pull request or issue (`object`) the oldest
-- goes first. `tries` counts the begun posts: before another try the engine searches for the post at the forge,
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

-- Letters. The id of a thread is that of its first letter. The body is the last column, so that lists need not read it.
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

-- The task of a letter for one addressee. `ready` means that it waits for nothing else, `shown` whether
-- its file is to be written (0), was written (1), or is not needed (2).
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

-- The members of a thread, and its newest letter; '*' stands for all members.
CREATE TABLE mail_parties (
    board text NOT NULL,
    thread text NOT NULL,
    party text NOT NULL,
    latest bigint NOT NULL,
    letters bigint NOT NULL,
    PRIMARY KEY (board, thread, party)
);
CREATE INDEX mail_parties_latest ON mail_parties (board, party, latest);

-- Word → letters that contain it.
CREATE TABLE mail_words (
    board text NOT NULL,
    word text NOT NULL,
    mail bigint NOT NULL,
    PRIMARY KEY (board, word, mail)
);

-- Submissions of remote agents during an attempt: the acceptance, files, the tree of a repository, and at last a
-- result; `base` is the commit that such a tree is built on. They count for that attempt alone, and are kept here
-- until the engine has taken them in.
CREATE TABLE elsewhere (
    board text NOT NULL,
    plan_id text NOT NULL,
    task_id text NOT NULL,
    epoch bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('base', 'claim', 'artifact', 'tree', 'snapshot', 'result', 'lost')),
    name text NOT NULL,
    path text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    body bytea NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (board, plan_id, task_id, epoch, kind, name, path)
);

-- How often claims of agents held, counted from the ledger step by step; see `rules.proof.honesty`. The position is a cursor.
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
    -- Inputs that an agent was asked to judge, without a readable judgement.
    unjudged bigint NOT NULL DEFAULT 0,
    -- Done tasks whose agent or a check ran without a sandbox.
    unisolated bigint NOT NULL DEFAULT 0,
    -- Turns that passed the checks that their agent knew, and failed a hidden one.
    gamed bigint NOT NULL DEFAULT 0,
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

-- Beginnings of spans that are not yet exported; see `rules.operation.traces`. The position is a cursor.
CREATE TABLE traced (
    board text NOT NULL,
    name text NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (board, name)
);

-- Unmerged branches of ended plans, and the tip of each at the last check.
CREATE TABLE branches (
    board text NOT NULL,
    plan_id text NOT NULL,
    head text NOT NULL,
    PRIMARY KEY (board, plan_id)
);

-- The commit that is the tip of a plan's branch. The branch in the repository follows.
CREATE TABLE tips (
    board text NOT NULL,
    plan_id text NOT NULL,
    commit_id text NOT NULL,
    PRIMARY KEY (board, plan_id)
);

-- The moves of tips. With a clone of the user's repository, their packs make the branch of the plan again.
CREATE TABLE tip_packs (
    board text NOT NULL,
    plan_id text NOT NULL,
    commit_id text NOT NULL,
    onto text NOT NULL,
    pack text NOT NULL,
    attempt_key text NOT NULL,
    made text NOT NULL,
    PRIMARY KEY (board, plan_id, commit_id)
);

-- Until when the agents of an account take no work, because its provider does not. `account` is a hash.
CREATE TABLE account_waits (
    board text NOT NULL,
    account text NOT NULL,
    agent text NOT NULL,
    kind text NOT NULL,
    text text NOT NULL,
    until text NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (board, account)
);
