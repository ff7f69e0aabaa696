-- Work that is done, and of which the agent or a check ran without a sandbox.
ALTER TABLE honesty ADD COLUMN unisolated INTEGER NOT NULL DEFAULT 0;
