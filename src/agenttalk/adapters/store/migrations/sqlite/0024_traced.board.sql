-- What has begun and is not yet told to a tracing system; see `rules.traces`. How far that has come is a cursor.
CREATE TABLE traced (
    board TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (board, name)
) STRICT, WITHOUT ROWID;
