-- How it is known that a person gave an answer, and what stood around it.
ALTER TABLE requests ADD COLUMN proof text;

-- Branches of plans that have ended and are not merged, and where each stood when it was looked at last.
CREATE TABLE branches (
    board text NOT NULL,
    plan_id text NOT NULL,
    head text NOT NULL,
    PRIMARY KEY (board, plan_id)
);
