"""Replaces private parts of a text.

`without_secrets` replaces keys and tokens, for the log file. `Redaction` also replaces folders, the names of the user
and of the machine, and the file names of pictures, for text that is sent to other people.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import imgproc_local

if TYPE_CHECKING:
    from imgproc_local.config import Config

_KEY = re.compile(r"\bimgp_[A-Za-z0-9]+")
_TOKEN = re.compile(r"(?i)\b(token=|bearer |basic |hf_)[\w.~+/=-]+")
_PICTURE_NAME = re.compile(r"""(?i)("[^"\n]+|'[^'\n]+|[^\s/\\"']+)\.(jpe?g|png|gif|webp|avif|heic|tiff?|bmp|svg)\b""")
MIN_NAME_CHARS = 3
"""Shorter names are not replaced: they occur inside too many words."""


def without_secrets(text: str) -> str:
    """`text` with API keys and tokens replaced by `…`."""
    return _TOKEN.sub(r"\1…", _KEY.sub("imgp_…", text))


class Redaction:
    """Replaces secrets and private names by words that say what they were, such as KEY, HOST or PICTURE.

    Longer names are replaced first, because they can contain shorter ones.
    """

    def __init__(
        self,
        config: Config | None,
        pictures: Iterable[str] = (),
        settings_file: Path | None = None,
        machine: Iterable[tuple[str, str]] | None = None,
    ) -> None:
        """`pictures` are file names.

        `machine` are pairs of a name and the word that replaces it; the default is `machine_names()`.
        """
        names = [
            *(machine_names() if machine is None else machine),
            *([(str(settings_file), "CONFIG")] if settings_file else []),
            *(_config_names(config) if config else ()),
            *((name, "PICTURE") for name in pictures),
        ]
        names = sorted(
            ((name, word) for name, word in names if len(name) >= MIN_NAME_CHARS), key=lambda pair: -len(pair[0])
        )
        secrets = [(re.compile(re.escape(secret)), word) for secret, word in (_secrets(config) if config else ())]
        self._replacements = [*secrets, *((_whole_word(name), word) for name, word in names)]

    def __call__(self, text: str) -> str:
        for pattern, word in self._replacements:
            text = pattern.sub(word, text)
        return _PICTURE_NAME.sub(r"PICTURE.\2", without_secrets(text))


def _whole_word(name: str) -> re.Pattern[str]:
    """A pattern that finds `name`, but not inside a longer word."""
    before = r"(?<!\w)" if name[0].isalnum() else ""
    after = r"(?!\w)" if name[-1].isalnum() else ""
    return re.compile(f"{before}{re.escape(name)}{after}")


def machine_names() -> Iterator[tuple[str, str]]:
    """The names of this machine, of its user and of their folders, each with the word that replaces it."""
    try:
        yield str(Path.home()), "~"
        yield getpass.getuser(), "USER"
    except (RuntimeError, OSError, KeyError):  # this user has no home or no name
        pass
    for variable in ("USER", "LOGNAME", "USERNAME"):
        yield os.environ.get(variable, ""), "USER"
    yield socket.gethostname(), "HOST"
    yield str(Path(imgproc_local.__file__).parent), "PROGRAM"


def _config_names(config: Config) -> Iterator[tuple[str, str]]:
    from imgproc_local.cli.output import path_text
    from imgproc_local.config import Config

    yield path_text(config.data_dir), "DATA"
    yield path_text(config.models_folder), "MODELS"
    if config.compression_url != Config().compression_url:
        yield urlsplit(config.compression_url).hostname or "", "SERVICE"


def _secrets(config: Config) -> Iterator[tuple[str, str]]:
    if config.compression_key:
        yield config.compression_key.reveal(), "KEY"
