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
    UNIQUE (board, task_id),
    UNIQUE (board, key)
);
CREATE INDEX toolchain_tasks_object ON toolchain_tasks (board, object);
CREATE INDEX toolchain_tasks_assignee ON toolchain_tasks (board, assignee, id);
CREATE INDEX toolchain_tasks_page ON toolchain_tasks (board, id);
CREATE INDEX toolchain_tasks_open ON toolchain_tasks (board, id) WHERE closed_at IS NULL;

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
