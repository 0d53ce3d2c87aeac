-- Every statement of the service, by name. {name} in a statement is the text of one above it, and :at is now.

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
    original_sha256, original_size, info, created_at, idempotency_key, fingerprint, max_width_px, max_height_px, role,
    folder, quality_target, only_smaller, widths
) VALUES (
    :id, :image_id, :account_id, :project_id, :operation, :languages, :format, :original_filename,
    :sha256, :size_bytes, :info, :at, :idempotency_key, :fingerprint, :max_width_px, :max_height_px,
    :role, :folder, nullif(json_quote(:quality_target), 'null'), :only_smaller, :widths
);

-- name: insert_context
INSERT INTO contexts (job_id, context) VALUES (:job_id, :context);

-- name: insert_record
INSERT INTO records (job_id, record) VALUES (:job_id, :record);

-- name: insert_stage
INSERT INTO stages (job_id, account_id, name, lane, state, price)
VALUES (:job_id, :account_id, :name, :lane, 'pending', :price);

-- ---- jobs: reading them ----

-- name: fields_of_text
-- Not a statement: the fields of domain.result.Translation as JSON.
'language_code', texts.language_code, 'seo_filename', seo_filename, 'seo_alt_text', seo_alt_text, 'source', source,
'needs_text_reason', needs_text_reason, 'long_description', long_description, 'model', model, 'review', review;

-- name: state_of_text
-- Not a statement: the fields of domain.result.TextState as JSON.
'can_undo', EXISTS (
    SELECT 1 FROM translation_versions AS earlier
    WHERE earlier.job_id = texts.job_id AND earlier.language_code = texts.language_code
        AND earlier.version < texts.version),
'can_redo', EXISTS (
    SELECT 1 FROM translation_versions AS later
    WHERE later.job_id = texts.job_id AND later.language_code = texts.language_code
        AND later.version > texts.version),
'regenerating', coalesce(requests.state IN ('pending', 'running'), 0),
'error', requests.error, 'version', texts.version;

-- name: jobs_by_id
-- Each job as JSON of domain.job.Job, so that a poll is one statement.
SELECT json_object(
    'id', id, 'image_id', image_id, 'account_id', account_id, 'project_id', project_id, 'operation', operation,
    'original_filename', original_filename, 'created_at', created_at,
    'original', json_object(
        'sha256', original_sha256, 'size_bytes', original_size, 'format', json_extract(info, '$.format'),
        'expired', original_removed_at IS NOT NULL),
    'status', (SELECT status FROM job_status WHERE job_id = jobs.id), 'stages', (
        SELECT json_group_array(json_object(
            'name', name, 'state', state, 'error', error, 'score', score,
            'removed', json(coalesce(removed, '[]')), 'notes', json(coalesce(notes, '[]')),
            'file', json(iif(output_sha256 IS NULL, NULL, json_object(
                'sha256', output_sha256, 'size_bytes', output_size, 'format', output_format,
                'expired', output_removed_at IS NOT NULL)))))
        FROM (SELECT * FROM stages WHERE job_id = jobs.id ORDER BY id)),
    'variants', (
        SELECT json_group_array(json_object(
            'width_px', width, 'height_px', height, 'sha256', sha256, 'size_bytes', size, 'format', output_format,
            'expired', output_removed_at IS NOT NULL))
        FROM (
            SELECT * FROM variants JOIN stages USING (job_id)
            WHERE variants.job_id = jobs.id AND name = 'convert' ORDER BY width)),
    'translations', (
        SELECT json_group_array(json_object({fields_of_text}))
        FROM (SELECT * FROM translations WHERE job_id = jobs.id ORDER BY position) AS texts),
    'text_states', (
        SELECT json_group_object(texts.language_code, json_object({state_of_text}))
        FROM translations AS texts LEFT JOIN regenerations AS requests USING (job_id, language_code)
        WHERE texts.job_id = jobs.id),
    'project_name', (SELECT name FROM projects WHERE projects.id = jobs.project_id), 'languages', json(languages),
    'info', json(info), 'max_width_px', max_width_px, 'max_height_px', max_height_px, 'role', role, 'suggestion', json(suggestion),
    'folder', folder, 'only_smaller', only_smaller, 'widths', json(widths), 'quality_target', json(quality_target), 'words', json(coalesce(words, '{{}}')),
    'remaking', EXISTS (SELECT 1 FROM remakes WHERE job_id = jobs.id AND state IN ('pending', 'running')),
    'remake_error', (SELECT min(error) FROM remakes WHERE job_id = jobs.id AND state = 'failed'),
    'thumbnail', json(iif(thumbnail_sha256 IS NULL, NULL, json_object(
        'sha256', thumbnail_sha256, 'size_bytes', thumbnail_size, 'format', 'webp')))) AS job
FROM jobs
WHERE jobs.id IN (SELECT value FROM json_each(:ids)) AND (:account_id IS NULL OR jobs.account_id = :account_id)
ORDER BY jobs.id DESC;

-- name: job_id_by_image
SELECT id FROM jobs WHERE image_id = :image_id AND account_id = :account_id;

-- name: change_image
-- A merge patch (RFC 7396) removes the members that are null.
UPDATE jobs SET project_id = coalesce(:project_id, project_id),
    words = json_patch(coalesce(words, '{{}}'), :words)
WHERE id = :job_id
RETURNING json_object(
    'image_id', image_id, 'job_id', id, 'words', json(words),
    'project_name', (SELECT name FROM projects WHERE projects.id = jobs.project_id)) AS image;

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

-- name: running_in_lane
-- Not a statement: the attempts of what runs in the lane and touches a picture.
SELECT attempts FROM stages WHERE lane = :lane AND state = 'running'
UNION ALL SELECT attempts FROM remakes WHERE lane = :lane AND state = 'running';

-- name: waits_for_optimized
-- Not a statement: whether a conversion waits for the optimized file, because it is kept only if it is smaller.
waiting.name = 'convert' AND (SELECT only_smaller FROM jobs WHERE id = waiting.job_id) AND EXISTS (
    SELECT 1 FROM (SELECT job_id, name, state FROM stages UNION ALL SELECT job_id, name, state FROM remakes) AS other
    WHERE other.job_id = waiting.job_id AND other.name = 'optimize' AND other.state IN ('pending', 'running'))

-- name: claim_stage
-- Accounts take turns: the next stage is that of the account whose last start in the lane is longest ago. A stage with
-- attempts ran when the process ended, so its picture may be the cause. It is claimed after all others, and while it runs
-- nothing else in its lane is claimed: if the process ends again, no other stage is suspected.
UPDATE stages
SET state = 'running', attempts = attempts + 1, started_at = :at,
    started_seq = (SELECT coalesce(max(started_seq), 0) + 1 FROM stages)
WHERE id = (
    SELECT next.id FROM accounts CROSS JOIN stages AS next ON next.id = (
        SELECT id FROM stages AS waiting
        WHERE lane = :lane AND account_id = accounts.id AND state = 'pending' AND NOT ({waits_for_optimized})
        ORDER BY attempts, id LIMIT 1)
    WHERE NOT EXISTS (
        SELECT 1 FROM ({running_in_lane}) AS others WHERE others.attempts > 1 OR next.attempts > 0)
    ORDER BY next.attempts, (
        SELECT max(started_seq) FROM stages WHERE account_id = accounts.id AND lane = :lane) LIMIT 1)
RETURNING 'stage' AS kind, id, job_id, account_id, name, attempts;

-- name: claim_text
-- A text to be written anew, of the next account after `last_account_id` that has one. One with attempts was being written
-- when the process ended: it waits until no stage does. All texts of the picture that are to be written in the same way and
-- have as many attempts are claimed with it.
UPDATE regenerations SET state = 'running', attempts = regenerations.attempts + 1
FROM (
    SELECT next.* FROM regenerations AS next
    JOIN stages ON stages.job_id = next.job_id AND name = 'analyze' AND lane = :lane
    WHERE next.state = 'pending'
        AND (next.attempts = 0 OR NOT EXISTS (SELECT 1 FROM stages WHERE lane = :lane AND state = 'pending'))
    ORDER BY next.attempts, next.account_id <= :last_account_id, next.account_id, next.id LIMIT 1) AS first
WHERE regenerations.job_id = first.job_id AND regenerations.state = 'pending'
    AND regenerations.attempts = first.attempts AND regenerations.from_language IS first.from_language
RETURNING 'text' AS kind, id, job_id, account_id, 'analyze' AS name, attempts, language_code, from_language;

-- name: claim_remake
-- A result to be made anew, of the next account as for texts. One with attempts was being made when the process ended: it
-- waits until no stage does, and runs alone in its lane.
UPDATE remakes SET state = 'running', attempts = attempts + 1
WHERE id = (
    SELECT next.id FROM accounts CROSS JOIN remakes AS next ON next.id = (
        SELECT id FROM remakes AS waiting
        WHERE lane = :lane AND account_id = accounts.id AND state = 'pending' AND NOT ({waits_for_optimized})
        ORDER BY attempts, id LIMIT 1)
    WHERE (next.attempts = 0 OR NOT EXISTS (SELECT 1 FROM stages WHERE lane = :lane AND state = 'pending'))
        AND NOT EXISTS (
            SELECT 1 FROM ({running_in_lane}) AS others WHERE others.attempts > 1 OR next.attempts > 0)
    ORDER BY next.attempts, next.account_id <= :last_account_id, next.account_id, next.id LIMIT 1)
RETURNING 'remake' AS kind, id, job_id, account_id, name, attempts;

-- name: plan_of_job
-- What its stages are to make, or what a request asks for that makes a result anew: JSON of domain.plan.Plan.
SELECT json_object(
        'operation', operation, 'languages', json(languages), 'role', role, 'folder', folder,
        'project_name', (SELECT name FROM projects WHERE projects.id = jobs.project_id),
        'context', coalesce((SELECT context FROM contexts WHERE job_id = jobs.id), ''),
        'only_smaller', json(iif(only_smaller, 'true', 'false')), 'widths', json(widths),
        'format', iif(wanted.id, wanted.convert_to, jobs.convert_to),
        'max_width_px', iif(wanted.id, wanted.max_width_px, jobs.max_width_px),
        'max_height_px', iif(wanted.id, wanted.max_height_px, jobs.max_height_px),
        'quality_target', json(iif(wanted.id, wanted.quality_target, jobs.quality_target))) AS plan,
    (SELECT record FROM records WHERE job_id = jobs.id) AS record
FROM jobs LEFT JOIN remakes AS wanted ON wanted.id = :remake_id
WHERE jobs.id = :job_id;

-- name: finish_stage
UPDATE stages
SET state = 'done', finished_at = :at, output_sha256 = :sha256, output_size = :size_bytes, output_format = :format,
    removed = :removed, score = :score, notes = :notes
WHERE id = :id AND state = 'running'
RETURNING account_id, price, name AS paid_as;

-- name: delete_variants
DELETE FROM variants WHERE job_id = :job_id;

-- name: insert_variants
INSERT INTO variants (job_id, width, height, sha256, size)
SELECT :job_id, json_extract(value, '$.width_px'), json_extract(value, '$.height_px'), json_extract(value, '$.sha256'),
    json_extract(value, '$.size_bytes')
FROM json_each(:variants);

-- name: finish_text
DELETE FROM regenerations WHERE id = :id AND state = 'running' RETURNING id;

-- name: finish_remake
-- The new result replaces the one in force. Its age counts from now.
UPDATE stages
SET finished_at = :at, output_sha256 = :sha256, output_size = :size_bytes, output_format = :format, output_removed_at = NULL, removed = :removed,
    score = :score, notes = :notes
WHERE (job_id, name) = (SELECT job_id, name FROM remakes WHERE id = :id AND state = 'running')
RETURNING account_id, (SELECT price FROM remakes WHERE id = :id) AS price, 'remake-' || :id AS paid_as;

-- name: set_remade_options
-- The format is that of the converted file: only making that anew changes it.
UPDATE jobs
SET convert_to = iif(name = 'convert', remakes.convert_to, jobs.convert_to), max_width_px = remakes.max_width_px,
    max_height_px = remakes.max_height_px, quality_target = remakes.quality_target
FROM remakes WHERE remakes.id = :id AND jobs.id = job_id;

-- name: delete_remake
DELETE FROM remakes WHERE id = :id;

-- name: fail_stage
-- `paid_as` is the stage that the ledger has for the price.
UPDATE stages SET state = 'failed', finished_at = :at, error = :error WHERE id = :id AND state = 'running'
RETURNING job_id, account_id, price, name AS paid_as;

-- name: fail_text
UPDATE regenerations SET state = 'failed', error = :error WHERE id = :id AND state = 'running'
RETURNING job_id, account_id, price, 'regenerate-' || id AS paid_as;

-- name: fail_remake
UPDATE remakes SET state = 'failed', error = :error WHERE id = :id AND state = 'running'
RETURNING job_id, account_id, price, 'remake-' || id AS paid_as;

-- name: requeue_stage
UPDATE stages SET state = 'pending', attempts = attempts - :not_counted WHERE id = :id AND state = 'running';

-- name: requeue_text
UPDATE regenerations SET state = 'pending', attempts = attempts - :not_counted WHERE id = :id AND state = 'running';

-- name: requeue_remake
UPDATE remakes SET state = 'pending', attempts = attempts - :not_counted WHERE id = :id AND state = 'running';

-- name: interrupted_stages
SELECT 'stage' AS kind, id, attempts FROM stages WHERE state = 'running'
UNION ALL SELECT 'text', id, attempts FROM regenerations WHERE state = 'running'
UNION ALL SELECT 'remake', id, attempts FROM remakes WHERE state = 'running';

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
    needs_text_reason, long_description, model, review
) VALUES (
    :job_id, :account_id, :project_id, :language_code, :position, :seo_filename, :slug_base, :slug_number,
    :seo_alt_text, :source, :needs_text_reason, :long_description, :model, :review
);

-- name: move_texts
-- Those whose file names are free in the new project.
UPDATE translations SET project_id = :project_id
WHERE job_id = :job_id AND NOT EXISTS (
    SELECT 1 FROM translations AS others
    WHERE others.project_id = :project_id AND others.language_code = translations.language_code
        AND others.seo_filename = translations.seo_filename);

-- name: texts_of_other_projects
SELECT * FROM translations WHERE job_id = :job_id AND project_id <> :project_id;

-- name: move_text
UPDATE translations
SET project_id = :project_id, seo_filename = :seo_filename, slug_base = :slug_base, slug_number = :slug_number
WHERE job_id = :job_id AND language_code = :language_code;

-- ---- versions of texts ----

-- name: translation
SELECT texts.* FROM jobs JOIN translations AS texts ON job_id = jobs.id
WHERE image_id = :image_id AND jobs.account_id = :account_id AND language_code = :language_code;

-- name: stored_texts
-- Those of a list of pairs of image and language that the account has, as JSON of domain.result.StoredText.
SELECT json_object('image_id', image_id, 'job_id', jobs.id, {fields_of_text}, {state_of_text}) AS text
FROM json_each(:names) AS names
CROSS JOIN jobs ON image_id = json_extract(names.value, '$[0]') AND jobs.account_id = :account_id
CROSS JOIN translations AS texts ON texts.job_id = jobs.id AND texts.language_code = json_extract(names.value, '$[1]')
LEFT JOIN regenerations AS requests ON requests.job_id = jobs.id AND requests.language_code = texts.language_code;

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
    long_description, model, review)
SELECT job_id, language_code, version, seo_filename, slug_base, slug_number, seo_alt_text, source, needs_text_reason,
    long_description, model, review
FROM translations WHERE job_id = :job_id AND language_code = :language_code;

-- name: limit_versions
DELETE FROM translation_versions
WHERE job_id = :job_id AND language_code = :language_code AND (version < :oldest OR version >= :in_force);

-- name: update_translation
UPDATE translations
SET version = :version, seo_filename = :seo_filename, slug_base = :slug_base, slug_number = :slug_number,
    seo_alt_text = :seo_alt_text, source = :source, needs_text_reason = :needs_text_reason,
    long_description = :long_description, model = :model, review = :review
WHERE job_id = :job_id AND language_code = :language_code;

-- ---- requests to write a text anew ----

-- name: count_waiting_regenerations
SELECT count(*) FROM regenerations WHERE account_id = :account_id AND state IN ('pending', 'running');

-- name: insert_regeneration
-- In place of a request that failed. No id is used twice, because the ledger has it.
INSERT OR REPLACE INTO regenerations (job_id, account_id, language_code, state, price, replaces_person, from_language)
VALUES (:job_id, :account_id, :language_code, 'pending', :price, :replaces_person, :from_language)
RETURNING 'regenerate-' || id;

-- name: delete_waiting_regeneration
DELETE FROM regenerations WHERE job_id = :job_id AND language_code = :language_code AND state = 'pending'
RETURNING price, 'regenerate-' || id AS paid_as;

-- name: add_language
UPDATE jobs SET languages = json_insert(languages, '$[#]', :language_code) WHERE id = :job_id;

-- name: regenerated_text
-- The text in force that a request wants replaced.
SELECT translations.*, replaces_person FROM regenerations JOIN translations USING (job_id, language_code)
WHERE id = :id AND state = 'running';

-- ---- requests to make results anew ----

-- name: remakable
-- Those of the images that the account has, with what decides whether one of the results `names` can be made anew.
SELECT image_id, jobs.id AS job_id, original_removed_at IS NOT NULL AS is_original_removed,
    EXISTS (SELECT 1 FROM stages WHERE job_id = jobs.id AND state IN ('pending', 'running')) AS is_unfinished,
    EXISTS (
        SELECT 1 FROM stages
        WHERE job_id = jobs.id AND state = 'done' AND name IN (SELECT value FROM json_each(:names))) AS has_results
FROM jobs WHERE image_id IN (SELECT value FROM json_each(:image_ids)) AND +account_id = :account_id;

-- name: replaced_remakes
-- Requests that wait or run and that new ones take the place of: what one of them makes is discarded.
SELECT id, job_id, price, 'remake-' || id AS paid_as FROM remakes
WHERE job_id IN (SELECT value FROM json_each(:job_ids)) AND name IN (SELECT value FROM json_each(:names))
    AND state IN ('pending', 'running');

-- name: insert_remakes
-- One for each of the results `names` of the jobs. What the JSON object `changes` does not name is as in a request that
-- waits or runs, or else as in force. No id is used twice, because the ledger has it.
INSERT OR REPLACE INTO remakes (
    job_id, account_id, name, lane, state, price, convert_to, max_width_px, max_height_px, quality_target)
SELECT stages.job_id, stages.account_id, stages.name, stages.lane, 'pending',
    json_extract(:prices, '$.' || stages.name) * iif(
        stages.name = 'convert', 1 + (SELECT count(*) FROM variants WHERE variants.job_id = jobs.id), 1),
    coalesce(
        json_extract(:changes, '$.format'),
        (SELECT convert_to FROM remakes WHERE job_id = jobs.id AND name = 'convert' AND state <> 'failed'),
        jobs.convert_to),
    iif(
        json_type(:changes, '$.max_width_px') IS NULL, iif(open.id, open.max_width_px, jobs.max_width_px),
        json_extract(:changes, '$.max_width_px')),
    iif(
        json_type(:changes, '$.max_height_px') IS NULL, iif(open.id, open.max_height_px, jobs.max_height_px),
        json_extract(:changes, '$.max_height_px')),
    iif(
        json_type(:changes, '$.quality_target') IS NULL, iif(open.id, open.quality_target, jobs.quality_target),
        nullif(json_quote(json_extract(:changes, '$.quality_target')), 'null'))
FROM stages JOIN jobs ON jobs.id = stages.job_id
LEFT JOIN remakes AS open ON open.id = (
    SELECT max(id) FROM remakes WHERE job_id = jobs.id AND state IN ('pending', 'running'))
WHERE stages.job_id IN (SELECT value FROM json_each(:job_ids)) AND stages.state = 'done'
    AND stages.name IN (SELECT value FROM json_each(:names))
ORDER BY stages.id
RETURNING id, price;

-- name: delete_failed_remakes
DELETE FROM remakes WHERE job_id IN (SELECT value FROM json_each(:job_ids)) AND state = 'failed';

-- name: hold_for_remakes
INSERT INTO ledger (account_id, kind, amount, job_id, stage, at)
SELECT account_id, 'hold', -price, job_id, 'remake-' || id, :at FROM remakes
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: count_waiting_remakes
SELECT count(*) FROM remakes WHERE account_id = :account_id AND state IN ('pending', 'running');

-- ---- metrics ----

-- name: queue_depths
SELECT lane, state, count(*) AS stages FROM (
    SELECT lane, state FROM stages WHERE state IN ('pending', 'running')
    UNION ALL SELECT lane, state FROM remakes WHERE state IN ('pending', 'running')
    UNION ALL SELECT lane, regenerations.state FROM regenerations JOIN stages USING (job_id)
    WHERE name = 'analyze' AND regenerations.state IN ('pending', 'running'))
GROUP BY lane, state;

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
SELECT 'regenerate-' || id, price FROM regenerations WHERE job_id = :job_id AND state = 'pending'
UNION ALL
SELECT 'remake-' || id, price FROM remakes WHERE job_id = :job_id AND state = 'pending';

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
-- Jobs of which something is too old, and all of whose stages and requests to make something anew have ended.
SELECT id, created_at < :jobs_before AS is_old,
    created_at < :originals_before AND EXISTS (
        SELECT 1 FROM files WHERE job_id = jobs.id AND kind = 'original') AS has_old_original,
    created_at < :results_before AND EXISTS (
        SELECT 1 FROM files WHERE job_id = jobs.id AND kind = 'result') AND NOT EXISTS (
        SELECT 1 FROM stages WHERE job_id = jobs.id AND finished_at >= :results_before) AS has_old_results
FROM jobs
WHERE (is_old OR has_old_original OR has_old_results)
    AND NOT EXISTS (SELECT 1 FROM stages WHERE job_id = jobs.id AND state IN ('pending', 'running'))
    AND NOT EXISTS (SELECT 1 FROM regenerations WHERE job_id = jobs.id AND state IN ('pending', 'running'))
    AND NOT EXISTS (SELECT 1 FROM remakes WHERE job_id = jobs.id AND state IN ('pending', 'running'))
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

-- name: unqueue_removals
DELETE FROM removals WHERE sha256 IN (SELECT value FROM json_each(:removed));

-- ---- health ----

-- name: beat
INSERT INTO heartbeat (id, at) VALUES (1, :at) ON CONFLICT (id) DO UPDATE SET at = excluded.at;

-- ---- inspection ----

-- name: keys_in_force
SELECT id, name FROM keys WHERE revoked_at IS NULL ORDER BY id;

-- name: count_keys_in_force
SELECT count(*) FROM keys WHERE revoked_at IS NULL;

-- name: jobs_by_status
SELECT status, count(*) AS jobs FROM job_status GROUP BY status ORDER BY status;

-- name: holds_anything
-- Whether there is more than what a command creates that only reads: the default account with its first balance.
SELECT EXISTS (SELECT 1 FROM jobs) OR EXISTS (SELECT 1 FROM keys) OR (SELECT count(*) FROM ledger) > 1;
