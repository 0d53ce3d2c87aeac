-- What `schema.sql`, which is run afterwards, can't change in a database of an earlier schema; 7 is that of version 0.1.0.
-- An update runs the steps from the schema that it finds on.
--
-- They rewrite no table and drop no column, so that a running server of version 0.1.0 goes on beside it. Sessions end,
-- because they had keys of their own, and those of version 0.1.0 may have secrets that were cookies.

-- from: 7
ALTER TABLE jobs ADD COLUMN thumbnail_sha256 TEXT;
ALTER TABLE jobs ADD COLUMN thumbnail_size INTEGER;
DROP INDEX stages_pending;
DROP INDEX stages_by_client;

-- from: 8
DROP INDEX stages_with_output;
DROP INDEX IF EXISTS jobs_by_account;
UPDATE keys SET revoked_at = strftime('%Y-%m-%dT%H:%M:%fZ') WHERE revoked_at IS NULL
    AND id IN (SELECT key_id FROM page_sessions);
DELETE FROM page_sessions;

-- from: 9
ALTER TABLE jobs ADD COLUMN role TEXT NOT NULL DEFAULT 'informative';
ALTER TABLE jobs ADD COLUMN suggestion TEXT;
ALTER TABLE translations ADD COLUMN needs_text_reason TEXT;
ALTER TABLE translations ADD COLUMN long_description TEXT NOT NULL DEFAULT '';
ALTER TABLE translations ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE translation_versions ADD COLUMN needs_text_reason TEXT;
ALTER TABLE translation_versions ADD COLUMN long_description TEXT NOT NULL DEFAULT '';
ALTER TABLE translation_versions ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE regenerations ADD COLUMN replaces_person INTEGER NOT NULL DEFAULT 0;
UPDATE translations SET needs_text_reason = 'nothing_known' WHERE source = 'pixels';
UPDATE translation_versions SET needs_text_reason = 'nothing_known' WHERE source = 'pixels';
DROP INDEX IF EXISTS translations_needing_text;

-- from: 10
ALTER TABLE jobs ADD COLUMN folder TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN quality_target TEXT;
ALTER TABLE jobs ADD COLUMN words TEXT;
ALTER TABLE stages ADD COLUMN score REAL;
ALTER TABLE translations ADD COLUMN review TEXT;
ALTER TABLE translation_versions ADD COLUMN review TEXT;
ALTER TABLE regenerations ADD COLUMN from_language TEXT;
UPDATE translations SET review = 'accepted' WHERE source = 'person';
UPDATE translation_versions SET review = 'accepted' WHERE source = 'person';

-- from: 11
ALTER TABLE jobs ADD COLUMN widths TEXT NOT NULL DEFAULT '[]';
ALTER TABLE jobs ADD COLUMN only_smaller INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stages ADD COLUMN notes TEXT;
DROP VIEW IF EXISTS files;
