"""`doctor` and `verify`: checks of the installation, the settings and the data folder. Neither changes anything.

`verify` makes every check of the data folder, including the content of each file; `doctor` makes the quick ones. Each
check prints one line: ok, warning (works, but not as well as it could) or problem (does not work). Keys and tokens are
never printed.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import click
from msgspec import Struct
from msgspec.structs import replace

from imgproc_local import __version__
from imgproc_local.cli.help import Command
from imgproc_local.cli.options import general_options, load_settings, with_config
from imgproc_local.cli.output import EXIT_PROBLEM, echo_json, printable, say, size_text, with_data_dir
from imgproc_local.codecs.picture.formats import FORMATS, HOW_TO_INSTALL_HEIC, can_decode_heic, can_use_jxl
from imgproc_local.compose import used_model_status
from imgproc_local.config import Config, Loaded, default_config_path
from imgproc_local.domain.errors import ModelUnusable, SettingInvalid, how_to_install
from imgproc_local.domain.image import READ_ONLY_FORMATS
from imgproc_local.storage.database import SCHEMA
from imgproc_local.storage.inspection import Inspection, Problem, inspect_folder
from imgproc_local.system import air_gap
from imgproc_local.system.files import encodable_text
from imgproc_local.system.folder_lock import current_owner, foreign_owner_text, require_folder
from imgproc_local.vision.models import networks, store
from imgproc_local.vision.models.model import loopback_model

_State = Literal["ok", "warning", "problem"]

_MAX_SHOWN = 5
"""The most problems of one area that are printed; `verify --json` lists all that were found."""
_ADVICE = {
    "database": "Stop the server, move the data folder away, and restore a backup (`imgproc-local restore FILE`)."
    " Without a backup, keep the moved folder and begin with a new one.",
    "credits": "The database was damaged, or changed by another program: restore a backup (`imgproc-local restore"
    " FILE`).",
    "files": "Send the same pictures again, which repairs the files; or restore a backup (`imgproc-local restore"
    " FILE`); or delete the jobs (DELETE /jobs/{id}).",
    "foreign": "The next start deletes such files in `incoming` and the folders of `files`; delete others yourself.",
}
"""What to do about the problems of an area of the data folder."""


class Check(Struct, frozen=True):
    """The result of one check: `detail` is what was found, `advice` what the user can do, None if nothing.

    A `warning` is about something that works, but not as well as it could; a `problem` about something that does not.
    """

    name: str
    state: _State
    detail: str
    advice: str | None = None


@click.command("doctor", cls=Command)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@general_options
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check the installation and the data folder.

    Prints advice for each problem. Changes nothing and works beside a running server.

    Exit code: 0 no problem, 1 at least one problem.

    Examples:
      imgproc-local --air-gapped doctor
    """
    found = [*installation()]
    try:
        found += _configured(load_settings(ctx))
    except SettingInvalid as error:
        advice = "Correct it. The data folder is not checked until then."
        found.append(Check("settings", "problem", error.message, advice))
    checks = [
        replace(check, detail=encodable_text(check.detail), advice=check.advice and with_data_dir(check.advice))
        for check in found
    ]
    _report(checks, {"checks": checks} if as_json else None)


@click.command("verify", cls=Command)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every problem.")
@with_config
def verify(config: Config, as_json: bool) -> None:
    """Check the data folder completely.

    Checks the database, the credits, and the content of every file. Reads all files, so it takes as long as copying
    them. Changes nothing and works beside a running server.

    Exit code: 0 no problem, 1 at least one problem.

    Examples:
      imgproc-local verify --json
    """

    folder = config.data_dir
    require_folder(folder)
    result = inspect_folder(folder, thorough=True)
    checks = list(_inspected(result, "match their SHA-256"))
    problems = [{"area": one.area, "detail": encodable_text(one.detail)} for one in result.problems]
    found = {"files": result.files, "size_bytes": result.size_bytes, "problems": problems}
    _report(checks, found if as_json else None)


def _report(checks: Sequence[Check], document: dict[str, Any] | None) -> NoReturn:
    """Print the results for people, or `document` for programs, and end the command."""
    are_healthy = all(check.state != "problem" for check in checks)
    if document is None:
        say("\n".join(_lines(checks)))
    else:
        echo_json({"ok": are_healthy, **document})
    click.get_current_context().exit(0 if are_healthy else EXIT_PROBLEM)


def _lines(checks: Sequence[Check]) -> Iterator[str]:
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


# ---- the program and its libraries ----


def installation() -> Iterator[Check]:
    """The checks that need no settings. In a frozen program, pip can't change the libraries."""
    advice = "Install imgproc-local again with all its packages; from source, that needs a C compiler."
    if networks.is_frozen():
        advice = "Download imgproc-local again and replace this installation."
    yield Check("program", "ok", f"imgproc-local {__version__} in {Path(__file__).parents[1]}")
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < (3, 37, 0):  # the first with STRICT tables
        yield Check("python", "problem", f"{python}; needs SQLite 3.37, which a newer Python has", advice)
    else:
        yield Check("python", "ok", python)
    yield _codecs(advice)


def _codecs(advice: str) -> Check:
    """Encode a small image in every format, because libvips may list a format although its encoder is missing.

    Packages that only make files smaller or the work faster are worth a warning.
    """
    from imgproc_local.codecs import jpeg

    try:
        import pyvips
        from PIL import __version__ as pillow
        from PIL import features

        if not features.check("avif"):
            import pillow_avif  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except (ImportError, OSError) as error:
        return Check("codecs", "problem", f"libvips or Pillow with AVIF can't be loaded ({error})", advice)
    writable = {name: row for name, row in FORMATS.items() if name not in READ_ONLY_FORMATS}
    broken = [row.name for row in writable.values() if not _can_write(row.extensions[0])]
    lacking = [] if pyvips.API_mode else ["the fast mode of pyvips (API mode)"]
    lacking += [f"{package} (JPEG files are a few percent larger)" for package in jpeg.missing_packages()]
    lacking += [] if can_use_jxl() else ["pylibjxl (JPEG XL is neither read nor written)"]
    version = ".".join(str(pyvips.version(part)) for part in range(3))
    detail = f"libvips {version}, pyvips {pyvips.__version__}, Pillow {pillow}"
    if broken:
        return Check("codecs", "problem", f"{detail}; can't write {', '.join(broken)}", advice)
    read = ["TIFF", *["JPEG XL"] * can_use_jxl(), *["HEIC"] * can_decode_heic()]
    detail += f"; write {', '.join(row.name for row in writable.values())}; read {', '.join(read)}"
    if lacking:
        return Check("codecs", "warning", f"{detail}; without {', '.join(lacking)}", advice)
    return Check("codecs", "ok", detail, None if can_decode_heic() else HOW_TO_INSTALL_HEIC)


def _can_write(extension: str) -> bool:
    import pyvips

    try:
        return bool(pyvips.Image.black(16, 16, bands=3).write_to_buffer(f".{extension}"))
    except pyvips.Error:
        return False


# ---- settings ----


def _configured(loaded: Loaded) -> Iterator[Check]:
    """The checks that depend on the settings."""

    config = loaded.config
    changed = sum(origin != "default" for origin in loaded.origins.values())
    where = loaded.file or f"no settings file ({default_config_path() or 'this user has no home folder'})"
    counts = f"{changed} of {len(loaded.origins)} settings changed, see `config show`"
    yield Check("settings", "ok", f"{where}; {counts}")
    yield _describer(config)
    yield _text_reading(config)
    yield _network(config)
    if config.model_signers and not os.access(signers := Path(config.model_signers).expanduser(), os.R_OK):
        advice = "No model can be imported until then: put the file there, or correct the setting model_signers."
        yield Check("signers", "problem", f"{signers}, the file of the keys that sign models, can't be read", advice)
    if config.compression_service != "local":
        service = f"{config.compression_service} at {config.compression_url}"
        yield Check("compression", "ok", f"{service}, key set, local codecs as fallback")
    yield from _data_folder(config)


def _describer(config: Config) -> Check:
    """The vision model in use. No model is loaded. If another program runs it, that program is asked."""

    try:
        used = used_model_status(config)
    except ModelUnusable as error:
        advice = "Connect its drive, change its permissions, or set models_dir to another folder."
        return Check("describer", "problem", error.message, advice)
    if used.model is None:
        install = "import PATH" if config.air_gapped else "pull NAME"
        advice = f"`imgproc-local models list` lists vision models, `imgproc-local models {install}` installs one."
        return Check("describer", "ok", "no vision model in use: pictures are described from metadata", advice)
    if used.problem is not None:
        detail = f"the model {used.model}: {used.problem} Pictures are described from metadata."
        advice = "`imgproc-local models list` shows all models, `imgproc-local models verify NAME` tests one again."
        return Check("describer", "problem", detail, advice)
    if loopback_model(used.model):
        return Check("describer", "ok", f"the model {used.model}, which another program on this machine runs")
    state = "works here" if used.passed_self_test else "not tested on this machine yet; the first picture tests it"
    return Check("describer", "ok", f"the model {used.model}, {state}")


def _text_reading(config: Config) -> Check:
    """Whether the libraries and the networks that read text in pictures are installed; a frozen program has none."""

    if networks.is_frozen():
        return Check("text", "ok", "text in pictures is not read: this program does not include it")
    install = "import PATH" if config.air_gapped else "pull ocr"
    if not store.can_read_text():
        advice = f"{how_to_install('ocr')} Then run `imgproc-local models {install}`."
        return Check("text", "ok", "text in pictures is not read: its libraries are missing", advice)
    if networks.installed_folder(config.models_folder) is None:
        advice = f"Run `imgproc-local models {install}`."
        return Check("text", "warning", "text in pictures is not read: its neural networks are missing", advice)
    return Check("text", "ok", f"text in pictures is read: {networks.SCRIPTS}")


def _network(config: Config) -> Check:
    """In air-gapped mode, try to open connections, all of which must fail."""
    if not config.air_gapped:
        detail = "not air-gapped; used only to install models and by an external compression service"
        return Check("network", "ok", detail)

    if leaks := air_gap.find_leaks():
        advice = "Don't rely on air_gapped on this system, and report this problem."
        return Check("network", "problem", f"air-gapped, but not everything was blocked: {'; '.join(leaks)}", advice)
    if (seccomp_error := air_gap.seccomp_error()) is not None:
        refused = "a connection and a lookup were refused"
        detail = f"air-gapped for Python code: {refused}; not for C libraries: {seccomp_error}"
        return Check("network", "warning", detail, "Block the program in a firewall as well.")
    return Check("network", "ok", "air-gapped: a connection, a lookup and sockets of C code were tried and refused")


# ---- data folder ----


def _data_folder(config: Config) -> Iterator[Check]:
    """Check the data folder, also beside a running server."""

    folder = config.data_dir
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    usable = nearest.is_dir() and os.access(nearest, os.R_OK | os.W_OK | os.X_OK)
    if not usable:
        advice = "Change its permissions, or choose another folder with --data-dir."
        detail = f"{nearest} must be a folder that can be read and written{foreign_owner_text(nearest)}"
        yield Check("data folder", "problem", detail, advice)
    elif nearest == folder:
        yield Check("data folder", "ok", f"{folder}, writable")
    else:
        yield Check("data folder", "ok", f"{folder} does not exist yet; the first `serve` creates it")
    free = shutil.disk_usage(nearest).free
    too_little = "Free some disk space before you process many pictures." if free < 1024**3 else None
    yield Check("disk", "warning" if too_little else "ok", f"{size_text(free)} free", too_little)
    if not usable or nearest != folder:
        return
    yield _server(folder)
    result = inspect_folder(folder, thorough=False)
    yield from _inspected(result, "are there; `verify` also checks their content")
    if result.is_complete:
        jobs = ", ".join(f"{count:,} {status}" for status, count in sorted(result.jobs.items()))
        yield Check("jobs", "ok", jobs or "none")


def _server(folder: Path) -> Check:
    owner = current_owner(folder)
    if owner is None:
        return Check("server", "ok", "none runs on this data folder")
    where = f"{' air-gapped' if owner.air_gapped else ''} at {owner.address}" if owner.address else ""
    detail = f"`{owner.doing}`{where} has run as process {owner.pid} since {owner.since}"
    return Check("server", "ok", detail)


def _inspected(result: Inspection, files_are: str) -> Iterator[Check]:
    """One check for each area of the data folder. `files_are` says what was checked of the files that are intact."""

    none = "none yet; the first command that needs it makes it"
    database = f"schema {result.schema}, intact" if result.schema else none
    if result.schema and result.schema < SCHEMA:
        database = f"schema {result.schema}; the next start updates it to {SCHEMA}, nothing else is checked before"
    intact = {
        "database": database,
        "credits": "every balance equals the sum of its ledger",
        "files": f"{result.files:,} files with {size_text(result.size_bytes)} {files_are}",
    }
    for area, advice in _ADVICE.items():
        problems = [problem for problem in result.problems if problem.area == area]
        if problems:
            state: _State = "warning" if area == "foreign" else "problem"
            yield Check(area, state, _shown(problems), problems[0].advice or advice)
        elif area == "database" or (result.is_complete and area in intact):
            yield Check(area, "ok", intact[area])


def _shown(problems: Sequence[Problem]) -> str:
    more = len(problems) - _MAX_SHOWN
    return "; ".join(one.detail for one in problems[:_MAX_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")
