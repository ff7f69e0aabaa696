-- An effect is done at least once. `not_before` is when it may be tried (again); a claim moves it into the future,
-- so that the effect of a dead worker comes back by itself.
-- name: queue_effect
INSERT INTO effects (board, kind, key, body)
VALUES (:board, :kind, :key, :body)
ON CONFLICT (board, key) DO NOTHING
RETURNING id

-- name: claim_effects
UPDATE effects
SET state = 'claimed', attempts = attempts + 1, not_before = :until
WHERE id IN (
    SELECT id
    FROM effects
    WHERE board = :board AND kind = :kind AND state <> 'done' AND not_before <= :now
    ORDER BY not_before, id
    LIMIT :limit
)
RETURNING id, key, body, attempts

-- name: claim_effects@postgres
UPDATE effects
SET state = 'claimed', attempts = attempts + 1, not_before = :until
WHERE id IN (
    SELECT id
    FROM effects
    WHERE board = :board AND kind = :kind AND state <> 'done' AND not_before <= :now
    ORDER BY not_before, id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
RETURNING id, key, body, attempts

-- name: finish_effect
UPDATE effects SET state = 'done'
WHERE id = :id AND state <> 'done'
RETURNING id

-- name: retry_effect
UPDATE effects SET state = 'pending', not_before = :not_before
WHERE id = :id AND state <> 'done'
RETURNING id

-- name: next_effect_at
SELECT not_before
FROM effects
WHERE board = :board AND kind = :kind AND state <> 'done'
ORDER BY not_before
LIMIT 1
