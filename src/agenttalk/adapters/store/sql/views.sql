-- Writing the same again leaves the version as it is, so nothing is written to the folder either.
-- The pointer to a DAG comes after the DAG, and both after everything else.
-- name: show_view
INSERT INTO views (board, path, rank, body, content)
VALUES (
    :board, :path,
    CASE WHEN :path LIKE '%/active_dag_ref.json' THEN 2 WHEN :path LIKE '%/task_dag.json' THEN 1 ELSE 0 END,
    :body, :content)
ON CONFLICT (board, path) DO UPDATE
SET body = excluded.body, content = excluded.content, version = views.version + 1
WHERE views.body IS DISTINCT FROM excluded.body OR views.content IS DISTINCT FROM excluded.content

-- Many files at once, whose texts come as one JSON object by path.
-- name: show_views
INSERT INTO views (board, path, rank, body)
SELECT
    :board, key,
    CASE WHEN key LIKE '%/active_dag_ref.json' THEN 2 WHEN key LIKE '%/task_dag.json' THEN 1 ELSE 0 END,
    CAST(value AS BLOB)
FROM json_each(:rows) WHERE true
ON CONFLICT (board, path) DO UPDATE
SET body = excluded.body, content = excluded.content, version = views.version + 1
WHERE views.body IS DISTINCT FROM excluded.body OR views.content IS DISTINCT FROM excluded.content

-- name: show_views@postgres
INSERT INTO views (board, path, rank, body)
SELECT
    :board, key,
    CASE WHEN key LIKE '%/active_dag_ref.json' THEN 2 WHEN key LIKE '%/task_dag.json' THEN 1 ELSE 0 END,
    convert_to(value, 'UTF8')
FROM json_each_text(:rows::json)
ON CONFLICT (board, path) DO UPDATE
SET body = excluded.body, content = excluded.content, version = views.version + 1
WHERE views.body IS DISTINCT FROM excluded.body OR views.content IS DISTINCT FROM excluded.content

-- name: view_exists
SELECT 1 FROM views WHERE board = :board AND path = :path

-- name: view_body
SELECT body FROM views WHERE board = :board AND path = :path

-- The board is compared in a way that hides it from SQLite's planner, which would go through all views of a board
-- by their primary key rather than through the few of the partial index.
-- name: unshown_views
SELECT path, body, content, version
FROM views
WHERE board || '' = :board AND shown <> version
ORDER BY rank, path
LIMIT :limit

-- Whoever wrote an older version may have written it over a newer one: then it has to be written once more.
-- name: view_shown
UPDATE views SET shown = CASE WHEN version = :version THEN :version ELSE 0 END
WHERE board = :board AND path = :path AND (shown < :version OR version <> :version)

-- name: unshow_views
UPDATE views SET shown = 0
WHERE board = :board AND shown <> 0

-- name: views_under
SELECT path, body FROM views
WHERE board = :board AND path >= :first AND path < :last
ORDER BY path

-- name: journal_state
SELECT seq, base, size FROM journals WHERE board = :board AND plan_id = :plan_id AND base IS NOT NULL

-- What is known to be behind stays so, whatever comes on top: so a row changes once, and not with every step.
-- name: journal_grown
INSERT INTO journals (board, plan_id, latest)
VALUES (:board, :plan_id, :seq)
ON CONFLICT (board, plan_id) DO UPDATE SET latest = excluded.latest
WHERE journals.latest <= journals.seq AND journals.latest < excluded.latest

-- name: journal_written
INSERT INTO journals (board, plan_id, seq, base, size)
VALUES (:board, :plan_id, :seq, :base, :size)
ON CONFLICT (board, plan_id) DO UPDATE SET seq = excluded.seq, base = excluded.base, size = excluded.size

-- How far the journal should have come. After `journal_written`, which holds up others that write the row.
-- name: journal_due
UPDATE journals SET latest = (
    SELECT coalesce(max(l.seq), 0) FROM ledger AS l WHERE l.board = :board AND l.subject = :subject)
WHERE board = :board AND plan_id = :plan_id

-- Plans whose newest delivery is not in their journal yet.
-- name: unwritten_journals
SELECT plan_id
FROM journals
WHERE board = :board AND latest - seq > 0
ORDER BY plan_id

-- A view that is already waiting to be written is not edited but new.
-- name: unshow_view
UPDATE views SET shown = 0
WHERE board = :board AND path = :path AND shown = version
RETURNING path
