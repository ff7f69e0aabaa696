-- Letters, and what became of them.
-- name: add_mail
INSERT INTO mails (board, mail_id, thread, sender, kind, subject, in_reply_to, deadline, hop, via, sha256, size, at, body)
VALUES (:board, :mail_id, :thread, :sender, :kind, :subject, :in_reply_to, :deadline, :hop, :via, :sha256, :size, :at,
    :body)
RETURNING id

-- name: mail
SELECT id, mail_id, thread, sender, kind, subject, in_reply_to, deadline, hop, via, sha256, size, at, body
FROM mails WHERE board = :board AND mail_id = :mail_id

-- name: add_mail_item
INSERT INTO mail_items (board, mail, task_id, addressee, way, shown, due_at)
VALUES (:board, :mail, :task_id, :addressee, :way, :shown, :due_at)

-- name: mail_item
SELECT i.mail, i.task_id, i.addressee, i.way, i.shown, i.due_at, i.read_at, i.read_how, i.reply, i.reminded_at,
    i.closed_at, i.closed_why, m.mail_id, m.thread, m.sender, m.kind, m.subject, m.in_reply_to, m.deadline, m.hop, m.at,
    t.state, t.reexecutions, t.delivery, m.body
FROM mail_items AS i CROSS JOIN mails AS m CROSS JOIN tasks AS t
WHERE i.board = :board AND i.task_id = :task_id AND m.id = i.mail
    AND t.board = i.board AND t.plan_id = i.board AND t.task_id = i.task_id

-- name: mail_items_of
SELECT i.task_id, i.addressee, i.way, i.read_at, i.read_how, i.reply, i.reminded_at, i.closed_at, i.closed_why,
    t.state, t.phase, t.reason
FROM mail_items AS i CROSS JOIN tasks AS t
WHERE i.board = :board AND i.mail = :mail AND t.board = i.board AND t.plan_id = i.board AND t.task_id = i.task_id
ORDER BY i.id

-- name: mail_for
SELECT i.task_id FROM mail_items AS i WHERE i.board = :board AND i.mail = :mail AND i.addressee = :addressee

-- Letters of a page, the newest first.
-- name: mail_page
SELECT m.id, m.mail_id, m.thread, m.sender, m.kind, m.subject, m.in_reply_to, m.deadline, m.hop, m.via, m.sha256,
    m.size, m.at
FROM mails AS m WHERE m.board = :board AND m.id < :before ORDER BY m.id DESC LIMIT :limit

-- name: mail_page_from
SELECT m.id, m.mail_id, m.thread, m.sender, m.kind, m.subject, m.in_reply_to, m.deadline, m.hop, m.via, m.sha256,
    m.size, m.at
FROM mails AS m
WHERE m.board = :board AND m.sender = :party AND m.id < :before ORDER BY m.id DESC LIMIT :limit

-- name: mail_page_to
SELECT m.id, m.mail_id, m.thread, m.sender, m.kind, m.subject, m.in_reply_to, m.deadline, m.hop, m.via, m.sha256,
    m.size, m.at
FROM mail_items AS i CROSS JOIN mails AS m
WHERE i.board = :board AND i.addressee = :party AND i.mail < :before AND m.id = i.mail
ORDER BY i.mail DESC LIMIT :limit

-- name: mail_page_unread
SELECT m.id, m.mail_id, m.thread, m.sender, m.kind, m.subject, m.in_reply_to, m.deadline, m.hop, m.via, m.sha256,
    m.size, m.at
FROM mail_items AS i CROSS JOIN mails AS m
WHERE i.board = :board AND i.addressee = :party AND i.read_at IS NULL AND i.mail < :before AND m.id = i.mail
ORDER BY i.mail DESC LIMIT :limit

-- name: mail_page_thread
SELECT m.id, m.mail_id, m.thread, m.sender, m.kind, m.subject, m.in_reply_to, m.deadline, m.hop, m.via, m.sha256,
    m.size, m.at
FROM mails AS m
WHERE m.board = :board AND m.thread = :thread AND m.id < :before ORDER BY m.id DESC LIMIT :limit

-- name: mail_page_word
SELECT m.id, m.mail_id, m.thread, m.sender, m.kind, m.subject, m.in_reply_to, m.deadline, m.hop, m.via, m.sha256,
    m.size, m.at
FROM mail_words AS w CROSS JOIN mails AS m
WHERE w.board = :board AND w.word = :word AND w.mail < :before AND m.id = w.mail
ORDER BY w.mail DESC LIMIT :limit

-- name: mail_has_word
SELECT 1 AS found FROM mail_words WHERE board = :board AND word = :word AND mail = :mail

-- name: add_mail_word
INSERT INTO mail_words (board, word, mail) VALUES (:board, :word, :mail)

-- name: mail_unread
SELECT 1 AS found FROM mail_items WHERE board = :board AND addressee = :party AND read_at IS NULL LIMIT :limit

-- What an agent has not read yet and need not answer, the oldest first.
-- name: mail_unread_notes
SELECT i.task_id, m.mail_id, m.sender, m.subject, m.at, m.body
FROM mail_items AS i CROSS JOIN mails AS m
WHERE i.board = :board AND i.addressee = :party AND i.read_at IS NULL AND m.id = i.mail AND m.kind = 'inform'
    AND m.size <= :size
ORDER BY i.mail LIMIT :limit

-- Threads.
-- name: join_mail_thread
INSERT INTO mail_parties (board, thread, party, latest, letters) VALUES (:board, :thread, :party, :mail, 1)
ON CONFLICT (board, thread, party) DO UPDATE SET latest = excluded.latest, letters = mail_parties.letters + 1

-- name: mail_threads
SELECT p.latest, p.thread, p.letters, f.subject, f.sender, f.at, l.mail_id AS latest_mail_id,
    l.sender AS latest_sender, l.at AS latest_at
FROM mail_parties AS p CROSS JOIN mails AS f CROSS JOIN mails AS l
WHERE p.board = :board AND p.party = :party AND p.latest < :before
    AND f.board = p.board AND f.mail_id = p.thread AND l.id = p.latest
ORDER BY p.latest DESC LIMIT :limit

-- What happens to a letter.
-- name: read_mail
UPDATE mail_items SET read_at = :at, read_how = :how, ready = CASE WHEN :informs = 1 THEN 1 ELSE ready END
WHERE board = :board AND task_id = :task_id AND read_at IS NULL
RETURNING task_id

-- name: reply_mail
UPDATE mail_items SET reply = :reply, read_at = coalesce(read_at, :at), read_how = coalesce(read_how, 'replied'),
    ready = 1
WHERE board = :board AND task_id = :task_id AND reply IS NULL
RETURNING task_id

-- A letter that was not answered is unread again, and delivered once more.
-- name: remind_mail
UPDATE mail_items SET reminded_at = :at, due_at = :due_at, read_at = NULL, read_how = NULL,
    shown = CASE WHEN shown = 1 THEN 0 ELSE shown END
WHERE board = :board AND task_id = :task_id
RETURNING task_id

-- name: set_mail_due
UPDATE mail_items SET due_at = :due_at WHERE board = :board AND task_id = :task_id

-- name: close_mail
UPDATE mail_items SET closed_at = :at, closed_why = :why, due_at = NULL WHERE board = :board AND task_id = :task_id

-- name: mail_shown
UPDATE mail_items SET shown = :shown WHERE board = :board AND task_id = :task_id

-- What is to be done.
-- name: mails_unshown
SELECT i.task_id, i.addressee, m.mail_id
FROM mail_items AS i CROSS JOIN mails AS m
WHERE i.board = :board AND i.shown = 0 AND m.id = i.mail ORDER BY i.id LIMIT :limit

-- name: mails_lying
SELECT i.id, i.task_id, i.addressee, m.mail_id, m.kind
FROM mail_items AS i CROSS JOIN mails AS m
WHERE i.board = :board AND i.shown = 1 AND i.read_at IS NULL AND i.id > :after AND m.id = i.mail
ORDER BY i.id LIMIT :limit

-- name: mails_acknowledged
SELECT i.task_id, m.kind
FROM mail_items AS i CROSS JOIN mails AS m CROSS JOIN tasks AS t CROSS JOIN deliveries AS d
WHERE i.board = :board AND i.way = 'command' AND i.read_at IS NULL AND m.id = i.mail
    AND t.board = i.board AND t.plan_id = i.board AND t.task_id = i.task_id
    AND d.board = t.board AND d.id = t.delivery AND d.ack IS NOT NULL
ORDER BY i.id LIMIT :limit

-- name: mails_ready
SELECT task_id FROM mail_items WHERE board = :board AND ready = 1 AND closed_at IS NULL AND id > :after
ORDER BY id LIMIT :limit

-- name: mails_due
SELECT task_id FROM mail_items WHERE board = :board AND due_at IS NOT NULL AND due_at <= :now
ORDER BY due_at LIMIT :limit

-- name: next_mail_due
SELECT min(due_at) AS due_at FROM mail_items WHERE board = :board AND due_at IS NOT NULL
