-- Putting a content in again writes nothing, unless what lies there was damaged.
-- name: put_blob
INSERT INTO blobs (hash, content)
VALUES (:hash, :content)
ON CONFLICT (hash) DO UPDATE SET content = excluded.content
WHERE blobs.content <> excluded.content

-- name: get_blob
SELECT content
FROM blobs
WHERE hash = :hash

-- name: has_blob
SELECT 1
FROM blobs
WHERE hash = :hash
