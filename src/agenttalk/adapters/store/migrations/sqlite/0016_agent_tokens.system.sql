-- Tokens of agents that work elsewhere. They open nothing but what their agent is given.
CREATE TABLE agent_tokens (
    hash TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    at TEXT NOT NULL,
    revoked_at TEXT
) STRICT, WITHOUT ROWID;
