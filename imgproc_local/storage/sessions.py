"""Who may use the local page: whoever can read the data folder, for that is what the command line asks of them too.

The folder's file `page-token` holds a random token. `serve` prints a link with it; the link is exchanged for a cookie.
The browser that `serve` itself opens gets a ticket instead, which works once: other users of the machine can read the
command line of a process.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.storage.blobs import storage_errors
from imgproc_local.system.files import write_atomically

TOKEN_FILE = "page-token"  # noqa: S105 - a file's name
TOKEN_BYTES = 32
COOKIE_MAX_AGE_S = 30 * 24 * 3600
"""The token in the cookie stays good as long as its file, so a shorter life would only send people back to the link."""


def page_token(folder: Path) -> str:
    """The token of the data folder, made on first use. Raises `StorageFailed`."""
    path = folder / TOKEN_FILE
    with storage_errors():
        if not path.exists():
            write_atomically(path, secrets.token_urlsafe(TOKEN_BYTES).encode(), mode=0o600)
        token = path.read_text(encoding="utf-8", errors="replace").strip()
    if len(token) < TOKEN_BYTES or not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
        raise StorageFailed(f"The file {TOKEN_FILE} in the data folder holds no token; delete it to have one made.")
    return token


class PageSession:
    """Compares what a browser brings with `token`. The cookie's name tells two data folders on one host apart."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.cookie_name = "imgproc_page_" + hashlib.sha256(token.encode()).hexdigest()[:12]
        self._ticket: str | None = None

    def new_ticket(self) -> str:
        """A token that opens the page once. An earlier unused one becomes void."""
        self._ticket = secrets.token_urlsafe(TOKEN_BYTES)
        return self._ticket

    def opens(self, presented: str) -> bool:
        """Whether a link's token lets its bearer in; a ticket is used up by that."""
        if self.is_token(presented):
            return True
        if self._ticket is not None and _equal(presented, self._ticket):
            self._ticket = None
            return True
        return False

    def is_token(self, presented: str) -> bool:
        return _equal(presented, self.token)


def _equal(presented: str, expected: str) -> bool:
    """In constant time, whatever came."""
    return hmac.compare_digest(presented.encode("utf-8", "surrogatepass"), expected.encode())
