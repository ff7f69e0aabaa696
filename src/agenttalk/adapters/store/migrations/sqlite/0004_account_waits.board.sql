-- Until when the agents of an account take no work, because its provider does not. `account` is a hash.
CREATE TABLE account_waits (
    board TEXT NOT NULL,
    account TEXT NOT NULL,
    agent TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    until TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (board, account)
) STRICT, WITHOUT ROWID;
