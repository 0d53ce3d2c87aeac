"""The schema of the database, and the step from that of version 0.1.0.

The step adds columns, indexes and views only, so that no table is rewritten and a running server of version 0.1.0 goes
on beside it.
"""

from __future__ import annotations

import sqlite3
from importlib import resources

from imgproc_local.domain.errors import StorageFailed

SCHEMA = 8
"""The `user_version` of a database with the schema of this program."""
STEP_FROM = 7
"""The schema of version 0.1.0, which is updated."""
STEP = """
ALTER TABLE jobs ADD COLUMN thumbnail_sha256 TEXT;
ALTER TABLE jobs ADD COLUMN thumbnail_size INTEGER;
DROP INDEX stages_pending;
DROP INDEX stages_by_client;
"""
"""What `schema.sql`, which is run after it, can't change in a database with the schema `STEP_FROM`."""


def statements_from(found: int) -> list[str]:
    """The statements that create the schema in a database with the `user_version` `found`, or update it; to be run in
    one transaction. An empty list if it is that of this program.

    Raises: StorageFailed, if `found` is another version.
    """
    if found == SCHEMA:
        return []
    if found not in (0, STEP_FROM):
        version = "a newer" if found > SCHEMA else "an older"
        raise StorageFailed(
            f"The data folder was written by {version} version of the program: expected schema {SCHEMA}, or"
            f" {STEP_FROM} to update it, received {found}. Use that version, or another folder with --data-dir."
        )
    script = resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
    # not for executescript(), which would commit: user_version must change with the schema
    statements, statement = [], ""
    for line in ((STEP if found else "") + script).splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            statements.append(statement)
            statement = ""
    return [*statements, f"PRAGMA user_version = {SCHEMA}"]
