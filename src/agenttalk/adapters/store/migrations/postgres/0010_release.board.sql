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
