-- How it is known that a person gave an answer, and what stood around it.
ALTER TABLE requests ADD COLUMN proof TEXT;

-- Branches of plans that have ended and are not merged, and where each stood when it was looked at last.
CREATE TABLE branches (
    board TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    head TEXT NOT NULL,
    PRIMARY KEY (board, plan_id)
) STRICT, WITHOUT ROWID;
