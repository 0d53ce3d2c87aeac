"""The text of `doctor --report`: what helps to find a problem, without secrets or private names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from imgproc_local.cli.redaction import Redaction

if TYPE_CHECKING:
    from imgproc_local.config import Config, Loaded

LOG_LINES = 200
CLOSING = "Keys, picture names, your name and your folders were replaced. Read the report before you send it."


def support_report(check_lines: Iterable[str], loaded: Loaded | None) -> str:
    """The checks, the changed settings and the end of the log. `loaded` is None if the settings are invalid."""
    config = loaded.config if loaded else None
    redacted = Redaction(config, _picture_names(config) if config else (), loaded.file if loaded else None)
    parts = ["imgproc-local doctor --report", *check_lines]
    if loaded is not None:
        parts += ["", "Settings changed from their defaults:", *_changed(loaded)]
        parts += ["", f"The last {LOG_LINES} lines of the log:", *_log(loaded.config)]
    text = redacted("\n".join(parts))
    return f"{text}\n\n{CLOSING}"


def _changed(loaded: Loaded) -> Iterator[str]:
    import msgspec

    from imgproc_local.cli.output import printable
    from imgproc_local.config import shown_settings

    changed = [setting for setting in shown_settings(loaded.config, loaded.origins) if setting.source != "default"]
    for setting in changed:
        value = setting.value
        if setting.name == "catalogue":
            text = f"{len(value)} added models"
        else:
            # a string is not written as JSON: the redaction would not find a folder with escaped characters
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        yield f"{setting.name} = {printable(text)}  ({setting.source})"
    if not changed:
        yield "none"


def _log(config: Config) -> Iterator[str]:
    from imgproc_local.cli.log_file import last_lines
    from imgproc_local.cli.output import printable

    try:
        lines = last_lines(config.data_dir, LOG_LINES)
    except OSError as error:
        yield f"The log can't be read ({error.strerror})."
        return
    yield from map(printable, lines) if lines else ["There is no log."]


def _picture_names(config: Config) -> frozenset[str]:
    from imgproc_local.compose import DATABASE_FILE
    from imgproc_local.domain.errors import StorageFailed
    from imgproc_local.storage.inspection import picture_names

    path = config.data_dir / DATABASE_FILE
    try:
        return picture_names(path) if path.is_file() else frozenset()
    except (StorageFailed, OSError):  # reported as a check
        return frozenset()
