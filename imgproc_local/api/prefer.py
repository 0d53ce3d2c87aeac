"""The `Prefer: wait=N` header of RFC 7240: hold the answer until there is something to say."""

from __future__ import annotations

import re

from litestar.datastructures import Headers

MAX_WAIT_S = 60
_WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,100})\"?\s*(?:;.*)?", re.IGNORECASE)


def wait_preference_s(headers: Headers) -> int | None:
    """Seconds to wait, at most `MAX_WAIT_S`; None where none are asked for. Other preferences may be ignored."""
    for preference in ",".join(headers.getall("prefer", [])).split(","):
        match = _WAIT.fullmatch(preference)
        if match:
            return min(int(match[1]), MAX_WAIT_S)
    return None


def applied(wait_s: int | None) -> dict[str, str]:
    return {} if wait_s is None else {"Preference-Applied": f"wait={wait_s}"}
