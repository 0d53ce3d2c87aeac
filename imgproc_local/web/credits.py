"""The page's endpoint for credits: the balance of the default account, and what it used in the last 30 days."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any

from litestar import Request
from msgspec import Struct

from imgproc_local.compose import Services
from imgproc_local.domain.errors import NotFound
from imgproc_local.storage.accounts import DEFAULT_ACCOUNT, CreditUsage
from imgproc_local.web.guard import get

DAYS = 30
MAX_KEYS = 100
"""At most this many keys are listed, those that used most."""


class DayUsage(Struct, frozen=True):
    """The credits used on one day in UTC, in total and by operation, and the number of pictures."""

    day: str
    credits: int
    operations: dict[str, int]
    pictures: int


class KeyUsage(Struct, frozen=True):
    """The credits used with one key. `key_id` and `name` are None where it is unknown: for commands, regenerated
    texts, and deleted jobs."""

    key_id: str | None
    name: str | None
    credits: int


class CreditsData(Struct, frozen=True):
    """`balance` is None before the account exists. `days` are the last 30, the oldest first, including
    those without use; empty before the account exists."""

    account: str
    balance: int | None
    days: list[DayUsage]
    keys: list[KeyUsage]


class CreditsBody(Struct, frozen=True):
    data: CreditsData


@get("/local/credits")
async def usage(request: Request[Any, Any, Any]) -> CreditsBody:
    services: Services = request.app.state.services
    store = services.store
    try:
        account_id = await store.keys.account_id()
    except NotFound:
        return CreditsBody(CreditsData(DEFAULT_ACCOUNT, None, [], []))
    today, used, pictures = await store.credits.usage(account_id, DAYS)
    names = {key.id: key.name for key in await store.keys.all()}
    balance = await store.credits.balance(account_id)
    days = [(today - timedelta(days=age)).isoformat() for age in reversed(range(DAYS))]
    return CreditsBody(CreditsData(DEFAULT_ACCOUNT, balance, _by_day(days, used, pictures), _by_key(used, names)))


def _by_day(days: list[str], used: list[CreditUsage], pictures: dict[str, int]) -> list[DayUsage]:
    operations: dict[str, dict[str, int]] = {day: defaultdict(int) for day in days}
    for usage in used:
        if usage.day in operations:
            operations[usage.day][usage.operation] += usage.credits
    return [
        DayUsage(day, sum(by_operation.values()), dict(by_operation), pictures.get(day, 0))
        for day, by_operation in operations.items()
    ]


def _by_key(used: list[CreditUsage], names: dict[str, str]) -> list[KeyUsage]:
    credits_by_key: dict[str, int] = defaultdict(int)
    for usage in used:
        credits_by_key[usage.client_id] += usage.credits
    most = sorted(credits_by_key.items(), key=lambda item: -item[1])[:MAX_KEYS]
    return [KeyUsage(key_id or None, names.get(key_id), count) for key_id, count in most if count]


HANDLERS = [usage]
