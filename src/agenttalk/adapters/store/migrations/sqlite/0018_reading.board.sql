-- How far agents could be believed, counted from the ledger by and by; see `rules.honesty`. How far that has come is a cursor.
CREATE TABLE honesty (
    board TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    model TEXT NOT NULL,
    turns INTEGER NOT NULL,
    claims INTEGER NOT NULL,
    proven INTEGER NOT NULL,
    unproven INTEGER NOT NULL,
    refuted INTEGER NOT NULL,
    overturned INTEGER NOT NULL,
    stale INTEGER NOT NULL,
    rounds INTEGER NOT NULL,
    judged INTEGER NOT NULL,
    misled INTEGER NOT NULL,
    overruled INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (board, agent_id, model)
) STRICT, WITHOUT ROWID;

-- Plans by when they began, for lists.
CREATE INDEX runs_begun ON runs (board, began_at, plan_id);
CREATE INDEX plans_foreign ON plans (board, plan_id) WHERE origin = 'foreign';
