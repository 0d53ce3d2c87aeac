"""Takes out of a text what must not leave this machine with it.

`without_secrets` is for all that is kept: keys and tokens. `Redaction` is for what is shown to others: also where
things lie, who uses the machine, and what the pictures are called.
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
_PICTURE = re.compile(r"""(?i)("[^"\n]+|'[^'\n]+|[^\s/\\"']+)\.(jpe?g|png|gif|webp|avif|heic|tiff?|bmp|svg)\b""")
MIN_LENGTH = 3
"""Shorter names are parts of too many words."""


def without_secrets(text: str) -> str:
    """`text` without API keys and tokens."""
    return _TOKEN.sub(r"\1…", _KEY.sub("imgp_…", text))


class Redaction:
    """What is to be replaced, secrets first, then the longest names, and by what."""

    def __init__(self, config: Config | None, pictures: Iterable[str] = (), file: Path | None = None) -> None:
        """`file` is where the settings were read."""
        known = [
            *_of_machine(),
            *([(str(file), "CONFIG")] if file else []),
            *(_places(config) if config else ()),
            *((name, "PICTURE") for name in pictures),
        ]
        known = sorted((one for one in known if len(one[0]) >= MIN_LENGTH), key=lambda one: -len(one[0]))
        secrets = [(re.compile(re.escape(secret)), shown) for secret, shown in (_secrets(config) if config else ())]
        self._known = [*secrets, *((_whole(name), shown) for name, shown in known)]

    def __call__(self, text: str) -> str:
        for secret, shown in self._known:
            text = secret.sub(shown, text)
        return _PICTURE.sub(r"PICTURE.\2", without_secrets(text))


def _whole(secret: str) -> re.Pattern[str]:
    """Finds it, but not as a part of a longer word."""
    before = r"(?<!\w)" if secret[0].isalnum() else ""
    after = r"(?!\w)" if secret[-1].isalnum() else ""
    return re.compile(f"{before}{re.escape(secret)}{after}")


def _of_machine() -> Iterator[tuple[str, str]]:
    try:
        yield str(Path.home()), "~"
        yield getpass.getuser(), "USER"
    except (RuntimeError, OSError, KeyError):  # no home, no name: nothing to hide
        pass
    for variable in ("USER", "LOGNAME", "USERNAME"):
        yield os.environ.get(variable, ""), "USER"
    yield socket.gethostname(), "HOST"
    yield str(Path(imgproc_local.__file__).parent), "PROGRAM"


def _places(config: Config) -> Iterator[tuple[str, str]]:
    from imgproc_local.cli.output import path_text
    from imgproc_local.config import Config

    yield path_text(config.data_dir), "DATA"
    yield path_text(config.models_folder), "MODELS"
    if config.compression_url != Config().compression_url:
        yield urlsplit(config.compression_url).hostname or "", "SERVICE"


def _secrets(config: Config) -> Iterator[tuple[str, str]]:
    from imgproc_local.web.session import TOKEN_FILE

    if config.compression_key:
        yield config.compression_key.reveal(), "KEY"
    try:
        token = (config.data_dir / TOKEN_FILE).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # none was made yet, or it can't be read: then it can't be told either
        return
    if token:
        yield token, "TOKEN"
