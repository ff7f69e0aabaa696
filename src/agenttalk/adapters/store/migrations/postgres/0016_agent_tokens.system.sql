-- Tokens of agents that work elsewhere. They open nothing but what their agent is given.
CREATE TABLE agent_tokens (
    hash text PRIMARY KEY,
    agent_id text NOT NULL,
    at text NOT NULL,
    revoked_at text
);
