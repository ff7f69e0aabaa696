-- The model by which somebody judged, as far as it is known.
ALTER TABLE judgements ADD COLUMN model text NOT NULL DEFAULT '';
