-- Whether the work of a task rests on no isolation: its agent, or a check of its work, ran without a sandbox.
ALTER TABLE tasks ADD COLUMN unisolated bigint NOT NULL DEFAULT 0;
CREATE INDEX tasks_unisolated ON tasks (board, plan_id) WHERE unisolated = 1;
