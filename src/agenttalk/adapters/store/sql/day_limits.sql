-- What may be spent on a day, in the system's database.
-- name: day_limit
SELECT cost_usd, by, at FROM day_limits WHERE name = :name

-- name: put_day_limit
INSERT INTO day_limits (name, cost_usd, by, at) VALUES (:name, :cost_usd, :by, :at)
ON CONFLICT (name) DO UPDATE SET cost_usd = excluded.cost_usd, by = excluded.by, at = excluded.at

-- name: drop_day_limit
DELETE FROM day_limits WHERE name = :name RETURNING name
