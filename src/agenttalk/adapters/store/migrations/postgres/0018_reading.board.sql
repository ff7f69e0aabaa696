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
    PRIMARY KEY (board, agent_id, model)
);

-- Plans by when they began, for lists.
CREATE INDEX runs_begun ON runs (board, began_at, plan_id);
CREATE INDEX plans_foreign ON plans (board, plan_id) WHERE origin = 'foreign';
