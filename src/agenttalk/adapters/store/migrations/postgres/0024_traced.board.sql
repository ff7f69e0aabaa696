-- What has begun and is not yet told to a tracing system; see `rules.traces`. How far that has come is a cursor.
CREATE TABLE traced (
    board text NOT NULL,
    name text NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (board, name)
);
