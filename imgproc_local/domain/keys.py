"""API keys: who may call, and how often."""

from __future__ import annotations

from msgspec import Struct


class ApiKey(Struct, frozen=True):
    """A key as stored. `rate_limit` is requests per minute: None is the service's own setting, 0 is no limit."""

    id: str
    account_id: str
    account: str
    name: str
    rate_limit: int | None
    created_at: str
    revoked_at: str | None = None
