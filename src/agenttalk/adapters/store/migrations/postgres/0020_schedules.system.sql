-- What is done again and again. `definition` is empty where the settings say it. Times after `since` are yet to be decided
-- about; `due` says that the plan of the last one is to be submitted, if nobody has done so.
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    definition BYTEA,
    paused INTEGER NOT NULL DEFAULT 0,
    since TEXT NOT NULL,
    plan_id TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT 'idle' CHECK (state IN ('idle', 'due')),
    why TEXT NOT NULL DEFAULT ''
);
