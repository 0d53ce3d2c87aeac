"""API keys: shown once, stored only as a hash.

A secret carries 190 random bits, so a plain SHA-256 of it can't be searched; a slow password hash would only slow
every request down.
"""

from __future__ import annotations

import hashlib
import secrets
import string

from msgspec import Struct

_ALPHABET = string.ascii_letters + string.digits
_SECRET_LENGTH = 32
_PREFIX = "imgp_"


class ApiKey(Struct, frozen=True):
    """A key as stored. `rate_limit` is requests per minute: None is the service's own setting, 0 is no limit."""

    id: str
    account_id: str
    account: str
    name: str
    rate_limit: int | None
    created_at: str
    revoked_at: str | None = None


def new_secret() -> str:
    """A fresh key as its owner sees it, once."""
    return _PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET_LENGTH))


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
