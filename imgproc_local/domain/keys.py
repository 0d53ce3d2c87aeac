"""API keys as data, without their secrets."""

from __future__ import annotations

from msgspec import Struct


class ApiKey(Struct, frozen=True):
    """A key as stored. `account` is the account's name, `name` the key's.

    `rate_limit` is in requests per minute; None means the setting `rate_limit_per_minute`, 0 means no limit. Times are
    RFC 3339. `for_page` says that the local page made the key for itself: such a key has no rate limit.
    """

    id: str
    account_id: str
    account: str
    name: str
    rate_limit: int | None
    created_at: str
    revoked_at: str | None = None
    for_page: bool = False
