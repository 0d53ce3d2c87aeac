"""`verify`: every check of the data folder, including the content of each file; `doctor` makes the quick ones too.

It changes nothing. One result is one `Check`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import click
from msgspec import Struct

from imgproc_local.cli.exit_codes import EXIT_PROBLEM
from imgproc_local.cli.options import data_dir_option, load_config
from imgproc_local.cli.output import echo_json, printable, size_text
from imgproc_local.system.files import encodable_text

if TYPE_CHECKING:
    from imgproc_local.storage.inspection import Inspection, Problem

State = Literal["ok", "warning", "problem"]

MAX_SHOWN = 5
"""The most problems of one area that are printed; `--json` lists all that were found."""
ADVICE = {
    "database": "Stop the server, move the data folder away, and restore a backup (`imgproc-local restore FILE`)."
    " Without a backup, keep the moved folder and begin with a new one.",
    "credits": "The database was damaged, or changed by another program: restore a backup (`imgproc-local restore"
    " FILE`).",
    "files": "Send the same pictures again, which repairs the files; or restore a backup (`imgproc-local restore"
    " FILE`); or delete the jobs (DELETE /jobs/{id}).",
    "foreign": "The next start deletes such files in `incoming` and the folders of `files`; delete others yourself.",
}
"""What to do about the problems of an area."""


class Check(Struct, frozen=True):
    """The result of one check: `detail` is what was found, `advice` what the user can do, None if nothing.

    A `warning` is about something that works, but not as well as it could; a `problem` about something that does not.
    """

    name: str
    state: State
    detail: str
    advice: str | None = None


@click.command("verify")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every problem.")
@data_dir_option
@click.pass_context
def command(ctx: click.Context, as_json: bool, data_dir: str | None) -> None:
    """Check the data folder completely.

    Checks the database, the credits, and the content of every file. Reads all files, so it takes as long as copying
    them. Changes nothing and works beside a running server. Exit code: 0 no problem, 1 at least one problem.
    """
    from imgproc_local.storage.inspection import inspect_folder
    from imgproc_local.system.folder_lock import require_folder

    folder = load_config(ctx, data_dir).data_dir
    require_folder(folder)
    result = inspect_folder(folder, thorough=True)
    checks = list(folder_checks(result, "match their SHA-256"))
    healthy = all(check.state != "problem" for check in checks)
    if as_json:
        problems = [{"area": one.area, "detail": encodable_text(one.detail)} for one in result.problems]
        echo_json({"ok": healthy, "files": result.files, "size_bytes": result.size_bytes, "problems": problems})
    else:
        for line in check_lines(checks):
            click.echo(line)
    ctx.exit(0 if healthy else EXIT_PROBLEM)


def folder_checks(result: Inspection, files_are: str) -> Iterator[Check]:
    """One check for each area. `files_are` says what was checked of the files that are intact."""
    from imgproc_local.storage.schema import SCHEMA

    database = (
        f"schema {result.schema}, intact" if result.schema else "none yet; the first command that needs it makes it"
    )
    if result.schema and result.schema < SCHEMA:
        database = f"schema {result.schema}; the next start updates it to {SCHEMA}, nothing else is checked before"
    intact = {
        "database": database,
        "credits": "every balance equals the sum of its ledger",
        "files": f"{result.files:,} files with {size_text(result.size_bytes)} {files_are}",
    }
    for area in ("database", "credits", "files", "foreign"):
        problems = [problem for problem in result.problems if problem.area == area]
        if problems:
            advice = problems[0].advice or ADVICE[area]
            yield Check(area, "warning" if area == "foreign" else "problem", _shown(problems), advice)
        elif area == "database" or (result.is_complete and area in intact):
            yield Check(area, "ok", intact[area])


def _shown(problems: Sequence[Problem]) -> str:
    more = len(problems) - MAX_SHOWN
    return "; ".join(one.detail for one in problems[:MAX_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")


def check_lines(checks: Sequence[Check]) -> Iterator[str]:
    """One line per result, with its advice below it, and a summary."""
    width = max(len(check.name) for check in checks)
    for check in checks:
        yield f"{check.state:<8} {check.name:<{width}}  {printable(check.detail)}"
        if check.advice:
            yield f"{'':<8} {'':<{width}}  -> {printable(check.advice)}"
    yield ""
    for state in ("problem", "warning"):
        names = [check.name for check in checks if check.state == state]
        if names:
            yield f"{len(names)} {state}{'s' if len(names) > 1 else ''}: {', '.join(names)}."
            return
    yield "No problems found."
