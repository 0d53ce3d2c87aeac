-- Sizes that results are scaled down to, what was removed from pictures, and the versions of edited texts.

-- Maximum width and height of the results; NULL is no maximum.
ALTER TABLE jobs ADD COLUMN max_width_px INTEGER;
ALTER TABLE jobs ADD COLUMN max_height_px INTEGER;

-- The sizes are in the indexes, so that the totals of an account are read from them.
DROP INDEX jobs_by_account;
CREATE INDEX jobs_by_account ON jobs (account_id, id, original_size);
CREATE INDEX stages_with_output ON stages (account_id, job_id, output_size) WHERE output_size IS NOT NULL;

-- JSON array of domain.privacy.Removed: the kinds of private data that the result does not carry. NULL before the stage
-- is done, and for stages of earlier versions of the program.
ALTER TABLE stages ADD COLUMN removed TEXT;

-- Every version of a text that was edited or written anew, so that an edit can be undone and repeated. `version` is the
-- one in force; texts that were never changed have no rows in translation_versions.
ALTER TABLE translations ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
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

-- Requests to write one text anew. A row is deleted when the text was written; `error` says why it could not be. They are
-- no stages: the status of the job does not change. No id is used twice, because movements of the ledger name it.
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
