-- Accounts take turns, and a batch waits for single uploads of its account.

-- Which of the account's clients sent the job, such as an API key; and 1 for the stages of a batch. Neither ever changes.
ALTER TABLE stages ADD COLUMN client_id TEXT NOT NULL DEFAULT '';
ALTER TABLE stages ADD COLUMN batch INTEGER NOT NULL DEFAULT 0;

DROP INDEX stages_pending;
CREATE INDEX stages_pending ON stages (lane, attempts, account_id, batch, id) WHERE state = 'pending';
CREATE INDEX stages_by_client ON stages (account_id, client_id, job_id) WHERE state IN ('pending', 'running');
CREATE INDEX stages_by_turn ON stages (account_id, lane, started_seq);
