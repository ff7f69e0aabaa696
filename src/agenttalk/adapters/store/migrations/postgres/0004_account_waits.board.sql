-- Until when the agents of an account take no work, because its provider does not. `account` is a hash.
CREATE TABLE account_waits (
    board text NOT NULL,
    account text NOT NULL,
    agent text NOT NULL,
    kind text NOT NULL,
    text text NOT NULL,
    until text NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (board, account)
);
