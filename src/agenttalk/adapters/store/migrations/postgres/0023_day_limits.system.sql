-- What may be spent on a day, where an operator said so; it goes before the settings. No number: nothing limits it.
CREATE TABLE day_limits (
    name text PRIMARY KEY,
    cost_usd double precision,
    by text NOT NULL,
    at text NOT NULL
);
