-- After a restore. A lease gets another name: processes of the root that was backed up may still carry the old one.
-- name: disown_leases
UPDATE tasks SET lease = lease || :suffix, owner = :owner
WHERE board || '' = :board AND lease IS NOT NULL
RETURNING plan_id, task_id

-- What waited may have been said after the backup was made, so it is looked for first.
-- name: doubt_outgoing
UPDATE outgoing SET tries = 1 WHERE board = :board AND state = 'waiting' AND tries = 0
RETURNING id

-- Notices that waited may have been sent since; nobody is told twice.
-- name: drop_notices
UPDATE effects SET state = 'done'
WHERE board = :board AND kind >= 'notify.' AND kind < 'notify/' AND state <> 'done'
RETURNING id
