"""`process`: files and folders through the same engine as the API's, in this process, and the results written out."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imgproc_local.cli.names import checked_name
from imgproc_local.cli.options import air_gapped_option, data_dir_option, load_config

if TYPE_CHECKING:
    from imgproc_local.cli.process.batch import Outcome
    from imgproc_local.cli.process.discovery import Found
    from imgproc_local.cli.process.results import Results
    from imgproc_local.compose import Services
    from imgproc_local.config import Config
    from imgproc_local.domain.plan import Plan

EXIT_SOME_FAILED = 1
EXIT_INTERRUPTED = 130
"""What a shell expects of a program that Ctrl+C ended: 128 and the signal's number."""


def _language_codes(_ctx: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Codes with commas between them. Duplicates are removed, the order is kept."""
    from imgproc_local.domain.languages import LANGUAGES
    from imgproc_local.domain.plan import MAX_LANGUAGES

    codes = tuple(dict.fromkeys(code.strip().lower() for code in value.split(",") if code.strip()))
    if not codes:
        raise click.BadParameter("expected language codes with commas between them, such as en,de; none came.")
    for code in codes:
        if code not in LANGUAGES:
            hint = _nearest(code)
            raise click.BadParameter(f"{code!r} is no language offered.{hint} All: {', '.join(LANGUAGES)}.")
    if len(codes) > MAX_LANGUAGES:
        raise click.BadParameter(f"expected at most {MAX_LANGUAGES} languages, but {len(codes)} came.")
    return codes


def _nearest(code: str) -> str:
    """A hint at the language that may be meant: by its name, or by a code with a region."""
    import difflib

    from imgproc_local.domain.languages import LANGUAGES

    names = {name.lower(): known.code for known in LANGUAGES.values() for name in (known.name, known.native_name)}
    names |= {known: known for known in LANGUAGES}
    near = code[:2] if code[2:3] in ("-", "_") and code[:2] in LANGUAGES else None
    if near is None:
        close = difflib.get_close_matches(code, names, n=1)
        near = names[close[0]] if close else None
    return f" Did you mean {near} ({LANGUAGES[near].name})?" if near else ""


@click.command("process")
@click.argument(
    "sources", metavar="FILE|FOLDER...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--languages",
    metavar="CODES",
    callback=_language_codes,
    default="en",
    show_default=True,
    help="Languages of the alt texts, such as en,de; the first one also names the files.",
)
@click.option(
    "--format",
    "convert_to",
    type=click.Choice(("webp", "avif"), case_sensitive=False),
    default="webp",
    show_default=True,
    help="Format to convert to.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default="imgproc-out",
    show_default=True,
    help="Folder for the results; made where it is new.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array with an object per file, nothing else.")
@click.option(
    "--project", metavar="NAME", callback=checked_name, help="Name of the project; describers may use it as context."
)
@air_gapped_option
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    sources: tuple[Path, ...],
    languages: tuple[str, ...],
    convert_to: str,
    out: Path,
    as_json: bool,
    project: str | None,
    data_dir: str | None,
) -> None:
    """Give pictures SEO file names and alt texts, and make them smaller.

    Takes JPEG, PNG, GIF and WebP files, and folders with all that is in them; hidden files and links to folders are
    passed over. Each picture is written twice to the --out folder: optimized in its own format, and converted. No file
    is ever overwritten: where a name is taken, -2, -3 … is added. The pictures themselves stay as they are.

    The work costs credits of the account "default". Once the results are written, the data folder keeps nothing of the
    pictures. After Ctrl+C nothing stays queued either.

    Exit code: 0 all done, 1 some files failed, 2 refused before anything was done, 130 interrupted.
    """
    from imgproc_local.cli.process.discovery import find_pictures

    config = load_config(ctx, data_dir)
    found = find_pictures(sources, avoid=(out, config.data_dir))
    if not found.pictures and not found.failed:
        _refuse_empty(sources, len(found.skipped))
    try:
        run = _Run(config, found, languages, convert_to, out, project)
        asyncio.run(run.all())
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        _leave(ctx, EXIT_INTERRUPTED, abandoned_threads=0)
    _tell(run, as_json)
    _leave(ctx, run.exit_code, run.abandoned_threads)


class _Run:
    """What one call does, and what came of it."""

    def __init__(
        self,
        config: Config,
        found: Found,
        languages: tuple[str, ...],
        convert_to: str,
        out: Path,
        project: str | None,
    ) -> None:
        self.config = config
        self.found = found
        self.convert_to = convert_to
        self.out = out
        self.plan = _plan(languages, convert_to, project)
        self.outcomes: list[Outcome] = []
        self.stopped: str | None = None
        self.abandoned_threads = 0

    async def all(self) -> None:
        """Work on every picture found. Raises `ServiceError`; nothing was done then."""
        from imgproc_local.cli.exit_codes import Refused
        from imgproc_local.cli.temporary_folder import use_temporary_folder
        from imgproc_local.compose import open_services
        from imgproc_local.domain.errors import DataFolderBusy

        if not self.found.pictures:
            return
        try:
            async with open_services(self.config, "process") as services:
                use_temporary_folder(self.config.data_dir)
                await self._on(services)
            self.abandoned_threads = services.engine.abandoned_threads
        except DataFolderBusy as error:
            raise Refused(error.message + _how_to_go_on(self.config)) from error

    async def _on(self, services: Services) -> None:
        from imgproc_local.cli.process.batch import Batch
        from imgproc_local.cli.process.results import Results
        from imgproc_local.cli.progress import Progress

        account_id = await services.store.keys.account_id(create=True)
        await _require_credits(services, account_id, len(self.found.pictures), self.plan)
        await _tell_leftovers(services)
        results = Results(self.out)
        _open(results, self.out)
        progress = Progress(len(self.found.pictures), sys.stderr)
        batch = Batch(services, account_id, self.plan, results, progress)
        try:
            self.outcomes = await batch.run(self.found.pictures)
        finally:
            progress.clear()
        self.stopped = batch.stopped

    @property
    def interrupted(self) -> bool:
        return any(outcome.interrupted for outcome in self.outcomes) or len(self.outcomes) < len(self.found.pictures)

    @property
    def exit_code(self) -> int:
        from imgproc_local.cli.process.batch import INTERRUPTED

        if self.stopped == INTERRUPTED and self.interrupted:
            return EXIT_INTERRUPTED
        return 0 if all(outcome.done for outcome in self.outcomes) and not self.found.failed else EXIT_SOME_FAILED


def _plan(languages: tuple[str, ...], convert_to: str, project: str | None) -> Plan:
    from imgproc_local.domain.image import Format
    from imgproc_local.domain.plan import DEFAULT_PROJECT_NAME, Operation, Plan

    return Plan(Operation.PROCESS, languages, Format(convert_to), project_name=project or DEFAULT_PROJECT_NAME)


def _refuse_empty(sources: tuple[Path, ...], skipped: int) -> None:
    from imgproc_local.cli.exit_codes import Refused
    from imgproc_local.cli.output import path_text, printable

    where = ", ".join(printable(path_text(source)) for source in sources)
    beside = f" ({skipped:,} other file{'s' if skipped != 1 else ''} there)" if skipped else ""
    raise Refused(f"Expected JPEG, PNG, GIF or WebP pictures, but there is none in {where}{beside}.")


async def _require_credits(services: Services, account_id: str, pictures: int, plan: Plan) -> None:
    """Refuse the whole run rather than stop in its middle."""
    from imgproc_local.domain.errors import InsufficientCredits
    from imgproc_local.storage.accounts import DEFAULT_ACCOUNT

    balance = await services.store.credits.balance(account_id)
    needed = services.engine.affordability(pictures, len(plan.languages), balance)
    if not needed.can_afford:
        raise InsufficientCredits(needed.required, balance, DEFAULT_ACCOUNT)


async def _tell_leftovers(services: Services) -> None:
    async with services.store.database.reading() as read:
        waiting = int(await read.value("count_open_jobs"))
    if waiting:
        click.echo(
            f"Unfinished jobs that were in the data folder before: {waiting:,}. They are worked on too.", err=True
        )


def _open(results: Results, out: Path) -> None:
    from imgproc_local.cli.exit_codes import Refused
    from imgproc_local.cli.output import path_text, printable

    try:
        results.open_folder()
    except OSError as error:
        raise Refused(
            f"The output folder {printable(path_text(out))} can't be written ({error.strerror})."
            " Choose another folder with --out."
        ) from error


def _how_to_go_on(config: Config) -> str:
    from imgproc_local.system.folder_lock import current_owner

    owner = current_owner(config.data_dir)
    if owner is None or owner.address is None:
        return ""
    return (
        "\nTo send a picture to it:\n"
        f'  curl -H "Authorization: Bearer KEY" -F image=@FILE -F languages=en {owner.address}/api/v1/images/process\n'
        "A KEY for it: imgproc-local keys create --name NAME"
    )


def _tell(run: _Run, as_json: bool) -> None:
    from imgproc_local.cli.output import echo_json
    from imgproc_local.cli.process.report import entries, problems, summary

    found = run.found
    if as_json:
        echo_json(entries(run.outcomes, found.failed, found.skipped, run.config.status_set))
    else:
        for line in summary(run.outcomes, run.convert_to, run.out):
            click.echo(line)
    for line in problems(run.outcomes, found.failed, found.skipped):
        click.echo(line, err=True)
    if run.stopped is not None and run.interrupted:
        done = sum(outcome.done for outcome in run.outcomes)
        rest = "; nothing of the others stays queued" if run.exit_code == EXIT_INTERRUPTED else ""
        click.echo(f"{run.stopped} {done:,} of {len(found.pictures):,} pictures are done{rest}.", err=True)


def _leave(ctx: click.Context, exit_code: int, abandoned_threads: int) -> None:
    if abandoned_threads:
        # a codec that reacts to nothing would hold up the interpreter's exit
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)
    ctx.exit(exit_code)
