-- A stage that was running when the process ended is claimed only when its lane runs nothing else.

DROP INDEX stages_pending;
CREATE INDEX stages_pending ON stages (lane, attempts, id) WHERE state = 'pending';
CREATE INDEX stages_running ON stages (lane, attempts) WHERE state = 'running';
