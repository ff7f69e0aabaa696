-- What forge events call for, beside the task's own row. The key is what it is about: of two with one key only the first
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
    UNIQUE (board, task_id),
    UNIQUE (board, key)
) STRICT;
CREATE INDEX toolchain_tasks_object ON toolchain_tasks (board, object);
CREATE INDEX toolchain_tasks_assignee ON toolchain_tasks (board, assignee, id);
CREATE INDEX toolchain_tasks_page ON toolchain_tasks (board, id);
CREATE INDEX toolchain_tasks_open ON toolchain_tasks (board, id) WHERE closed_at IS NULL;

-- The newest that is known of a pull request or an issue. `head` is the newest commit of a pull request.
CREATE TABLE sightings (
    board TEXT NOT NULL,
    object TEXT NOT NULL,
    head TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (board, object)
) STRICT, WITHOUT ROWID;
CREATE INDEX sightings_head ON sightings (head, board);

-- Failures of commits that are no pull request's head yet.
CREATE TABLE held_failures (
    board TEXT NOT NULL,
    head TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    event BLOB NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, head, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX held_failures_age ON held_failures (board, at);

-- What operators should know: events that nobody could be given. The same text is one row.
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
