-- Where a plan lives.
CREATE TABLE plan_boards (
    plan_id text PRIMARY KEY,
    board text NOT NULL
);
CREATE INDEX plan_boards_used ON plan_boards (board);

-- Who may come in, by the hash of the token. Tokens of attempts are columns of their tasks.
CREATE TABLE tokens (
    hash text PRIMARY KEY,
    role text NOT NULL CHECK (role IN ('operator', 'viewer', 'worker')),
    label text NOT NULL,
    at text NOT NULL,
    revoked_at text
);
