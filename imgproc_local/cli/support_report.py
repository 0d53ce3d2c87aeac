"""The text that `doctor --report` prints, to be sent to other people: no secret, no name of a person or a picture."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from imgproc_local.cli.log_file import last_lines, without_secrets
from imgproc_local.cli.output import path_text, printable
from imgproc_local.domain.errors import StorageFailed

if TYPE_CHECKING:
    from imgproc_local.config import Config, Loaded

_LOG_LINES = 200
"""Lines of the log that a report has."""
_PICTURE_NAME = re.compile(r"""(?i)("[^"\n]+|'[^'\n]+|[^\s/\\"']+)\.(jpe?g|png|gif|webp|avif|heic|tiff?|bmp|svg)\b""")


def support_report(checks: Iterable[str], loaded: Loaded | None) -> str:
    """The lines of the checks, the changed settings and the end of the log. `loaded` is None for invalid settings."""
    lines = ["imgproc-local doctor --report", *checks]
    if loaded is not None:
        changed = [setting for setting in loaded.shown() if setting.source != "default"]
        lines += ["", "Settings changed from their defaults:"]
        lines += [f"{setting.name} = {printable(str(setting.value))}  ({setting.source})" for setting in changed]
        lines += ["", f"The last {_LOG_LINES} lines of the log:", *_log(loaded.config)]
    text = "\n".join(lines)
    closing = "Keys, picture names, your name and your folders were replaced. Read the report before you send it."
    if loaded is not None and loaded.config.compression_key:
        text = text.replace(loaded.config.compression_key.reveal(), "KEY")
    return redacted(text, private_names(loaded)) + f"\n\n{closing}"


def redacted(text: str, names: Iterable[tuple[str, str]]) -> str:
    """`text` without secrets and names of pictures, and with each of `names` replaced by the word beside it.

    A name is replaced where it is not part of a longer word. Longer names are replaced first, because they can contain
    shorter ones.
    """
    for name, word in sorted(names, key=lambda pair: -len(pair[0])):
        if len(name) > 2 and name in text:  # shorter names occur inside too many words
            before = r"(?<!\w)" if name[0].isalnum() else ""
            after = r"(?!\w)" if name[-1].isalnum() else ""
            text = re.sub(f"{before}{re.escape(name)}{after}", word, text)
    return _PICTURE_NAME.sub(r"PICTURE.\2", without_secrets(text))


def private_names(loaded: Loaded | None) -> Iterator[tuple[str, str]]:
    """The names of this machine, its user, their folders and pictures, each with the word that replaces it."""
    with suppress(RuntimeError, OSError, KeyError):  # this user has no home or no name
        yield str(Path.home()), "~"
        yield getpass.getuser(), "USER"
    for variable in ("USER", "LOGNAME", "USERNAME"):
        yield os.environ.get(variable, ""), "USER"
    yield socket.gethostname(), "HOST"
    yield str(Path(__file__).parents[1]), "PROGRAM"
    if loaded is None:
        return
    yield str(loaded.file or ""), "CONFIG"
    yield path_text(loaded.config.data_dir), "DATA"
    yield path_text(loaded.config.models_folder), "MODELS"
    if loaded.origins["compression_url"] != "default":
        yield urlsplit(loaded.config.compression_url).hostname or "", "SERVICE"
    yield from ((name, "PICTURE") for name in _picture_names(loaded.config))


def _log(config: Config) -> Iterator[str]:
    try:
        yield from map(printable, last_lines(config.data_dir, _LOG_LINES))
    except OSError as error:
        yield f"The log can't be read ({error.strerror})."


def _picture_names(config: Config) -> frozenset[str]:
    from imgproc_local.storage.inspection import DATABASE_FILE, picture_names

    path = config.data_dir / DATABASE_FILE
    try:
        return picture_names(path) if path.is_file() else frozenset()
    except (StorageFailed, OSError):  # reported as a check
        return frozenset()
