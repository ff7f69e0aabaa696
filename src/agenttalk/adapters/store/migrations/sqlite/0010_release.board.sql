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

-- What others than its maker said of an artifact, by its hash.
CREATE TABLE judgements (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    validator TEXT NOT NULL,
    accepted INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    output_name TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (board, plan_id, sha256, validator)
) STRICT, WITHOUT ROWID;

-- DAGs that have to be approved before their tasks begin, by the plan's revision. An `open` one is being reviewed, one that
-- `waits` was not approved: another revision or a person is awaited. `held` says that the plan stays paused afterwards.
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
