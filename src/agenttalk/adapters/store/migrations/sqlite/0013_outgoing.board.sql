-- What the engine has to say at forges, and to people where it cannot say it there. Of one thing (`object`) the oldest
-- goes first. `tries` counts how often it was begun: what was begun before is looked for at the forge first,
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

-- Since when a task waits for a report, and how often somebody was told that it does.
ALTER TABLE toolchain_tasks ADD COLUMN since TEXT NOT NULL DEFAULT '';
ALTER TABLE toolchain_tasks ADD COLUMN reminders INTEGER NOT NULL DEFAULT 0;
UPDATE toolchain_tasks SET since = made_at;
CREATE INDEX toolchain_tasks_overdue ON toolchain_tasks (board, reminders, since) WHERE closed_at IS NULL;
