"""Access to the local page: for users who can read the data folder, as for the command line.

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
"""The token is valid as long as its file exists; a cookie that expires earlier would only need the link again."""


def page_token(folder: Path) -> str:
    """The token of the data folder, created on first use. Raises: StorageFailed."""
    path = folder / TOKEN_FILE
    with storage_errors():
        if not path.exists():
            write_atomically(path, secrets.token_urlsafe(TOKEN_BYTES).encode(), mode=0o600)
        token = path.read_text(encoding="utf-8", errors="replace").strip()
    if len(token) < TOKEN_BYTES or not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
        raise StorageFailed(
            f"The file {TOKEN_FILE} in the data folder holds no valid token; delete it, and the next start creates one."
        )
    return token


class PageSession:
    """Checks the tokens that browsers send. The cookie's name is different for each data folder on one host."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.cookie_name = "imgproc_page_" + hashlib.sha256(token.encode()).hexdigest()[:12]
        self._ticket: str | None = None

    def new_ticket(self) -> str:
        """A token that opens the page once. An earlier unused one becomes invalid."""
        self._ticket = secrets.token_urlsafe(TOKEN_BYTES)
        return self._ticket

    def opens(self, presented: str) -> bool:
        """Whether the token of a link gives access. A ticket is valid once."""
        if self.is_token(presented):
            return True
        if self._ticket is not None and _equal(presented, self._ticket):
            self._ticket = None
            return True
        return False

    def is_token(self, presented: str) -> bool:
        return _equal(presented, self.token)


def _equal(presented: str, expected: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(presented.encode("utf-8", "surrogatepass"), expected.encode())
