-- The fact of a task's last turn, which names the one before it, and what all its turns took.
ALTER TABLE tasks ADD COLUMN fact bigint;
ALTER TABLE tasks ADD COLUMN seconds double precision NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN tokens bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN cost_usd double precision NOT NULL DEFAULT 0;
ALTER TABLE tasks DROP COLUMN verdict;
