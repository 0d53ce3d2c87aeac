"""Instants as the store writes them: RFC 3339 in UTC, with milliseconds, so that they sort as text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def rfc3339(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    """A ULID written as 26 lower-case characters. Source: api/README.md, "Identifiers and addresses"."""
    from ulid import ULID

    return str(ULID()).lower()
