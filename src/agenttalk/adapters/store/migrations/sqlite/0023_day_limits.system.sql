-- What may be spent on a day, where an operator said so; it goes before the settings. No number: nothing limits it.
CREATE TABLE day_limits (
    name TEXT PRIMARY KEY,
    cost_usd REAL,
    by TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
