"""`doctor`: what is installed, where the data lies, what is wrong and what to do. It changes and creates nothing.

Every check is one line: ok, warning (works, but look at it) or problem (does not work). No secret is ever shown.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imgproc_local.cli.doctor.check import Check
from imgproc_local.cli.doctor.installation import installation
from imgproc_local.cli.options import air_gapped_option, data_dir_option, load_settings

if TYPE_CHECKING:
    from imgproc_local.config import Config, Loaded
    from imgproc_local.storage.inspection import DatabaseReport, FilesReport
    from imgproc_local.system.folder_lock import Owner
    from imgproc_local.vision.llm.status import ModelStatus

EXIT_PROBLEM = 1
LOW_DISK_BYTES = 1024**3
FULL_DISK_BYTES = 1024**2
"""With less, a sound database can't even be read."""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--report", "as_report", is_flag=True, help="Print a text to send with a question, without secrets.")
@air_gapped_option
@data_dir_option
@click.pass_context
def command(ctx: click.Context, as_json: bool, as_report: bool, data_dir: str | None) -> None:
    """Check the installation and the data folder, and say what to do where something is wrong.

    Changes nothing, also beside a running server. Exit code: 0 all works, 1 there is a problem.
    """
    if as_json and as_report:
        raise click.UsageError("--json and --report print different things: use one of them.")
    checks = [*installation(), *_data(ctx, data_dir)]
    healthy = all(check.state != "problem" for check in checks)
    if as_json:
        from imgproc_local.cli.output import echo_json

        fields = ("name", "state", "detail", "advice")
        echo_json({"ok": healthy, "checks": [{field: getattr(check, field) for field in fields} for check in checks]})
    elif as_report:
        from imgproc_local.cli.doctor.support_report import support_report

        click.echo(support_report(_lines(checks), _loaded(ctx, data_dir)))
    else:
        for line in _lines(checks):
            click.echo(line)
    ctx.exit(0 if healthy else EXIT_PROBLEM)


def _lines(checks: list[Check]) -> Iterator[str]:
    from imgproc_local.cli.output import plain

    width = max(len(check.name) for check in checks)
    for check in checks:
        yield f"{check.state:<8} {check.name:<{width}}  {plain(check.detail)}"
        if check.advice:
            yield f"{'':<8} {'':<{width}}  -> {plain(check.advice)}"
    yield ""
    for state in ("problem", "warning"):
        names = [check.name for check in checks if check.state == state]
        if names:
            yield f"{len(names)} {state}{'s' if len(names) > 1 else ''}: {', '.join(names)}."
            return
    yield "All is well."


# ---- where the data lies ----


def _data(ctx: click.Context, data_dir: str | None) -> Iterator[Check]:
    from imgproc_local.domain.errors import SettingInvalid

    try:
        loaded = load_settings(ctx, data_dir)
    except SettingInvalid as error:
        yield Check("settings", "problem", error.message, "Correct it; without it the data folder can't be looked at.")
        return
    yield _settings(loaded)
    yield from _describer(loaded.config)
    yield _network(loaded.config)
    yield _compression(loaded.config)
    yield from _folder(loaded.config)


def _loaded(ctx: click.Context, data_dir: str | None) -> Loaded | None:
    from imgproc_local.domain.errors import SettingInvalid

    try:
        return load_settings(ctx, data_dir)
    except SettingInvalid:  # told among the checks
        return None


def _settings(loaded: Loaded) -> Check:
    from imgproc_local.config import default_config_path

    changed = sum(origin != "default" for origin in loaded.origins.values())
    usual = default_config_path()
    expected = f"{usual} would be read" if usual else "there is no home folder to look in"
    where = str(loaded.file) if loaded.file else f"no file ({expected})"
    return Check("settings", "ok", f"{where}; {changed} not at their defaults, see `imgproc-local config show`")


def _describer(config: Config) -> Iterator[Check]:
    """Who describes, and how well: told from what is kept beside the models, without loading one."""
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.domain.languages import LANGUAGES
    from imgproc_local.vision.llm.status import model_status
    from imgproc_local.vision.models.store import ModelStore

    models = ModelStore(config.models_folder, config.model_run_options, must_exist=bool(config.models_dir))
    try:
        installed, used = models.names(), model_status(models, config.model)
    except ModelUnusable as error:
        yield Check("describer", "problem", error.message, "Give yourself the right to read it, or set models_dir.")
        return
    if used.model is None:
        detail = f"no model in use: what files say for certain, in {len(LANGUAGES)} languages"
        get = "`imgproc-local models list` shows vision models, `imgproc-local models pull NAME` gets one."
        yield Check("describer", "ok", detail, "`imgproc-local models use NAME` puts one to use." if installed else get)
    elif used.problem is not None:
        advice = "`imgproc-local models list` shows what there is, `models verify NAME` tries one again."
        yield Check("describer", "problem", f"the model {used.model}: {used.problem} The facts are told.", advice)
    else:
        known = "works here" if used.passed_self_test else "not tried on this machine yet; the first picture will"
        yield Check("describer", "ok", f"the model {used.model}, {known}")
        yield _grades(used)


def _grades(used: ModelStatus) -> Check:
    from imgproc_local.domain.languages import LANGUAGES
    from imgproc_local.vision.grading.grade import format_grade

    told = [f"{code} {format_grade(used.grades[code])}" for code in LANGUAGES if code in used.grades]
    missing = len(LANGUAGES) - len(told)
    if missing:
        told.append(f"{missing} languages not checked" if told else "no language was checked")
    advice = f"`imgproc-local models check {used.model}` grades each language." if len(told) == 1 and missing else None
    return Check("grades", "ok", ", ".join(told), advice)


def _network(config: Config) -> Check:
    """In air-gapped mode it is tried to get out, which must fail."""
    if not config.air_gapped:
        return Check("network", "ok", "not air-gapped; only `models pull` and an outside compression service use it")
    from imgproc_local.system import air_gap

    out = air_gap.ways_out()
    if out:
        advice = "Don't rely on air_gapped here, and report this."
        return Check("network", "problem", f"air-gapped, but not refused: {'; '.join(out)}", advice)
    gap = air_gap.kernel_gap()
    if gap is not None:
        detail = f"air-gapped: a connection and a lookup by Python code were refused; C libraries are not held, {gap}"
        return Check("network", "warning", detail, "Hold the program by a firewall as well.")
    return Check("network", "ok", "air-gapped: a connection, a lookup and sockets from C were tried and refused")


def _compression(config: Config) -> Check:
    """Told from the settings and from what the service last said: nothing is contacted."""
    if config.compression_service == "local":
        only = "; air-gapped: no outside service can be configured" if config.air_gapped else ""
        return Check("compression", "ok", f"by the local codecs{only}")
    from imgproc_local.remote.usage import read_usage

    otherwise = "the local codecs where it fails" if config.compression_fallback else "failing where it fails"
    usage = read_usage(config.data_dir)
    count = f"{usage.compressions:,} compressions this month, as of {usage.seen_at}" if usage else "not used yet"
    detail = f"{config.compression_service} at {config.compression_url}, key set, {otherwise}; {count}"
    return Check("compression", "ok", detail)


def _folder(config: Config) -> Iterator[Check]:
    from imgproc_local.system.folder_lock import current_owner

    folder = config.data_dir
    yield _writable(folder)
    yield _disk(folder)
    yield _temporary(folder)
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        return
    owner = current_owner(folder)
    yield _owner(owner)
    yield from _database(folder, owner)


def _writable(folder: Path) -> Check:
    advice = "Give yourself the right to write there, or choose another folder with --data-dir."
    if not os.path.lexists(folder):
        parent = _existing(folder)
        if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
            return Check("data folder", "ok", f"{folder} does not exist yet; the first `serve` or `process` makes it")
        return Check("data folder", "problem", f"{folder} does not exist and can't be made in {parent}", advice)
    if not folder.is_dir():
        return Check("data folder", "problem", f"{folder} is not a folder", "Choose another with --data-dir.")
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        from imgproc_local.system.folder_lock import whose

        return Check("data folder", "problem", f"{folder} can't be written: {error.strerror}{whose(folder)}", advice)
    return Check("data folder", "ok", f"{folder}, can be written")


def _existing(folder: Path) -> Path:
    return next(parent for parent in folder.parents if os.path.lexists(parent))


def _disk(folder: Path) -> Check:
    from imgproc_local.cli.output import size_text

    free = shutil.disk_usage(folder if folder.exists() else _existing(folder)).free
    if free < LOW_DISK_BYTES:
        return Check("disk", "warning", f"only {size_text(free)} free", "Make room before you process much.")
    return Check("disk", "ok", f"{size_text(free)} free")


def _temporary(folder: Path) -> Check:
    from imgproc_local.cli.process.temporary import temporary_folder

    used = temporary_folder(folder)
    named = os.environ.get("TMPDIR")
    if named and used != Path(named).absolute():
        detail = f"{named} (TMPDIR) can't be written; {used} is used for large pictures"
        return Check("temporary", "warning", detail, "Make room there, or let TMPDIR name another folder.")
    return Check("temporary", "ok", f"{used}, can be written")


def _owner(owner: Owner | None) -> Check:
    if owner is None:
        return Check("server", "ok", "none is running on this data folder")
    where = f"{' air-gapped' if owner.air_gapped else ''} at {owner.address}" if owner.address else ""
    return Check(
        "server", "ok", f"`imgproc-local {owner.doing}`{where} runs as process {owner.pid} since {owner.since}"
    )


def _database(folder: Path, owner: Owner | None) -> Iterator[Check]:
    from imgproc_local.cli.output import size_text
    from imgproc_local.compose import DATABASE_FILE
    from imgproc_local.domain.errors import StorageFailed
    from imgproc_local.storage.inspection import inspect_database, inspect_files

    path = folder / DATABASE_FILE
    if not path.is_file():
        yield Check("database", "ok", f"{DATABASE_FILE} does not exist yet; the first command that needs it makes it")
        return
    size = size_text(path.stat().st_size)
    try:
        report = inspect_database(path)
        # files after rows: a file is there before its row, and a row goes before its file
        files = inspect_files(folder)
    except StorageFailed as error:
        full = shutil.disk_usage(folder).free < FULL_DISK_BYTES
        advice = "Make room on the disk and look again." if full else _REPAIR
        yield Check("database", "problem", f"{DATABASE_FILE}, {size}: {error.message}", advice)
        return
    yield _integrity(report, size)
    if report.problems or report.schema != report.newest_schema:
        return
    yield _ledger(report)
    yield _files(report, files, owner, reread=lambda: inspect_database(path).referenced)
    yield Check(
        "jobs", "ok", ", ".join(f"{count:,} {status}" for status, count in sorted(report.jobs.items())) or "none"
    )
    yield Check("keys", "ok", f"{report.keys:,} in force")


_REPAIR = "Stop the server, keep a copy of the data folder, and restore the folder from a backup."


def _integrity(report: DatabaseReport, size: str) -> Check:
    if report.problems:
        return Check("database", "problem", f"{size}, damaged: {'; '.join(report.problems)}", _REPAIR)
    if report.schema > report.newest_schema:
        detail = f"{size}, schema {report.schema}; this program knows {report.newest_schema}"
        return Check("database", "problem", detail, "Use the newer version of the program that wrote it.")
    if report.schema < report.newest_schema:
        detail = f"{size}, schema {report.schema}; the next start brings it to {report.newest_schema}"
        return Check("database", "ok", detail)
    return Check("database", "ok", f"{size}, schema {report.schema}, sound")


def _ledger(report: DatabaseReport) -> Check:
    if not report.unequal:
        return Check("credits", "ok", "every balance is what its ledger adds up to")
    told = "; ".join(f"{one.account!r} has {one.balance:,}, its ledger says {one.moved:,}" for one in report.unequal)
    return Check(
        "credits", "problem", told, "The database was changed by hand or is damaged; restore it from a backup."
    )


def _files(
    report: DatabaseReport, files: FilesReport, owner: Owner | None, reread: Callable[[], frozenset[str]]
) -> Check:
    from imgproc_local.cli.output import size_text

    detail = f"{len(files.sizes):,} stored, {size_text(sum(files.sizes.values()))}"
    missing = report.referenced - files.sizes.keys()
    if missing and owner is not None:
        missing &= reread()  # a job that was deleted while this looked is none of it
    if missing:
        advice = "Restore the folder `files` from a backup, or delete the jobs (DELETE /jobs/{id}) and send them again."
        return Check("files", "problem", f"{detail}; {len(missing):,} that jobs name are missing", advice)
    leftover = len(files.sizes.keys() - report.referenced) + files.incoming
    if leftover and owner is None:
        return Check("files", "warning", f"{detail}; {leftover:,} belong to no job", "The next start removes them.")
    return Check("files", "ok", detail)
