-- The schema 7 of version 0.1.0, as its database described it.
CREATE TABLE accounts (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    balance     INTEGER NOT NULL CHECK (balance >= 0),
    created_at  TEXT NOT NULL
) STRICT;
CREATE TABLE keys (
    id          TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    name        TEXT NOT NULL,
    hash        BLOB NOT NULL UNIQUE,
    rate_limit  INTEGER CHECK (rate_limit >= 0),
    created_at  TEXT NOT NULL,
    revoked_at  TEXT
) STRICT;
CREATE TABLE ledger (
    id          INTEGER PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    kind        TEXT NOT NULL CHECK (kind IN ('grant', 'hold', 'release')),
    amount      INTEGER NOT NULL,
    job_id      TEXT,
    stage       TEXT,
    at          TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX ledger_once ON ledger (job_id, stage, kind) WHERE job_id IS NOT NULL;
CREATE TRIGGER ledger_moves_balance AFTER INSERT ON ledger BEGIN
    UPDATE accounts SET balance = balance + new.amount WHERE id = new.account_id;
END;
CREATE TABLE projects (
    id          TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts (id),
    name        TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    UNIQUE (account_id, name)
) STRICT;
CREATE TABLE jobs (
    id                 TEXT PRIMARY KEY,
    image_id           TEXT NOT NULL UNIQUE,
    account_id         TEXT NOT NULL REFERENCES accounts (id),
    project_id         TEXT NOT NULL REFERENCES projects (id),
    operation          TEXT NOT NULL,
    languages          TEXT NOT NULL, -- JSON array, in the order requested
    convert_to         TEXT NOT NULL,
    original_filename  TEXT NOT NULL,
    original_sha256    TEXT NOT NULL,
    original_size      INTEGER NOT NULL,
    info               TEXT NOT NULL, -- JSON of domain.image.ImageInfo
    created_at         TEXT NOT NULL,
    idempotency_key    TEXT,
    fingerprint        TEXT NOT NULL
    , original_removed_at TEXT, max_width_px INTEGER, max_height_px INTEGER) STRICT;
CREATE INDEX jobs_by_project ON jobs (project_id, id);
CREATE INDEX jobs_by_original ON jobs (original_sha256);
CREATE INDEX jobs_by_idempotency_key ON jobs (account_id, idempotency_key, id) WHERE idempotency_key IS NOT NULL;
CREATE TABLE stages (
    id             INTEGER PRIMARY KEY,
    job_id         TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    name           TEXT NOT NULL CHECK (name IN ('analyze', 'optimize', 'convert')),
    lane           TEXT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('pending', 'running', 'done', 'failed')),
    attempts       INTEGER NOT NULL DEFAULT 0,
    price          INTEGER NOT NULL,
    started_seq    INTEGER,
    started_at     TEXT,
    finished_at    TEXT,
    output_sha256  TEXT,
    output_size    INTEGER,
    output_format  TEXT,
    error          TEXT, account_id TEXT NOT NULL DEFAULT '', output_removed_at TEXT, client_id TEXT NOT NULL DEFAULT '', batch INTEGER NOT NULL DEFAULT 0, removed TEXT,
    UNIQUE (job_id, name)
) STRICT;
CREATE INDEX stages_started ON stages (started_seq);
CREATE INDEX stages_by_output ON stages (output_sha256) WHERE output_sha256 IS NOT NULL;
CREATE TABLE heartbeat (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    at  TEXT NOT NULL
) STRICT;
CREATE TABLE commits (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    number  INTEGER NOT NULL
) STRICT;
CREATE INDEX stages_open ON stages (account_id, job_id) WHERE state IN ('pending', 'running');
CREATE INDEX stages_failed ON stages (account_id, job_id) WHERE state = 'failed';
CREATE TABLE removals (sha256 TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_by_age ON jobs (created_at);
CREATE TABLE sign_in_links (
    hash        BLOB PRIMARY KEY,
    expires_at  TEXT NOT NULL
) STRICT;
CREATE TABLE page_sessions (
    id          TEXT PRIMARY KEY,
    hash        BLOB NOT NULL UNIQUE,
    browser     TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    expires_at  TEXT NOT NULL,
    key_id      TEXT REFERENCES keys (id)
) STRICT;
CREATE INDEX stages_running ON stages (lane, attempts) WHERE state = 'running';
CREATE INDEX stages_pending ON stages (lane, attempts, account_id, batch, id) WHERE state = 'pending';
CREATE INDEX stages_by_client ON stages (account_id, client_id, job_id) WHERE state IN ('pending', 'running');
CREATE INDEX stages_by_turn ON stages (account_id, lane, started_seq);
CREATE TABLE "translations" (
    job_id         TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    account_id     TEXT NOT NULL,
    project_id     TEXT NOT NULL REFERENCES projects (id),
    language_code  TEXT NOT NULL,
    position       INTEGER NOT NULL,
    seo_filename   TEXT NOT NULL,
    slug_base      TEXT NOT NULL,
    slug_number    INTEGER NOT NULL,
    seo_alt_text   TEXT NOT NULL,
    source         TEXT NOT NULL CHECK (source IN ('vision', 'embedded', 'facts', 'pixels', 'person')), version INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (job_id, language_code),
    UNIQUE (project_id, language_code, seo_filename)
) STRICT;
CREATE INDEX translations_by_base ON translations (project_id, language_code, slug_base, slug_number);
CREATE INDEX translations_needing_text ON translations (account_id, job_id) WHERE source = 'pixels';
CREATE TABLE contexts (
    job_id   TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    context  TEXT NOT NULL
) STRICT;
CREATE INDEX jobs_by_account ON jobs (account_id, id, original_size);
CREATE INDEX stages_with_output ON stages (account_id, job_id, output_size) WHERE output_size IS NOT NULL;
CREATE TABLE translation_versions (
    job_id         TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    language_code  TEXT NOT NULL,
    version        INTEGER NOT NULL,
    seo_filename   TEXT NOT NULL,
    slug_base      TEXT NOT NULL,
    slug_number    INTEGER NOT NULL,
    seo_alt_text   TEXT NOT NULL,
    source         TEXT NOT NULL CHECK (source IN ('vision', 'embedded', 'facts', 'pixels', 'person')),
    PRIMARY KEY (job_id, language_code, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE regenerations (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id         TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    account_id     TEXT NOT NULL,
    language_code  TEXT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('pending', 'running', 'failed')),
    attempts       INTEGER NOT NULL DEFAULT 0,
    price          INTEGER NOT NULL,
    error          TEXT,
    UNIQUE (job_id, language_code)
) STRICT;
CREATE INDEX regenerations_waiting ON regenerations (state, id) WHERE state IN ('pending', 'running');
INSERT INTO commits (id, number) VALUES (1, 0);
PRAGMA user_version = 7;
