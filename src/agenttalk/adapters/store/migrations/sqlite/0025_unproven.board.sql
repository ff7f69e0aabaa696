-- Whether a task is done by its agent's word alone, and nobody has verified anything of it.
ALTER TABLE tasks ADD COLUMN unproven INTEGER NOT NULL DEFAULT 0;
CREATE INDEX tasks_unproven ON tasks (board, plan_id) WHERE unproven = 1;
