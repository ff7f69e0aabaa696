-- The fact of a task's last turn, which names the one before it, and what all its turns took.
ALTER TABLE tasks ADD COLUMN fact INTEGER;
ALTER TABLE tasks ADD COLUMN seconds REAL NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN cost_usd REAL NOT NULL DEFAULT 0;
ALTER TABLE tasks DROP COLUMN verdict;
