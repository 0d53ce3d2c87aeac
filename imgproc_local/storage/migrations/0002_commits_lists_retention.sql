-- A count of commits, indexes for filtered lists, and files that were removed before their jobs.

-- One row: the number of transactions that changed a row, by which snapshots of a job are ordered.
CREATE TABLE commits (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    number  INTEGER NOT NULL
) STRICT;
INSERT INTO commits (id, number) VALUES (1, 0);

-- The account of the job, repeated so that an index can begin with it. Neither ever changes.
ALTER TABLE stages ADD COLUMN account_id TEXT NOT NULL DEFAULT '';
UPDATE stages SET account_id = (SELECT account_id FROM jobs WHERE jobs.id = stages.job_id);
DROP INDEX stages_open;
CREATE INDEX stages_open ON stages (account_id, job_id) WHERE state IN ('pending', 'running');
CREATE INDEX stages_failed ON stages (account_id, job_id) WHERE state = 'failed';

-- When a file of a finished job was removed. The row keeps its address and size.
ALTER TABLE jobs ADD COLUMN original_removed_at TEXT;
ALTER TABLE stages ADD COLUMN output_removed_at TEXT;

-- Files that a command wants removed. The process that owns the data folder deletes those that no row references.
CREATE TABLE removals (sha256 TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_by_age ON jobs (created_at);
