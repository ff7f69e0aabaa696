-- Letters. A thread is named after its first letter. The body comes last, so that lists need not read it.
CREATE TABLE mails (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    mail_id TEXT NOT NULL,
    thread TEXT NOT NULL,
    sender TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    in_reply_to TEXT,
    deadline TEXT,
    hop INTEGER NOT NULL,
    via TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL,
    at TEXT NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (board, mail_id)
) STRICT;
CREATE INDEX mails_page ON mails (board, id);
CREATE INDEX mails_sender ON mails (board, sender, id);
CREATE INDEX mails_thread ON mails (board, thread, id);

-- A letter as one of those that it is for has it: a task. `ready` says that what it waits for has come, `shown` whether
-- its file is to be written (0), was written (1), or nobody needs one (2).
CREATE TABLE mail_items (
    id INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    mail INTEGER NOT NULL,
    task_id TEXT NOT NULL,
    addressee TEXT NOT NULL,
    way TEXT NOT NULL,
    shown INTEGER NOT NULL,
    due_at TEXT,
    read_at TEXT,
    read_how TEXT,
    reply TEXT,
    reminded_at TEXT,
    ready INTEGER NOT NULL DEFAULT 0,
    closed_at TEXT,
    closed_why TEXT,
    UNIQUE (board, task_id),
    UNIQUE (board, mail, addressee)
) STRICT;
CREATE INDEX mail_items_addressee ON mail_items (board, addressee, mail);
CREATE INDEX mail_items_unread ON mail_items (board, addressee, mail) WHERE read_at IS NULL;
CREATE INDEX mail_items_unshown ON mail_items (board, id) WHERE shown = 0;
CREATE INDEX mail_items_lying ON mail_items (board, id) WHERE shown = 1 AND read_at IS NULL;
CREATE INDEX mail_items_handed ON mail_items (board, id) WHERE way = 'command' AND read_at IS NULL;
CREATE INDEX mail_items_ready ON mail_items (board, id) WHERE ready = 1 AND closed_at IS NULL;
CREATE INDEX mail_items_due ON mail_items (board, due_at) WHERE due_at IS NOT NULL;

-- Who takes part in a thread, and its newest letter; '*' stands for everybody.
CREATE TABLE mail_parties (
    board TEXT NOT NULL,
    thread TEXT NOT NULL,
    party TEXT NOT NULL,
    latest INTEGER NOT NULL,
    letters INTEGER NOT NULL,
    PRIMARY KEY (board, thread, party)
) STRICT, WITHOUT ROWID;
CREATE INDEX mail_parties_latest ON mail_parties (board, party, latest);

-- Which letters hold a word.
CREATE TABLE mail_words (
    board TEXT NOT NULL,
    word TEXT NOT NULL,
    mail INTEGER NOT NULL,
    PRIMARY KEY (board, word, mail)
) STRICT, WITHOUT ROWID;
