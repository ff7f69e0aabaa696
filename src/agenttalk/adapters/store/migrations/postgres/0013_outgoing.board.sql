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

-- Since when a task waits for a report, and how often somebody was told that it does.
ALTER TABLE toolchain_tasks ADD COLUMN since text NOT NULL DEFAULT '';
ALTER TABLE toolchain_tasks ADD COLUMN reminders bigint NOT NULL DEFAULT 0;
UPDATE toolchain_tasks SET since = made_at;
CREATE INDEX toolchain_tasks_overdue ON toolchain_tasks (board, reminders, since) WHERE closed_at IS NULL;
