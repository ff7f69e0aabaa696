-- name: traced
SELECT name, body FROM traced WHERE board = :board ORDER BY name

-- name: put_traced
INSERT INTO traced (board, name, body) VALUES (:board, :name, :body)
ON CONFLICT (board, name) DO UPDATE SET body = excluded.body

-- name: drop_traced
DELETE FROM traced WHERE board = :board AND name = :name

-- The first that asks for a number gives it.
-- name: add_cursor
INSERT INTO cursors (board, name, value) VALUES (:board, :name, :value)
ON CONFLICT (board, name) DO NOTHING
