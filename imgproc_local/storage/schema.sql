-- The schema: accounts, keys, credits, projects, jobs, stages, texts and page sessions. It is run when a database is
-- created, and again after `steps.sql` has changed an older one, so that every statement may be repeated.

CREATE TABLE IF NOT EXISTS accounts (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    balance     INTEGER NOT NULL CHECK (balance >= 0),
    created_at  TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS keys (
    id          TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    name        TEXT NOT NULL,
    hash        BLOB NOT NULL UNIQUE,
    rate_limit  INTEGER CHECK (rate_limit >= 0),
    created_at  TEXT NOT NULL,
    revoked_at  TEXT
) STRICT;

-- Every movement of credits. The sum over an account is its balance. The job is named, not referenced:
-- a deleted job's movements stay.
CREATE TABLE IF NOT EXISTS ledger (
    id          INTEGER PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    kind        TEXT NOT NULL CHECK (kind IN ('grant', 'hold', 'release')),
    amount      INTEGER NOT NULL,
    job_id      TEXT,
    stage       TEXT,
    at          TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS ledger_once ON ledger (job_id, stage, kind) WHERE job_id IS NOT NULL;

CREATE TRIGGER IF NOT EXISTS ledger_moves_balance AFTER INSERT ON ledger BEGIN
    UPDATE accounts SET balance = balance + new.amount WHERE id = new.account_id;
END;

CREATE TABLE IF NOT EXISTS projects (
    id          TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    name        TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    UNIQUE (account_id, name)
) STRICT;

-- A removed file is deleted before its job, because of its age. The row keeps its address and size. NULL is no maximum
-- width or height of the results, and no thumbnail: it is made when it is asked for.
CREATE TABLE IF NOT EXISTS jobs (
    id                   TEXT PRIMARY KEY,
    image_id             TEXT NOT NULL UNIQUE,
    account_id           TEXT NOT NULL REFERENCES accounts (id),
    project_id           TEXT NOT NULL REFERENCES projects (id),
    operation            TEXT NOT NULL,
    languages            TEXT NOT NULL, -- JSON array, in the order requested
    convert_to           TEXT NOT NULL,
    original_filename    TEXT NOT NULL,
    original_sha256      TEXT NOT NULL,
    original_size        INTEGER NOT NULL,
    original_removed_at  TEXT,
    info                 TEXT NOT NULL, -- JSON of domain.image.ImageInfo
    created_at           TEXT NOT NULL,
    idempotency_key      TEXT,
    fingerprint          TEXT NOT NULL,
    max_width_px         INTEGER,
    max_height_px        INTEGER,
    thumbnail_sha256     TEXT,
    thumbnail_size       INTEGER,
    role                 TEXT NOT NULL DEFAULT 'informative',
    suggestion           TEXT, -- JSON of domain.result.RoleSuggestion
    folder               TEXT NOT NULL DEFAULT '', -- of the upload on the sender's disk, its parts joined by slashes
    quality_target       TEXT, -- JSON of a value of the setting; NULL is that of the service
    words                TEXT, -- JSON of domain.result.Words
    widths               TEXT NOT NULL DEFAULT '[]', -- JSON array: those at which the converted picture is made, too
    only_smaller         INTEGER NOT NULL DEFAULT 0 -- whether a conversion that is not smaller is not kept
) STRICT;
CREATE INDEX IF NOT EXISTS jobs_by_account ON jobs (account_id, id);
CREATE INDEX IF NOT EXISTS jobs_by_project ON jobs (project_id, id);
CREATE INDEX IF NOT EXISTS jobs_by_original ON jobs (original_sha256);
CREATE INDEX IF NOT EXISTS jobs_by_thumbnail ON jobs (thumbnail_sha256) WHERE thumbnail_sha256 IS NOT NULL;
CREATE INDEX IF NOT EXISTS jobs_by_idempotency_key ON jobs (account_id, idempotency_key, id)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS jobs_by_age ON jobs (created_at);

-- account_id is that of the job, repeated so that an index can begin with it. client_id is not used any more: it stays,
-- because databases of version 0.1.0 have it, and a server of that version may run beside this one. started_seq counts
-- starts over the whole service: the highest started last. removed is a JSON array of domain.privacy.Removed: the kinds
-- of private data that the result does not carry, notes one of domain.result.Note. Another name of a stage needs a step
-- of steps.sql that makes this table anew, because SQLite can't alter a CHECK, and drops the view job_status.
CREATE TABLE IF NOT EXISTS stages (
    id                 INTEGER PRIMARY KEY,
    job_id             TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    account_id         TEXT NOT NULL,
    client_id          TEXT NOT NULL DEFAULT '',
    name               TEXT NOT NULL CHECK (name IN ('analyze', 'optimize', 'convert')),
    lane               TEXT NOT NULL,
    state              TEXT NOT NULL CHECK (state IN ('pending', 'running', 'done', 'failed')),
    attempts           INTEGER NOT NULL DEFAULT 0,
    price              INTEGER NOT NULL,
    started_seq        INTEGER,
    started_at         TEXT,
    finished_at        TEXT,
    output_sha256      TEXT,
    output_size        INTEGER,
    output_format      TEXT,
    output_removed_at  TEXT,
    removed            TEXT,
    error              TEXT,
    score              REAL, -- of the result, by SSIMULACRA 2.1
    notes              TEXT,
    UNIQUE (job_id, name)
) STRICT;
CREATE INDEX IF NOT EXISTS stages_waiting ON stages (lane, account_id, attempts, id) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS stages_running ON stages (lane, attempts) WHERE state = 'running';
CREATE INDEX IF NOT EXISTS stages_open ON stages (account_id, job_id) WHERE state IN ('pending', 'running');
CREATE INDEX IF NOT EXISTS stages_failed ON stages (account_id, job_id) WHERE state = 'failed';
CREATE INDEX IF NOT EXISTS stages_started ON stages (started_seq);
CREATE INDEX IF NOT EXISTS stages_by_turn ON stages (account_id, lane, started_seq);
CREATE INDEX IF NOT EXISTS stages_by_output ON stages (output_sha256) WHERE output_sha256 IS NOT NULL;

-- The status of each job (api/README.md, "Status"). `name` is that of the stage with the highest started_seq.
CREATE VIEW IF NOT EXISTS job_status (job_id, status) AS
SELECT id, (
    SELECT CASE
        WHEN sum(state IN ('pending', 'running')) = 0 THEN iif(sum(state = 'failed'), 'failed', 'completed')
        WHEN max(started_seq) IS NULL THEN 'pending'
        WHEN name = 'analyze' THEN 'analyzing'
        WHEN name = 'optimize' THEN 'optimizing'
        ELSE 'converting' END
    FROM stages WHERE stages.job_id = jobs.id)
FROM jobs;

-- The converted picture at other widths, in the same format. They are made, replaced and removed with the result of the
-- stage.
CREATE TABLE IF NOT EXISTS variants (
    job_id  TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    width   INTEGER NOT NULL,
    height  INTEGER NOT NULL,
    sha256  TEXT NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (job_id, width)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS variants_by_sha256 ON variants (sha256);

-- The files that rows reference. One file can have several rows. A thumbnail is removed with the original.
CREATE VIEW IF NOT EXISTS files (job_id, kind, sha256, size) AS
SELECT id, 'original', original_sha256, original_size FROM jobs WHERE original_removed_at IS NULL
UNION ALL
SELECT id, 'original', thumbnail_sha256, thumbnail_size FROM jobs
WHERE thumbnail_sha256 IS NOT NULL AND original_removed_at IS NULL
UNION ALL
SELECT job_id, 'result', output_sha256, output_size FROM stages
WHERE output_sha256 IS NOT NULL AND output_removed_at IS NULL
UNION ALL
SELECT job_id, 'result', sha256, size FROM variants JOIN stages USING (job_id)
WHERE name = 'convert' AND output_removed_at IS NULL;

-- Files that a command wants removed. The process that owns the data folder deletes those that no row references.
CREATE TABLE IF NOT EXISTS removals (sha256 TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- What the metadata of an upload says and may be published (codecs.metadata.record). Without a row, stages read the file
-- again. The row is deleted when the last stage of the job ends.
CREATE TABLE IF NOT EXISTS records (
    job_id  TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    record  BLOB NOT NULL
) STRICT;

-- What the client says of the page that the picture is for. The row is deleted when the analyze stage ends.
CREATE TABLE IF NOT EXISTS contexts (
    job_id   TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    context  TEXT NOT NULL
) STRICT;

-- The texts in force. slug_base and slug_number are the two halves of seo_filename: the next number is found without a
-- scan. A text with a reason needs a person's words. account_id is that of the job.
CREATE TABLE IF NOT EXISTS translations (
    job_id         TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    account_id     TEXT NOT NULL,
    project_id     TEXT NOT NULL REFERENCES projects (id),
    language_code  TEXT NOT NULL,
    position       INTEGER NOT NULL,
    seo_filename   TEXT NOT NULL,
    slug_base      TEXT NOT NULL,
    slug_number    INTEGER NOT NULL,
    seo_alt_text   TEXT NOT NULL,
    source         TEXT NOT NULL CHECK (source IN ('vision', 'embedded', 'facts', 'pixels', 'person')),
    version        INTEGER NOT NULL DEFAULT 1,
    needs_text_reason TEXT,
    long_description  TEXT NOT NULL DEFAULT '',
    model          TEXT NOT NULL DEFAULT '',
    review         TEXT, -- domain.result.Review
    PRIMARY KEY (job_id, language_code),
    UNIQUE (project_id, language_code, seo_filename)
) STRICT;
CREATE INDEX IF NOT EXISTS translations_by_base ON translations (project_id, language_code, slug_base, slug_number);
CREATE INDEX IF NOT EXISTS translations_needing_text ON translations (account_id, job_id)
    WHERE needs_text_reason IS NOT NULL;

-- For a server of version 0.1.0 that still runs: it writes no reasons, and leaves those of texts that it changes.
CREATE TRIGGER IF NOT EXISTS reason_of_new_text AFTER INSERT ON translations
WHEN new.source = 'pixels' AND new.needs_text_reason IS NULL BEGIN
    UPDATE translations SET needs_text_reason = 'nothing_known' WHERE rowid = new.rowid;
END;
CREATE TRIGGER IF NOT EXISTS reason_of_changed_text AFTER UPDATE OF source ON translations
WHEN iif(new.needs_text_reason IS NULL, new.source = 'pixels', new.source = 'person') BEGIN
    UPDATE translations SET needs_text_reason = iif(new.source = 'pixels', 'nothing_known', NULL)
    WHERE rowid = new.rowid;
END;

-- The versions of a text that another one has replaced, so that a change can be undone and repeated. A version that was
-- restored may have a row too.
CREATE TABLE IF NOT EXISTS translation_versions (
    job_id         TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    language_code  TEXT NOT NULL,
    version        INTEGER NOT NULL,
    seo_filename   TEXT NOT NULL,
    slug_base      TEXT NOT NULL,
    slug_number    INTEGER NOT NULL,
    seo_alt_text   TEXT NOT NULL,
    source         TEXT NOT NULL,
    needs_text_reason TEXT,
    long_description  TEXT NOT NULL DEFAULT '',
    model          TEXT NOT NULL DEFAULT '',
    review         TEXT,
    PRIMARY KEY (job_id, language_code, version)
) STRICT, WITHOUT ROWID;

-- Requests to write one text anew. A row is deleted when the text was written; `error` says why it could not be. They are
-- no stages: the status of the job does not change. No id is used twice, because movements of the ledger name it.
-- replaces_person is the version of the text that may be replaced although a person wrote it, or 0.
CREATE TABLE IF NOT EXISTS regenerations (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id         TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    account_id     TEXT NOT NULL,
    language_code  TEXT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('pending', 'running', 'failed')),
    attempts       INTEGER NOT NULL DEFAULT 0,
    price          INTEGER NOT NULL,
    error          TEXT,
    replaces_person  INTEGER NOT NULL DEFAULT 0,
    from_language    TEXT, -- the language whose text is translated; NULL has the picture described
    UNIQUE (job_id, language_code)
) STRICT;
CREATE INDEX IF NOT EXISTS regenerations_waiting ON regenerations (state, id) WHERE state IN ('pending', 'running');

-- Requests to make a result of a finished job anew, with other options. As with texts, the status of the job does not
-- change, and the result in force is served until the new one is there. A row is deleted then; `error` says why it could
-- not be made.
CREATE TABLE IF NOT EXISTS remakes (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id          TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    account_id      TEXT NOT NULL,
    name            TEXT NOT NULL CHECK (name IN ('optimize', 'convert')),
    lane            TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('pending', 'running', 'failed')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    price           INTEGER NOT NULL,
    error           TEXT,
    convert_to      TEXT NOT NULL,
    max_width_px    INTEGER,
    max_height_px   INTEGER,
    quality_target  TEXT,
    UNIQUE (job_id, name)
) STRICT;
CREATE INDEX IF NOT EXISTS remakes_waiting ON remakes (lane, state, account_id, attempts, id);

-- Access to the local page: links that open it once, and the browsers that are signed in. Of their secrets only hashes
-- are stored.
CREATE TABLE IF NOT EXISTS sign_in_links (
    hash        BLOB PRIMARY KEY,
    expires_at  TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS page_sessions (
    id          TEXT PRIMARY KEY,
    hash        BLOB NOT NULL UNIQUE,
    browser     TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    expires_at  TEXT NOT NULL
) STRICT;

-- One row, rewritten to prove that the store can be written.
CREATE TABLE IF NOT EXISTS heartbeat (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    at  TEXT NOT NULL
) STRICT;
