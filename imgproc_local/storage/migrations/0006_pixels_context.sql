-- Texts of source 'pixels', which need a person's words, and the context of a picture until its texts are written.

-- A CHECK can't be altered, so the table is copied. account_id is that of the job, repeated so that the index of the texts
-- that need words can begin with it; it never changes.
CREATE TABLE new_translations (
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
    PRIMARY KEY (job_id, language_code),
    UNIQUE (project_id, language_code, seo_filename)
) STRICT;
INSERT INTO new_translations (
    job_id, account_id, project_id, language_code, position, seo_filename, slug_base, slug_number, seo_alt_text, source)
SELECT
    job_id, (SELECT account_id FROM jobs WHERE jobs.id = translations.job_id), project_id, language_code, position,
    seo_filename, slug_base, slug_number, seo_alt_text, source
FROM translations;
DROP TABLE translations;
ALTER TABLE new_translations RENAME TO translations;
CREATE INDEX translations_by_base ON translations (project_id, language_code, slug_base, slug_number);
CREATE INDEX translations_needing_text ON translations (account_id, job_id) WHERE source = 'pixels';

-- What the client says of the page that the picture is for. The row is deleted when the analyze stage ends.
CREATE TABLE contexts (
    job_id   TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    context  TEXT NOT NULL
) STRICT;
