-- Where several servers write, facts are appended first and sealed afterwards: `link` is a fact's place in the chain of its database.
-- name: append_fact
INSERT INTO ledger (at, board, kind, subject, body)
VALUES (:at, :board, :kind, :subject, :body)
RETURNING seq

-- name: append_sealed
INSERT INTO ledger (seq, link, at, board, kind, subject, body, prev, hash)
VALUES (:seq, :link, :at, :board, :kind, :subject, :body, :prev, :hash)

-- name: append_sealed@postgres
INSERT INTO ledger (seq, link, at, board, kind, subject, body, prev, hash)
OVERRIDING SYSTEM VALUE
VALUES (:seq, :link, :at, :board, :kind, :subject, :body, :prev, :hash)

-- name: newest_fact
SELECT coalesce(max(seq), 0) FROM ledger

-- name: unsealed_facts
SELECT seq, link, at, board, kind, subject, body, prev, hash
FROM ledger
WHERE hash IS NULL AND seq > :after
ORDER BY seq
LIMIT :limit

-- name: sealed_facts
SELECT seq, link, at, board, kind, subject, body, prev, hash
FROM ledger
WHERE link > :after
ORDER BY link
LIMIT :limit

-- name: seal_fact
UPDATE ledger SET link = :link, prev = :prev, hash = :hash
WHERE seq = :seq

-- name: ledger_head
SELECT link, hash, seq
FROM ledger
WHERE link IS NOT NULL
ORDER BY link DESC
LIMIT 1

-- name: count_facts
SELECT count(*)
FROM ledger

-- name: latest_fact
SELECT seq, at, body
FROM ledger
WHERE board = :board AND subject = :subject AND kind = :kind
ORDER BY seq DESC
LIMIT 1

-- name: facts_of
SELECT seq, at, kind, body
FROM ledger
WHERE board = :board AND subject = :subject AND seq > :after
ORDER BY seq
LIMIT :limit

-- name: fact
SELECT body FROM ledger WHERE seq = :seq AND board = :board
