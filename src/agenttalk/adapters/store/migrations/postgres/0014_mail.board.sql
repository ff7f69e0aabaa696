-- Letters. A thread is named after its first letter. The body comes last, so that lists need not read it.
CREATE TABLE mails (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    mail_id text NOT NULL,
    thread text NOT NULL,
    sender text NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    in_reply_to text,
    deadline text,
    hop bigint NOT NULL,
    via text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    at text NOT NULL,
    body bytea NOT NULL,
    UNIQUE (board, mail_id)
);
CREATE INDEX mails_page ON mails (board, id);
CREATE INDEX mails_sender ON mails (board, sender, id);
CREATE INDEX mails_thread ON mails (board, thread, id);

-- A letter as one of those that it is for has it: a task. `ready` says that what it waits for has come, `shown` whether
-- its file is to be written (0), was written (1), or nobody needs one (2).
CREATE TABLE mail_items (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board text NOT NULL,
    mail bigint NOT NULL,
    task_id text NOT NULL,
    addressee text NOT NULL,
    way text NOT NULL,
    shown bigint NOT NULL,
    due_at text,
    read_at text,
    read_how text,
    reply text,
    reminded_at text,
    ready bigint NOT NULL DEFAULT 0,
    closed_at text,
    closed_why text,
    UNIQUE (board, task_id),
    UNIQUE (board, mail, addressee)
);
CREATE INDEX mail_items_addressee ON mail_items (board, addressee, mail);
CREATE INDEX mail_items_unread ON mail_items (board, addressee, mail) WHERE read_at IS NULL;
CREATE INDEX mail_items_unshown ON mail_items (board, id) WHERE shown = 0;
CREATE INDEX mail_items_lying ON mail_items (board, id) WHERE shown = 1 AND read_at IS NULL;
CREATE INDEX mail_items_handed ON mail_items (board, id) WHERE way = 'command' AND read_at IS NULL;
CREATE INDEX mail_items_ready ON mail_items (board, id) WHERE ready = 1 AND closed_at IS NULL;
CREATE INDEX mail_items_due ON mail_items (board, due_at) WHERE due_at IS NOT NULL;

-- Who takes part in a thread, and its newest letter; '*' stands for everybody.
CREATE TABLE mail_parties (
    board text NOT NULL,
    thread text NOT NULL,
    party text NOT NULL,
    latest bigint NOT NULL,
    letters bigint NOT NULL,
    PRIMARY KEY (board, thread, party)
);
CREATE INDEX mail_parties_latest ON mail_parties (board, party, latest);

-- Which letters hold a word.
CREATE TABLE mail_words (
    board text NOT NULL,
    word text NOT NULL,
    mail bigint NOT NULL,
    PRIMARY KEY (board, word, mail)
);
