"""`doctor`: checks of the installation, the settings and the data folder. It changes nothing, and writes only a
temporary file to the data folder, as a test.

Each check prints one line: ok, warning (works, but not as well as it could) or problem (does not work). Keys and tokens
are never printed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec.structs import asdict

from imgproc_local.cli.exit_codes import EXIT_PROBLEM
from imgproc_local.cli.installation import installation
from imgproc_local.cli.options import air_gapped_option, data_dir_option, load_settings
from imgproc_local.cli.output import echo_json, printable, size_text
from imgproc_local.cli.verify import Check, check_lines, folder_checks
from imgproc_local.domain.errors import SettingInvalid
from imgproc_local.system.files import encodable_text
from imgproc_local.system.folder_lock import current_owner, foreign_owner_text

if TYPE_CHECKING:
    from imgproc_local.config import Config, Loaded

LOW_DISK_BYTES = 1024**3
EXAMPLE_AGE = timedelta(days=90)
"""While retention is off, the check says how much space this age limit would free."""
LOG_LINES = 200
"""Lines of the log that a report has."""
CLOSING = "Keys, picture names, your name and your folders were replaced. Read the report before you send it."


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--report", "as_report", is_flag=True, help="Print a report for a support request, without secrets.")
@air_gapped_option
@data_dir_option
@click.pass_context
def command(ctx: click.Context, as_json: bool, as_report: bool, data_dir: str | None) -> None:
    """Check the installation and the data folder.

    Prints advice for each problem. Changes nothing and works beside a running server. Exit code: 0 no problem, 1 at
    least one problem.
    """
    if as_json and as_report:
        raise click.UsageError("--json and --report can't be combined: use one of them.")
    frozen = bool(getattr(sys, "frozen", False))
    found = list(installation(frozen=frozen))
    loaded = None
    try:
        loaded = load_settings(ctx, data_dir)
        found += _configured(loaded, frozen)
    except SettingInvalid as error:
        advice = "Correct it. The data folder is not checked until then."
        found.append(Check("settings", "problem", error.message, advice))
    checks = [msgspec.structs.replace(check, detail=encodable_text(check.detail)) for check in found]
    healthy = all(check.state != "problem" for check in checks)
    if as_json:
        echo_json({"ok": healthy, "checks": checks})
    elif as_report:
        click.echo(_support_report(check_lines(checks), loaded))
    else:
        for line in check_lines(checks):
            click.echo(line)
    ctx.exit(0 if healthy else EXIT_PROBLEM)


# ---- settings ----


def _configured(loaded: Loaded, frozen: bool) -> Iterator[Check]:
    """The checks that depend on the settings."""
    from imgproc_local.config import default_config_path

    changed = sum(origin != "default" for origin in loaded.origins.values())
    where = loaded.file or f"no settings file ({default_config_path() or 'this user has no home folder'})"
    counts = f"{changed} of {len(loaded.origins)} settings changed, see `imgproc-local config show`"
    yield Check("settings", "ok", f"{where}; {counts}")
    yield _describer(loaded.config)
    yield _text_reading(loaded.config, frozen)
    yield _network(loaded.config)
    yield _compression(loaded.config)
    yield from _data_folder(loaded.config)


def _describer(config: Config) -> Check:
    """The vision model in use. No model is loaded. If another program runs it, that program is asked."""
    from imgproc_local.compose import model_store, used_model_status
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.vision.models.model import loopback_model

    try:
        installed, used = model_store(config).names(), used_model_status(config)
    except ModelUnusable as error:
        advice = "Connect its drive, change its permissions, or set models_dir to another folder."
        return Check("describer", "problem", error.message, advice)
    if used.model is None:
        use = "Choose one: `imgproc-local models use NAME`."
        pull = "To use a vision model: `imgproc-local models list`, then `imgproc-local models pull NAME`."
        detail = "no vision model in use: pictures are described from metadata"
        return Check("describer", "ok", detail, use if installed else pull)
    if used.problem is not None:
        detail = f"the model {used.model}: {used.problem} Pictures are described from metadata."
        advice = "`imgproc-local models list` shows all models, `imgproc-local models verify NAME` tests one again."
        return Check("describer", "problem", detail, advice)
    if loopback_model(used.model):
        return Check("describer", "ok", f"the model {used.model}, which another program on this machine runs")
    state = "works here" if used.passed_self_test else "not tested on this machine yet; the first picture tests it"
    return Check("describer", "ok", f"the model {used.model}, {state}")


def _text_reading(config: Config, frozen: bool) -> Check:
    """Whether the libraries and the networks that read text in pictures are installed; a frozen program has none."""
    from imgproc_local.domain.errors import how_to_install
    from imgproc_local.vision.ocr.model_files import SCRIPTS, installed_folder, runtime_is_installed

    has_libraries, has_networks = runtime_is_installed(), installed_folder(config.models_folder) is not None
    if frozen:
        return Check("text", "ok", "text in pictures is not read: this program does not include it")
    if has_libraries and has_networks:
        return Check("text", "ok", f"text in pictures is read: {SCRIPTS}")
    missing = [name for name, has in (("libraries", has_libraries), ("neural networks", has_networks)) if not has]
    advice = {
        "libraries": how_to_install("ocr"),
        "neural networks": "Run `imgproc-local models pull ocr`, or `models import` with the wheel of rapidocr.",
    }
    detail = f"text in pictures is not read: its {' and '.join(missing)} are missing"
    return Check("text", "warning" if len(missing) == 1 else "ok", detail, " ".join(advice[name] for name in missing))


def _network(config: Config) -> Check:
    """In air-gapped mode, try to open connections, all of which must fail."""
    if not config.air_gapped:
        detail = "not air-gapped; used only to install models and by an external compression service"
        return Check("network", "ok", detail)
    from imgproc_local.system import air_gap

    if leaks := air_gap.find_leaks():
        advice = "Don't rely on air_gapped on this system, and report this problem."
        return Check("network", "problem", f"air-gapped, but not everything was blocked: {'; '.join(leaks)}", advice)
    if (seccomp_error := air_gap.seccomp_error()) is not None:
        refused = "a connection and a lookup were refused"
        detail = f"air-gapped for Python code: {refused}; not for C libraries: {seccomp_error}"
        return Check("network", "warning", detail, "Block the program in a firewall as well.")
    return Check("network", "ok", "air-gapped: a connection, a lookup and sockets of C code were tried and refused")


def _compression(config: Config) -> Check:
    """The service in use and the count that it last reported; it is not contacted."""
    if config.compression_service == "local":
        only = "; air-gapped: an external service is refused" if config.air_gapped else ""
        return Check("compression", "ok", f"by the local codecs{only}")
    from imgproc_local.remote.usage import read_usage

    usage = read_usage(config.data_dir)
    count = f"{usage.compressions:,} compressions this month, as of {usage.seen_at}" if usage else "not used yet"
    detail = f"{config.compression_service} at {config.compression_url}, key set, local codecs as fallback; {count}"
    return Check("compression", "ok", detail)


# ---- data folder ----


def _data_folder(config: Config) -> Iterator[Check]:
    """Check the data folder without changing it, also beside a running server."""
    from imgproc_local.storage.inspection import inspect_folder

    folder = config.data_dir
    access = _access(folder)
    yield access
    free = shutil.disk_usage(_existing(folder)).free
    if free < LOW_DISK_BYTES:
        advice = "Free some disk space before you process many pictures."
        yield Check("disk", "warning", f"only {size_text(free)} free", advice)
    else:
        yield Check("disk", "ok", f"{size_text(free)} free")
    if not folder.is_dir() or not _is_readable(folder):
        return
    yield _server(folder)
    result = inspect_folder(folder, thorough=False)
    yield from folder_checks(result, "are there; `imgproc-local verify` also checks their content")
    if result.is_complete:
        jobs = ", ".join(f"{count:,} {status}" for status, count in sorted(result.jobs.items()))
        yield Check("jobs", "ok", jobs or "none")
        yield Check("keys", "ok", f"{result.keys:,} active")
        yield _retention(config)


def _access(folder: Path) -> Check:
    advice = "Change its permissions, or choose another folder with --data-dir."
    if not os.path.lexists(folder):
        parent = _existing(folder)
        if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
            return Check("data folder", "ok", f"{folder} does not exist yet; the first `serve` or `process` creates it")
        return Check("data folder", "problem", f"{folder} does not exist and can't be created in {parent}", advice)
    if not folder.is_dir():
        return Check("data folder", "problem", f"{folder} is not a folder", "Choose a folder with --data-dir.")
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        detail = f"{folder} can't be written: {error.strerror}{foreign_owner_text(folder)}"
        return Check("data folder", "problem", detail, advice)
    if not _is_readable(folder):
        return Check("data folder", "problem", f"{folder} can't be read{foreign_owner_text(folder)}", advice)
    return Check("data folder", "ok", f"{folder}, writable")


def _is_readable(folder: Path) -> bool:
    return os.access(folder, os.R_OK | os.X_OK)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.parents) if os.path.lexists(path))


def _server(folder: Path) -> Check:
    owner = current_owner(folder)
    if owner is None:
        return Check("server", "ok", "none runs on this data folder")
    where = f"{' air-gapped' if owner.air_gapped else ''} at {owner.address}" if owner.address else ""
    detail = f"`imgproc-local {owner.doing}`{where} has run as process {owner.pid} since {owner.since}"
    return Check("server", "ok", detail)


def _retention(config: Config) -> Check:
    from imgproc_local.compose import max_age
    from imgproc_local.storage.database import utc_now
    from imgproc_local.storage.inspection import DATABASE_FILE, removable
    from imgproc_local.storage.retention import MaxAge

    age = max_age(config)
    found = removable(config.data_dir / DATABASE_FILE, age if age.is_limited else MaxAge(EXAMPLE_AGE), utc_now())
    if not age.is_limited:
        detail = f"off; removing jobs older than {EXAMPLE_AGE.days} days would free {size_text(found.size_bytes)}"
    else:
        limits = ", ".join(f"{kind} after {limit.days} days" for kind, limit in asdict(age).items() if limit)
        detail = f"removes {limits}; would remove {found.jobs:,} jobs and free {size_text(found.size_bytes)} now"
    return Check("retention", "ok", detail)


# ---- the report for a support request ----


def _support_report(lines: Iterable[str], loaded: Loaded | None) -> str:
    """The checks, the changed settings and the end of the log, without secrets and private names.

    `loaded` is None if the settings are invalid.
    """
    from imgproc_local.cli.redaction import Redaction

    config = loaded.config if loaded else None
    redacted = Redaction(config, _picture_names(config) if config else (), loaded.file if loaded else None)
    parts = ["imgproc-local doctor --report", *lines]
    if loaded is not None:
        parts += ["", "Settings changed from their defaults:", *_changed(loaded)]
        parts += ["", f"The last {LOG_LINES} lines of the log:", *_log(loaded.config)]
    text = redacted("\n".join(parts))
    return f"{text}\n\n{CLOSING}"


def _changed(loaded: Loaded) -> Iterator[str]:
    from imgproc_local.config import shown_settings

    for setting in shown_settings(loaded.config, loaded.origins):
        if setting.source == "default":
            continue
        value = setting.value
        # a string is not written as JSON: the redaction would not find a folder with escaped characters
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        yield f"{setting.name} = {printable(text)}  ({setting.source})"


def _log(config: Config) -> Iterator[str]:
    from imgproc_local.cli.log_file import last_lines

    try:
        lines = last_lines(config.data_dir, LOG_LINES)
    except OSError as error:
        yield f"The log can't be read ({error.strerror})."
        return
    yield from map(printable, lines)


def _picture_names(config: Config) -> frozenset[str]:
    from imgproc_local.domain.errors import StorageFailed
    from imgproc_local.storage.inspection import DATABASE_FILE, picture_names

    path = config.data_dir / DATABASE_FILE
    try:
        return picture_names(path) if path.is_file() else frozenset()
    except (StorageFailed, OSError):  # reported as a check
        return frozenset()
