"""The command `process`: runs the engine of the API without a server, and writes the results to a folder."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from imgproc_local.cli.exit_codes import EXIT_INTERRUPTED, EXIT_PROBLEM, EXIT_REFUSED, Refused, exit_command
from imgproc_local.cli.languages import language_codes
from imgproc_local.cli.names import checked_name
from imgproc_local.cli.options import air_gapped_option, data_dir_option, load_config
from imgproc_local.cli.output import path_text, printable
from imgproc_local.domain.quality import Effort

if TYPE_CHECKING:
    from imgproc_local.cli.process.batch import Outcome
    from imgproc_local.cli.process.discovery import Discovery
    from imgproc_local.cli.process.results import Results
    from imgproc_local.compose import Services
    from imgproc_local.config import Config
    from imgproc_local.domain.plan import Plan


def _language_codes(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """A click callback: `language_codes`, with the API's maximum number of languages per picture."""
    from imgproc_local.domain.plan import MAX_LANGUAGES

    codes = language_codes(ctx, parameter, value)
    if len(codes) > MAX_LANGUAGES:
        raise click.BadParameter(f"expected at most {MAX_LANGUAGES} languages, received {len(codes)}.")
    return codes


def _checked_context(_ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    """A click callback: the text without surrounding white space, with the API's maximum length."""
    from imgproc_local.domain.plan import MAX_CONTEXT_CHARS

    value = value.strip()
    if len(value) > MAX_CONTEXT_CHARS:
        raise click.BadParameter(f"expected at most {MAX_CONTEXT_CHARS} characters, received {len(value)}.")
    return value


@click.command("process")
@click.argument(
    "paths", metavar="FILE|FOLDER...", nargs=-1, required=True, type=click.Path(readable=False, path_type=Path)
)
@click.option(
    "--languages",
    metavar="CODES",
    callback=_language_codes,
    default="en",
    show_default=True,
    help="Write alt texts in these languages, such as en,de. The file names are in the first one.",
)
@click.option(
    "--format",
    "convert_to",
    type=click.Choice(("webp", "avif"), case_sensitive=False),
    default="webp",
    show_default=True,
    help="Convert to this format.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default="imgproc-out",
    show_default=True,
    help="Write the results to this folder, and create it if needed.",
)
@click.option(
    "--effort",
    type=click.Choice(get_args(Effort), case_sensitive=False),
    help="Trade CPU time for file size at the same quality.  [default: the setting effort]",
)
@click.option("--json", "as_json", is_flag=True, help="Print only a JSON array with one object per file.")
@click.option(
    "--project",
    metavar="NAME",
    callback=checked_name,
    help="Use this name as the project and as context for the alt texts.",
)
@click.option(
    "--context",
    metavar="TEXT",
    callback=_checked_context,
    default="",
    help="Say what page or article the pictures are for, in at most 500 characters. The vision model reads it; it is"
    " deleted with the job.",
)
@air_gapped_option
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    languages: tuple[str, ...],
    convert_to: str,
    out: Path,
    effort: Effort | None,
    as_json: bool,
    project: str | None,
    context: str,
    data_dir: str | None,
) -> None:
    """Optimize, convert, rename and describe pictures.

    Takes JPEG, PNG, GIF and WebP files and folders, which are searched recursively; hidden files and links to folders
    in them are skipped. Writes two files per picture to the --out folder: the optimized picture in its own format, and
    the converted one. Both get the SEO file name; the alt texts are printed. Existing files are never overwritten: if a
    name is taken, -2, -3 … is added. The pictures themselves are not changed. Pictures of which nothing but the colours
    is known are listed first: their alt texts need your words.

    The work costs credits of the account "default". After the command, also after Ctrl+C, the data folder
    contains neither the pictures nor their jobs.

    Exit code: 0 every picture is done, 1 some files failed, 2 no file can be processed, 130 interrupted.
    """
    from imgproc_local.cli.process.discovery import find_pictures

    config = load_config(ctx, data_dir, effort=effort)
    discovery = find_pictures(paths, exclude=(out, config.data_dir))
    if not discovery.pictures and not discovery.failed:
        _refuse_empty(paths, len(discovery.skipped))
    run = _Run(config, discovery, languages, convert_to, out, project, context)
    try:
        asyncio.run(run.process())
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        exit_command(ctx, EXIT_INTERRUPTED, has_unstopped_threads=False)
    _report(run, as_json)
    exit_command(ctx, run.exit_code, run.has_unstopped_threads)


class _Run:
    """One invocation of the command: its arguments and, after `process`, its results."""

    def __init__(
        self,
        config: Config,
        discovery: Discovery,
        languages: tuple[str, ...],
        convert_to: str,
        out: Path,
        project: str | None,
        context: str,
    ) -> None:
        self.config = config
        self.discovery = discovery
        self.convert_to = convert_to
        self.out = out
        self.plan = _plan(languages, convert_to, project, context)
        self.outcomes: list[Outcome] = []
        self.stop_reason: str | None = None
        self.has_unstopped_threads = False

    async def process(self) -> None:
        """Process every picture. Raises: ServiceError or Refused before anything is done."""
        from imgproc_local.compose import open_services
        from imgproc_local.domain.errors import DataFolderBusy

        if not self.discovery.pictures:
            return
        try:
            async with open_services(self.config, "process") as services:
                await self._process(services)
            self.has_unstopped_threads = services.engine.has_unstopped_threads
        except DataFolderBusy as error:
            raise Refused(error.message + _how_to_use_server(self.config)) from error

    async def _process(self, services: Services) -> None:
        from imgproc_local.cli.process.batch import Batch
        from imgproc_local.cli.process.results import Results
        from imgproc_local.cli.progress import StageProgress, log_above

        account_id = await services.store.keys.account_id(create=True)
        await _require_credits(services, account_id, len(self.discovery.pictures), self.plan)
        await _report_leftover_jobs(services)
        results = Results(self.out)
        _create_folder(results, self.out)
        progress = StageProgress(len(self.discovery.pictures), sys.stderr)
        batch = Batch(services, account_id, self.plan, results, progress)
        with log_above(progress.line):
            try:
                self.outcomes = await batch.run(self.discovery.pictures)
            finally:
                progress.clear()
        self.stop_reason = batch.stop_reason

    @property
    def is_unfinished(self) -> bool:
        return any(outcome.interrupted for outcome in self.outcomes) or len(self.outcomes) < len(
            self.discovery.pictures
        )

    @property
    def exit_code(self) -> int:
        from imgproc_local.cli.process.batch import INTERRUPTED

        if not self.discovery.pictures:
            return EXIT_REFUSED
        if self.stop_reason == INTERRUPTED and self.is_unfinished:
            return EXIT_INTERRUPTED
        return 0 if all(outcome.done for outcome in self.outcomes) and not self.discovery.failed else EXIT_PROBLEM


def _plan(languages: tuple[str, ...], convert_to: str, project: str | None, context: str) -> Plan:
    from imgproc_local.domain.image import Format
    from imgproc_local.domain.plan import DEFAULT_PROJECT_NAME, Operation, Plan

    return Plan(
        Operation.PROCESS,
        languages,
        Format(convert_to),
        project_name=project or DEFAULT_PROJECT_NAME,
        context=context,
    )


def _refuse_empty(paths: tuple[Path, ...], skipped: int) -> None:
    where = ", ".join(printable(path_text(path)) for path in paths)
    others = f", only {skipped:,} other file{'s' if skipped != 1 else ''}" if skipped else ""
    raise Refused(f"Expected JPEG, PNG, GIF or WebP pictures, but there are none in {where}{others}.")


async def _require_credits(services: Services, account_id: str, pictures: int, plan: Plan) -> None:
    """Check before the first picture that the balance suffices for all of them. Raises: InsufficientCredits."""
    from imgproc_local.domain.errors import InsufficientCredits
    from imgproc_local.storage.accounts import DEFAULT_ACCOUNT

    balance = await services.store.credits.balance(account_id)
    affordability = services.engine.affordability(pictures, len(plan.languages), balance)
    if not affordability.can_afford:
        raise InsufficientCredits(affordability.required, balance, DEFAULT_ACCOUNT)


async def _report_leftover_jobs(services: Services) -> None:
    async with services.store.database.reading() as read:
        waiting = int(await read.value("count_open_jobs"))
    if waiting:
        click.echo(f"Unfinished jobs in the data folder: {waiting:,}. They are processed too.", err=True)


def _create_folder(results: Results, out: Path) -> None:
    try:
        results.create_folder()
    except OSError as error:
        raise Refused(
            f"The output folder {printable(path_text(out))} can't be written ({error.strerror})."
            " Choose another folder with --out."
        ) from error


def _how_to_use_server(config: Config) -> str:
    """Instructions for sending pictures to the server that uses the data folder; empty if no server uses it."""
    from imgproc_local.system.folder_lock import current_owner

    owner = current_owner(config.data_dir)
    if owner is None or owner.address is None:
        return ""
    return (
        "\nTo send a picture to it:\n"
        f'  curl -H "Authorization: Bearer KEY" -F image=@FILE -F languages=en {owner.address}/api/v1/images/process\n'
        "To create a KEY: imgproc-local keys create --name NAME"
    )


def _report(run: _Run, as_json: bool) -> None:
    from imgproc_local.cli.output import echo_json
    from imgproc_local.cli.process.report import entries, problems, summary

    discovery = run.discovery
    if as_json:
        echo_json(entries(run.outcomes, discovery.failed, discovery.skipped, run.config.status_set))
    else:
        for line in summary(run.outcomes, run.convert_to, run.out):
            click.echo(line)
    for line in problems(run.outcomes, discovery.failed, discovery.skipped):
        click.echo(line, err=True)
    if run.stop_reason is not None and run.is_unfinished:
        done = sum(outcome.done for outcome in run.outcomes)
        rest = "; the other pictures are no longer queued" if run.exit_code == EXIT_INTERRUPTED else ""
        click.echo(f"{run.stop_reason} {done:,} of {len(discovery.pictures):,} pictures are done{rest}.", err=True)
