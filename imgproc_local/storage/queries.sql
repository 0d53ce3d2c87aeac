-- Every statement of the service, by name. {name} in a statement is the text of one above it.

-- ---- accounts and keys ----

-- name: account_by_name
SELECT id, name, balance FROM accounts WHERE name = :name;

-- name: account_by_id
SELECT name, balance FROM accounts WHERE id = :account_id;

-- name: insert_account
INSERT INTO accounts (id, name, balance, created_at) VALUES (:id, :name, 0, :at);

-- name: insert_key
INSERT INTO keys (id, account_id, name, hash, rate_limit, created_at)
VALUES (:id, :account_id, :name, :hash, :rate_limit, :created_at);

-- name: key_by_hash
-- The secret of a page session is a key of the default account.
SELECT keys.*, accounts.name AS account, 0 AS for_page FROM keys JOIN accounts ON accounts.id = account_id
WHERE hash = :hash AND revoked_at IS NULL
UNION ALL
SELECT page_sessions.id, accounts.id, 'Local page', hash, 0, page_sessions.created_at, NULL, accounts.name, 1
FROM page_sessions JOIN accounts ON accounts.name = 'default' WHERE hash = :hash AND expires_at > :at;

-- name: key_in_force
SELECT 1 FROM keys WHERE id = :id AND revoked_at IS NULL
UNION ALL SELECT 1 FROM page_sessions WHERE id = :id AND expires_at > :at;

-- name: list_keys
SELECT keys.*, accounts.name AS account FROM keys JOIN accounts ON accounts.id = account_id ORDER BY keys.id;

-- name: revoke_key
UPDATE keys SET revoked_at = :at WHERE id = :id AND revoked_at IS NULL RETURNING id;

-- ---- credits ----

-- name: insert_movement
-- A trigger moves the balance along; its CHECK refuses to go below zero.
INSERT INTO ledger (account_id, kind, amount, job_id, stage, at)
VALUES (:account_id, :kind, :amount, :job_id, :stage, :at);

-- name: ledger_differences
SELECT accounts.name, accounts.balance, coalesce(sum(ledger.amount), 0) AS ledger_sum
FROM accounts LEFT JOIN ledger ON ledger.account_id = accounts.id
GROUP BY accounts.id HAVING accounts.balance <> coalesce(sum(ledger.amount), 0);

-- ---- projects ----

-- name: project_by_id
SELECT id, name FROM projects WHERE id = :id AND account_id = :account_id;

-- name: project_by_name
SELECT id, name FROM projects WHERE account_id = :account_id AND name = :name;

-- name: list_projects
SELECT id, name, (SELECT count(*) FROM jobs WHERE project_id = projects.id) AS pictures
FROM projects WHERE account_id = :account_id ORDER BY name;

-- name: insert_project
INSERT INTO projects (id, account_id, name, created_at) VALUES (:id, :account_id, :name, :at);

-- ---- jobs: taking them in ----

-- name: queue_length
-- The unfinished jobs: all, and those of the account.
SELECT count(*) AS total, coalesce(sum(account_id = :account_id), 0) AS own
FROM (SELECT DISTINCT account_id, job_id FROM stages WHERE state IN ('pending', 'running'));

-- name: highest_job_id
SELECT max(id) FROM jobs;

-- name: job_by_idempotency_key
SELECT id, fingerprint FROM jobs
WHERE account_id = :account_id AND idempotency_key = :idempotency_key AND created_at > :since
ORDER BY id DESC LIMIT 1;

-- name: insert_job
INSERT INTO jobs (
    id, image_id, account_id, project_id, operation, languages, convert_to, original_filename,
    original_sha256, original_size, info, created_at, idempotency_key, fingerprint, max_width_px, max_height_px, role
) VALUES (
    :id, :image_id, :account_id, :project_id, :operation, :languages, :format, :original_filename,
    :original_sha256, :original_size, :info, :at, :idempotency_key, :fingerprint, :max_width_px, :max_height_px,
    :role
);

-- name: insert_context
INSERT INTO contexts (job_id, context) VALUES (:job_id, :context);

-- name: insert_record
INSERT INTO records (job_id, record) VALUES (:job_id, :record);

-- name: insert_stage
INSERT INTO stages (job_id, account_id, name, lane, state, price)
VALUES (:job_id, :account_id, :name, :lane, 'pending', :price);

-- ---- jobs: reading them ----

-- name: jobs_by_id
-- Each job as JSON of domain.job.Job, so that a poll is one statement.
SELECT json_object(
    'id', id, 'image_id', image_id, 'account_id', account_id, 'project_id', project_id, 'operation', operation,
    'original_filename', original_filename, 'created_at', created_at,
    'original', json_object(
        'sha256', original_sha256, 'size_bytes', original_size, 'format', json_extract(info, '$.format'),
        'expired', original_removed_at IS NOT NULL),
    'stages', (
        SELECT json_group_array(json_object(
            'name', name, 'state', state, 'started_seq', started_seq, 'error', error,
            'removed', json(coalesce(removed, '[]')),
            'file', json(iif(output_sha256 IS NULL, NULL, json_object(
                'sha256', output_sha256, 'size_bytes', output_size, 'format', output_format,
                'expired', output_removed_at IS NOT NULL)))))
        FROM (SELECT * FROM stages WHERE job_id = jobs.id ORDER BY id)),
    'translations', (
        SELECT json_group_array(json_object(
            'language_code', language_code, 'seo_filename', seo_filename, 'seo_alt_text', seo_alt_text,
            'source', source, 'needs_text_reason', needs_text_reason, 'long_description', long_description, 'model', model))
        FROM (SELECT * FROM translations WHERE job_id = jobs.id ORDER BY position)),
    'text_states', (
        SELECT json_group_object(texts.language_code, json_object(
            'can_undo', EXISTS (
                SELECT 1 FROM translation_versions AS earlier
                WHERE earlier.job_id = texts.job_id AND earlier.language_code = texts.language_code
                    AND earlier.version < texts.version),
            'can_redo', EXISTS (
                SELECT 1 FROM translation_versions AS later
                WHERE later.job_id = texts.job_id AND later.language_code = texts.language_code
                    AND later.version > texts.version),
            'regenerating', coalesce(requests.state IN ('pending', 'running'), 0),
            'error', requests.error))
        FROM translations AS texts LEFT JOIN regenerations AS requests USING (job_id, language_code)
        WHERE texts.job_id = jobs.id),
    'project_name', (SELECT name FROM projects WHERE projects.id = jobs.project_id), 'languages', json(languages),
    'info', json(info), 'max_width_px', max_width_px, 'max_height_px', max_height_px, 'role', role, 'suggestion', json(suggestion),
    'thumbnail', json(iif(thumbnail_sha256 IS NULL, NULL, json_object(
        'sha256', thumbnail_sha256, 'size_bytes', thumbnail_size, 'format', 'webp')))) AS job
FROM jobs
WHERE jobs.id IN (SELECT value FROM json_each(:ids)) AND (:account_id IS NULL OR jobs.account_id = :account_id)
ORDER BY jobs.id DESC;

-- name: job_id_by_image
SELECT id FROM jobs WHERE image_id = :image_id AND account_id = :account_id;

-- Each list begins at an index of its jobs, so that its time depends on the rows that it returns, and applies all other
-- filters to them. Unary plus keeps a term from choosing an index.

-- name: list_filters
-- Not a statement: the end of every list. Filters that are not set are NULL, 0 or '[]'.
jobs.id < :before_id
    AND (:project_id IS NULL OR +jobs.project_id = :project_id)
    AND (NOT :needs_text OR EXISTS (
        SELECT 1 FROM translations WHERE translations.job_id = jobs.id AND needs_text_reason IS NOT NULL))
    AND (:language_missing IS NULL OR NOT EXISTS (
        SELECT 1 FROM translations
        WHERE translations.job_id = jobs.id AND language_code = :language_missing AND needs_text_reason IS NULL))
    AND (NOT :larger_than_optimized OR (
        SELECT output_size FROM stages WHERE stages.job_id = jobs.id AND name = 'convert') >= (
        SELECT output_size FROM stages WHERE stages.job_id = jobs.id AND name = 'optimize'))
    AND (:statuses = '[]' OR (SELECT status FROM job_status WHERE job_id = jobs.id) IN (
        SELECT value FROM json_each(:statuses)));

-- name: list_jobs
SELECT id FROM jobs WHERE account_id = :account_id AND {list_filters} ORDER BY id DESC LIMIT :limit;

-- name: list_jobs_of_project
SELECT id FROM jobs
WHERE project_id = :project_id AND +account_id = :account_id AND {list_filters} ORDER BY id DESC LIMIT :limit;

-- name: list_open_jobs
SELECT DISTINCT job_id AS id FROM stages AS listed CROSS JOIN jobs ON jobs.id = job_id
WHERE listed.account_id = :account_id AND state IN ('pending', 'running') AND job_id < :before_id AND {list_filters}
ORDER BY job_id DESC LIMIT :limit;

-- name: list_failed_jobs
SELECT DISTINCT job_id AS id FROM stages AS listed CROSS JOIN jobs ON jobs.id = job_id
WHERE listed.account_id = :account_id AND state = 'failed' AND job_id < :before_id AND {list_filters}
ORDER BY job_id DESC LIMIT :limit;

-- name: list_jobs_needing_text
SELECT DISTINCT job_id AS id FROM translations AS listed CROSS JOIN jobs ON jobs.id = job_id
WHERE listed.account_id = :account_id AND needs_text_reason IS NOT NULL AND job_id < :before_id AND {list_filters}
ORDER BY job_id DESC LIMIT :limit;

-- name: count_jobs_of_account
SELECT count(*) FROM jobs WHERE account_id = :account_id;

-- ---- exports ----

-- name: job_ids_of_images
SELECT id, image_id FROM jobs
WHERE image_id IN (SELECT value FROM json_each(:image_ids)) AND account_id = :account_id;

-- name: finished_job_ids
SELECT id FROM jobs JOIN job_status ON job_id = id
WHERE account_id = :account_id AND (:project_id IS NULL OR project_id = :project_id)
    AND status IN ('completed', 'failed')
ORDER BY id LIMIT :limit;

-- ---- stages: working on them ----

-- name: claim_stage
-- Accounts take turns: the next stage is that of the account whose last start in the lane is longest ago. A stage with
-- attempts ran when the process ended, so its picture may be the cause. It is claimed after all others, and while it runs
-- nothing else in its lane is claimed: if the process ends again, no other stage is suspected.
UPDATE stages
SET state = 'running', attempts = attempts + 1, started_at = :at,
    started_seq = (SELECT coalesce(max(started_seq), 0) + 1 FROM stages)
WHERE id = (
    SELECT next.id FROM accounts CROSS JOIN stages AS next ON next.id = (
        SELECT id FROM stages
        WHERE lane = :lane AND account_id = accounts.id AND state = 'pending' ORDER BY attempts, id LIMIT 1)
    WHERE NOT EXISTS (
        SELECT 1 FROM stages AS others
        WHERE others.lane = :lane AND others.state = 'running' AND (others.attempts > 1 OR next.attempts > 0))
    ORDER BY next.attempts, (
        SELECT max(started_seq) FROM stages WHERE account_id = accounts.id AND lane = :lane) LIMIT 1)
RETURNING 'stage' AS kind, id, job_id, account_id, name, attempts;

-- name: claim_text
-- A text to be written anew, of the next account after `last_account_id` that has one. One with attempts was being written
-- when the process ended: it waits until no stage does.
UPDATE regenerations SET state = 'running', attempts = attempts + 1
WHERE id = (
    SELECT next.id FROM regenerations AS next
    JOIN stages ON stages.job_id = next.job_id AND name = 'analyze' AND lane = :lane
    WHERE next.state = 'pending'
        AND (next.attempts = 0 OR NOT EXISTS (SELECT 1 FROM stages WHERE lane = :lane AND state = 'pending'))
    ORDER BY next.attempts, next.account_id <= :last_account_id, next.account_id, next.id LIMIT 1)
RETURNING 'text' AS kind, id, job_id, account_id, 'analyze' AS name, attempts, language_code;

-- name: plan_of_job
SELECT convert_to, role, coalesce((SELECT context FROM contexts WHERE job_id = jobs.id), '') AS context,
    (SELECT record FROM records WHERE job_id = jobs.id) AS record
FROM jobs WHERE id = :job_id;

-- name: finish_stage
UPDATE stages
SET state = 'done', finished_at = :at, output_sha256 = :sha256, output_size = :size, output_format = :format,
    removed = :removed
WHERE id = :id AND state = 'running'
RETURNING id;

-- name: finish_text
DELETE FROM regenerations WHERE id = :id AND state = 'running' RETURNING id;

-- name: fail_stage
-- `paid_as` is the stage that the ledger has for the price.
UPDATE stages SET state = 'failed', finished_at = :at, error = :error WHERE id = :id AND state = 'running'
RETURNING job_id, account_id, price, name AS paid_as;

-- name: fail_text
UPDATE regenerations SET state = 'failed', error = :error WHERE id = :id AND state = 'running'
RETURNING job_id, account_id, price, 'regenerate-' || id AS paid_as;

-- name: requeue_stage
UPDATE stages SET state = 'pending', attempts = attempts - :not_counted WHERE id = :id AND state = 'running';

-- name: requeue_text
UPDATE regenerations SET state = 'pending', attempts = attempts - :not_counted WHERE id = :id AND state = 'running';

-- name: interrupted_stages
SELECT 'stage' AS kind, id, attempts FROM stages WHERE state = 'running'
UNION ALL SELECT 'text', id, attempts FROM regenerations WHERE state = 'running';

-- name: set_suggestion
UPDATE jobs SET suggestion = :suggestion WHERE id = :job_id;

-- name: set_thumbnail
UPDATE jobs SET thumbnail_sha256 = :sha256, thumbnail_size = :size
WHERE id = :job_id AND original_removed_at IS NULL RETURNING id;

-- name: delete_context
DELETE FROM contexts WHERE job_id = :job_id;

-- name: delete_record_of_settled
DELETE FROM records WHERE job_id = :job_id
    AND NOT EXISTS (SELECT 1 FROM stages WHERE job_id = :job_id AND state IN ('pending', 'running'));

-- name: highest_slug_number
SELECT max(slug_number) FROM translations
WHERE project_id = :project_id AND language_code = :language_code AND slug_base = :slug_base;

-- name: slug_taken
-- Whether another picture has the file name.
SELECT 1 FROM translations
WHERE project_id = :project_id AND language_code = :language_code AND seo_filename = :seo_filename
    AND job_id <> :job_id;

-- name: insert_translation
INSERT INTO translations (
    job_id, account_id, project_id, language_code, position, seo_filename, slug_base, slug_number, seo_alt_text, source,
    needs_text_reason, long_description, model
) VALUES (
    :job_id, :account_id, :project_id, :language_code, :position, :seo_filename, :slug_base, :slug_number,
    :seo_alt_text, :source, :needs_text_reason, :long_description, :model
);

-- ---- versions of texts ----

-- name: translation
SELECT * FROM translations WHERE job_id = :job_id AND language_code = :language_code;

-- name: text_version
SELECT * FROM translation_versions
WHERE job_id = :job_id AND language_code = :language_code AND version = :version;

-- name: changed_by_person
-- What a person has changed without the alt text: an earlier version has the same alt text, and another of these.
SELECT max(slug_base <> :slug_base) AS seo_filename, max(long_description <> :long_description) AS long_description
FROM translation_versions
WHERE job_id = :job_id AND language_code = :language_code AND version < :version AND seo_alt_text = :seo_alt_text;

-- name: save_version
-- The one in force, before another takes its place.
INSERT OR REPLACE INTO translation_versions (
    job_id, language_code, version, seo_filename, slug_base, slug_number, seo_alt_text, source, needs_text_reason,
    long_description, model)
SELECT job_id, language_code, version, seo_filename, slug_base, slug_number, seo_alt_text, source, needs_text_reason,
    long_description, model
FROM translations WHERE job_id = :job_id AND language_code = :language_code;

-- name: limit_versions
DELETE FROM translation_versions
WHERE job_id = :job_id AND language_code = :language_code AND (version < :oldest OR version >= :in_force);

-- name: update_translation
UPDATE translations
SET version = :version, seo_filename = :seo_filename, slug_base = :slug_base, slug_number = :slug_number,
    seo_alt_text = :seo_alt_text, source = :source, needs_text_reason = :needs_text_reason,
    long_description = :long_description, model = :model
WHERE job_id = :job_id AND language_code = :language_code;

-- ---- requests to write a text anew ----

-- name: count_waiting_regenerations
SELECT count(*) FROM regenerations WHERE account_id = :account_id AND state IN ('pending', 'running');

-- name: insert_regeneration
-- In place of a request that failed. No id is used twice, because the ledger has it.
INSERT OR REPLACE INTO regenerations (job_id, account_id, language_code, state, price, replaces_person)
VALUES (:job_id, :account_id, :language_code, 'pending', :price, :replaces_person) RETURNING 'regenerate-' || id;

-- name: regenerated_text
-- The text in force that a request wants replaced.
SELECT translations.*, replaces_person FROM regenerations JOIN translations USING (job_id, language_code)
WHERE id = :id AND state = 'running';

-- ---- metrics ----

-- name: queue_depths
SELECT lane, state, count(*) AS stages FROM stages WHERE state IN ('pending', 'running') GROUP BY lane, state;

-- name: stored_bytes
SELECT coalesce(sum(size), 0) FROM (SELECT DISTINCT sha256, size FROM files);

-- ---- page sessions ----

-- name: insert_link
INSERT INTO sign_in_links (hash, expires_at) VALUES (:hash, :expires_at);

-- name: link_valid
SELECT 1 FROM sign_in_links WHERE hash = :hash AND expires_at > :at;

-- name: use_link
DELETE FROM sign_in_links WHERE hash = :hash AND expires_at > :at RETURNING 1;

-- name: delete_expired_links
DELETE FROM sign_in_links WHERE expires_at <= :at;

-- name: delete_links
DELETE FROM sign_in_links;

-- name: insert_session
INSERT INTO page_sessions (id, hash, browser, created_at, expires_at)
VALUES (:id, :hash, :browser, :created_at, :expires_at);

-- name: list_sessions
SELECT id, browser, created_at, expires_at FROM page_sessions WHERE expires_at > :at ORDER BY id;

-- name: delete_expired_sessions
DELETE FROM page_sessions WHERE expires_at <= :at;

-- name: delete_sessions
DELETE FROM page_sessions;

-- name: delete_session
DELETE FROM page_sessions WHERE id = :id RETURNING 1;

-- ---- removal ----

-- name: pending_stages_of_job
SELECT name AS paid_as, price FROM stages WHERE job_id = :job_id AND state = 'pending'
UNION ALL
SELECT 'regenerate-' || id, price FROM regenerations WHERE job_id = :job_id AND state = 'pending';

-- name: files_of_job
SELECT DISTINCT sha256 FROM files WHERE job_id = :job_id;

-- name: delete_job
DELETE FROM jobs WHERE id = :job_id;

-- name: referenced_files
SELECT DISTINCT sha256, size FROM files;

-- name: file_referenced
SELECT EXISTS (SELECT 1 FROM files WHERE sha256 = :sha256);

-- ---- retention ----

-- name: too_old
-- Jobs of which something is too old, and all of whose stages and requests to write a text anew have ended.
SELECT id, created_at < :jobs_before AS is_old,
    created_at < :originals_before AND EXISTS (
        SELECT 1 FROM files WHERE job_id = jobs.id AND kind = 'original') AS has_old_original,
    created_at < :results_before AND EXISTS (
        SELECT 1 FROM files WHERE job_id = jobs.id AND kind = 'result') AS has_old_results
FROM jobs
WHERE (is_old OR has_old_original OR has_old_results)
    AND NOT EXISTS (SELECT 1 FROM stages WHERE job_id = jobs.id AND state IN ('pending', 'running'))
    AND NOT EXISTS (SELECT 1 FROM regenerations WHERE job_id = jobs.id AND state IN ('pending', 'running'))
LIMIT :limit;

-- name: removable
-- The old jobs, and the files that no row references once what is too old is gone.
WITH found AS MATERIALIZED ({too_old})
SELECT (SELECT count(*) FROM found WHERE is_old) AS jobs, count(*) AS files, coalesce(sum(size), 0) AS size_bytes FROM (
    SELECT max(size) AS size FROM files LEFT JOIN found ON found.id = job_id
    GROUP BY sha256
    HAVING min(coalesce(is_old OR iif(kind = 'original', has_old_original, has_old_results), 0)));

-- name: queue_files
-- For the removal of the files of a job: all, or with `kind` only these.
INSERT OR IGNORE INTO removals (sha256)
SELECT sha256 FROM files WHERE job_id = :job_id AND (:kind IS NULL OR kind = :kind);

-- name: detach_original
UPDATE jobs SET original_removed_at = :at WHERE id = :job_id;

-- name: detach_results
UPDATE stages SET output_removed_at = :at WHERE job_id = :job_id AND output_sha256 IS NOT NULL;

-- name: queued_removals
SELECT sha256 FROM removals LIMIT :limit;

-- name: unqueue_removal
DELETE FROM removals WHERE sha256 = :sha256;

-- ---- health ----

-- name: beat
INSERT INTO heartbeat (id, at) VALUES (1, :at) ON CONFLICT (id) DO UPDATE SET at = excluded.at;

-- ---- inspection ----

-- name: count_keys_in_force
SELECT count(*) FROM keys WHERE revoked_at IS NULL;

-- name: jobs_by_status
SELECT status, count(*) AS jobs FROM job_status GROUP BY status ORDER BY status;

-- name: holds_anything
-- Whether there is more than what a command creates that only reads: the default account with its first balance.
SELECT EXISTS (SELECT 1 FROM jobs) OR EXISTS (SELECT 1 FROM keys) OR (SELECT count(*) FROM ledger) > 1;
