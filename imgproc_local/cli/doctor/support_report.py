"""The text of `doctor --report`: what helps to find a fault, and nothing that a stranger should not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from imgproc_local.cli.doctor.redaction import Redaction

if TYPE_CHECKING:
    from imgproc_local.config import Config, Loaded

LOG_LINES = 200
FAREWELL = "Keys, names of pictures, your name and your folders were taken out; look it through before you send it."


def support_report(checks: Iterable[str], loaded: Loaded | None) -> str:
    """The checks, the changed settings and the end of the log. `loaded` is None where the settings are refused."""
    config = loaded.config if loaded else None
    redacted = Redaction(config, _pictures(config) if config else (), loaded.file if loaded else None)
    parts = ["imgproc-local doctor --report", *checks]
    if loaded is not None:
        parts += ["", "Settings that are not at their defaults:", *_changed(loaded)]
        parts += ["", f"The last {LOG_LINES} lines of the log:", *_log(loaded.config)]
    text = redacted("\n".join(parts))
    return f"{text}\n\n{FAREWELL}"


def _changed(loaded: Loaded) -> Iterator[str]:
    import msgspec

    from imgproc_local.cli.output import plain, whole_text
    from imgproc_local.config import SETTINGS

    values = msgspec.to_builtins(loaded.config, enc_hook=lambda value: whole_text(str(value)))
    changed = [name for name in SETTINGS if loaded.origins[name] != "default"]
    for name in changed:
        value = values[name]
        # not as JSON, whose escapes would hide a folder from the redaction
        told = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        told = f"{len(value)} of one's own" if name == "catalogue" else told
        yield f"{name} = {plain(told)}  ({loaded.origins[name]})"
    if not changed:
        yield "none"


def _log(config: Config) -> Iterator[str]:
    from imgproc_local.cli.output import plain
    from imgproc_local.cli.serve.log_file import last_lines

    try:
        lines = last_lines(config.data_dir, LOG_LINES)
    except OSError as error:
        yield f"It can't be read ({error.strerror})."
        return
    yield from map(plain, lines) if lines else ["There is none."]


def _pictures(config: Config) -> frozenset[str]:
    from imgproc_local.compose import DATABASE_FILE
    from imgproc_local.domain.errors import StorageFailed
    from imgproc_local.storage.inspection import picture_names

    path = config.data_dir / DATABASE_FILE
    try:
        return picture_names(path) if path.is_file() else frozenset()
    except (StorageFailed, OSError):  # told among the checks
        return frozenset()
