"""`verify`: every check of the data folder, including the content of each file. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from imgproc_local.cli.doctor.check import Check, check_lines
from imgproc_local.cli.doctor.data_folder import REPAIR, REPAIR_FILES, REPAIR_ROWS
from imgproc_local.cli.exit_codes import EXIT_PROBLEM
from imgproc_local.cli.options import data_dir_option, load_config
from imgproc_local.cli.output import size_text
from imgproc_local.system.files import encodable_text

if TYPE_CHECKING:
    from imgproc_local.storage.verification import Problem, Verification

MAX_SHOWN = 5
"""The most problems of one area that are printed; `--json` lists all that were found."""
ADVICE = {
    "database": REPAIR,
    "jobs": REPAIR_ROWS,
    "credits": REPAIR_ROWS,
    "files": REPAIR_FILES,
    "foreign": "The next start deletes such files in `incoming`, `thumbnails` and the folders of `files`; delete others"
    " yourself.",
}
"""What to do about the problems of an area. The area `foreign` is the files that belong to no job."""
NOT_CHECKED = "not checked while another process uses the folder: it may be storing files"


@click.command("verify")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every problem.")
@data_dir_option
@click.pass_context
def command(ctx: click.Context, as_json: bool, data_dir: str | None) -> None:
    """Check the data folder completely.

    Checks the database, the jobs, the credits, and the content of every file. Reads all files, so it takes as long as
    copying them. Changes nothing and works beside a running server. Exit code: 0 no problem, 1 at least one problem.
    """
    from imgproc_local.compose import DATABASE_FILE
    from imgproc_local.storage.verification import verify
    from imgproc_local.system.folder_lock import current_owner, require_folder

    folder = load_config(ctx, data_dir).data_dir
    require_folder(folder)
    result = verify(folder, folder / DATABASE_FILE, lambda: current_owner(folder) is not None)
    checks = list(_checks(result))
    healthy = all(check.state != "problem" for check in checks)
    if as_json:
        from imgproc_local.cli.output import echo_json

        problems = [{"area": one.area, "detail": encodable_text(one.detail)} for one in result.problems]
        counts = {"files": result.files, "size_bytes": result.size_bytes}
        echo_json({"ok": healthy, **counts, "problems": problems})
    else:
        for line in check_lines(checks):
            click.echo(line)
    ctx.exit(0 if healthy else EXIT_PROBLEM)


def _checks(result: Verification) -> Iterator[Check]:
    from imgproc_local.storage.schema import SCHEMA

    database = f"schema {result.schema}, intact" if result.schema else "none yet"
    needs_migration = 0 < result.schema < SCHEMA
    if needs_migration:
        database = f"{database}; the next start updates it to {SCHEMA}, and nothing else is checked before"
    intact = {
        "database": database,
        "jobs": "every job, stage and result is consistent",
        "credits": "every balance equals the sum of its ledger, every stage is paid once",
        "files": f"{result.files:,} files with {size_text(result.size_bytes)} match their SHA-256",
        "foreign": "every file belongs to a job" if not result.is_used else NOT_CHECKED,
    }
    # if the database is damaged, the other areas may not have been checked
    has_unchecked = needs_migration or any(problem.area == "database" for problem in result.problems)
    for area, detail in intact.items():
        problems = [problem for problem in result.problems if problem.area == area]
        if problems:
            advice = problems[0].advice or ADVICE[area]
            yield Check(area, "warning" if area == "foreign" else "problem", _shown(problems), advice)
        elif area == "database" or not has_unchecked:
            yield Check(area, "ok", detail)


def _shown(problems: Sequence[Problem]) -> str:
    more = len(problems) - MAX_SHOWN
    return "; ".join(one.detail for one in problems[:MAX_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")
