-- Inputs that somebody was asked to judge, and gave no judgement that can be read.
ALTER TABLE honesty ADD COLUMN unjudged bigint NOT NULL DEFAULT 0;
