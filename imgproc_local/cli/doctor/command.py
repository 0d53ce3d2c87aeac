"""`doctor`: checks of the installation, the settings and the data folder. It changes nothing, and writes only a
temporary file to the data folder, as a test.

Each check prints one line: ok, warning (works, but not as well as it could) or problem (does not work). Keys and tokens
are never printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from imgproc_local.cli.doctor.check import Check, check_lines
from imgproc_local.cli.doctor.data_folder import data_folder
from imgproc_local.cli.doctor.installation import installation
from imgproc_local.cli.doctor.text_reading import text_reading
from imgproc_local.cli.exit_codes import EXIT_PROBLEM
from imgproc_local.cli.options import air_gapped_option, data_dir_option, load_settings
from imgproc_local.system.files import encodable_text

if TYPE_CHECKING:
    from imgproc_local.config import Config, Loaded


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
    checks = [
        msgspec.structs.replace(check, detail=encodable_text(check.detail))
        for check in (*installation(frozen=frozen), *_configured(ctx, data_dir))
    ]
    healthy = all(check.state != "problem" for check in checks)
    if as_json:
        from imgproc_local.cli.output import echo_json

        echo_json({"ok": healthy, "checks": checks})
    elif as_report:
        from imgproc_local.cli.doctor.support_report import support_report

        click.echo(support_report(check_lines(checks), _valid_settings(ctx, data_dir)))
    else:
        for line in check_lines(checks):
            click.echo(line)
    ctx.exit(0 if healthy else EXIT_PROBLEM)


def _configured(ctx: click.Context, data_dir: str | None) -> Iterator[Check]:
    """The checks that depend on the settings."""
    from imgproc_local.domain.errors import SettingInvalid

    try:
        loaded = load_settings(ctx, data_dir)
    except SettingInvalid as error:
        yield Check("settings", "problem", error.message, "Correct it. The data folder is not checked until then.")
        return
    yield _settings(loaded)
    yield from _describer(loaded.config)
    yield text_reading(loaded.config, frozen=bool(getattr(sys, "frozen", False)))
    yield _network(loaded.config)
    yield _compression(loaded.config)
    yield from data_folder(loaded.config)


def _valid_settings(ctx: click.Context, data_dir: str | None) -> Loaded | None:
    """The settings; None if they are invalid, which a check reports."""
    from imgproc_local.domain.errors import SettingInvalid

    try:
        return load_settings(ctx, data_dir)
    except SettingInvalid:
        return None


def _settings(loaded: Loaded) -> Check:
    from imgproc_local.config import default_config_path

    changed = sum(origin != "default" for origin in loaded.origins.values())
    default = default_config_path()
    expected = f"{default} does not exist" if default else "this user has no home folder"
    where = str(loaded.file) if loaded.file else f"no settings file ({expected})"
    return Check(
        "settings",
        "ok",
        f"{where}; {changed} of {len(loaded.origins)} settings changed, see `imgproc-local config show`",
    )


def _describer(config: Config) -> Iterator[Check]:
    """The vision model in use. No model is loaded. If another program runs it, that program is asked."""
    from imgproc_local.compose import model_store, used_model_status
    from imgproc_local.domain.errors import ModelUnusable
    from imgproc_local.domain.languages import LANGUAGES
    from imgproc_local.vision.models.model import loopback_model

    try:
        installed, used = model_store(config).names(), used_model_status(config)
    except ModelUnusable as error:
        advice = "Connect its drive, change its permissions, or set models_dir to another folder."
        yield Check("describer", "problem", error.message, advice)
        return
    if used.model is None:
        detail = f"no vision model in use: pictures are described from metadata, in {len(LANGUAGES)} languages"
        use = "Choose one: `imgproc-local models use NAME`."
        pull = "To use a vision model: `imgproc-local models list`, then `imgproc-local models pull NAME`."
        yield Check("describer", "ok", detail, use if installed else pull)
    elif used.problem is not None:
        detail = f"the model {used.model}: {used.problem} Pictures are described from metadata."
        advice = "`imgproc-local models list` shows all models, `imgproc-local models verify NAME` tests one again."
        yield Check("describer", "problem", detail, None if loopback_model(used.model) else advice)
    elif loopback_model(used.model):
        yield Check("describer", "ok", f"the model {used.model}, which another program on this machine runs")
    else:
        state = "works here" if used.passed_self_test else "not tested on this machine yet; the first picture tests it"
        yield Check("describer", "ok", f"the model {used.model}, {state}")


def _network(config: Config) -> Check:
    """In air-gapped mode, try to open connections, all of which must fail."""
    if not config.air_gapped:
        detail = "not air-gapped; used only to install models and by an external compression service"
        return Check("network", "ok", detail)
    from imgproc_local.system import air_gap

    leaks = air_gap.find_leaks()
    if leaks:
        advice = "Don't rely on air_gapped on this system, and report this problem."
        return Check("network", "problem", f"air-gapped, but not everything was blocked: {'; '.join(leaks)}", advice)
    seccomp_error = air_gap.seccomp_error()
    if seccomp_error is not None:
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
