"""The page's endpoint for the health of the installation: the results of `imgproc-local doctor`.

The command runs in a process of its own, because it loads the image libraries, which the service never does.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Literal

import msgspec
from litestar import Request
from msgspec import Struct

import imgproc_local
from imgproc_local.compose import Services
from imgproc_local.system.child import program
from imgproc_local.web.guard import get

TIMEOUT_S = 25.0
"""Less than the 30 seconds that the page waits."""
TTL_S = 5.0
"""How long a result is reused, so that several requests start one process."""


class Check(Struct, frozen=True):
    """The result of one check. `advice` is what the user can do, None if nothing."""

    name: str
    state: Literal["ok", "warning", "problem"]
    detail: str
    advice: str | None


class Health(Struct, frozen=True):
    """`ok` is false if a check found a problem, and None if the checks did not end, which `problem` explains."""

    ok: bool | None
    checks: list[Check] = []
    problem: str | None = None


class HealthBody(Struct, frozen=True):
    data: Health


@get("/local/health")
async def health(request: Request[Any, Any, Any]) -> HealthBody:
    state = request.app.state
    lock: asyncio.Lock = state.setdefault("health_lock", asyncio.Lock())
    async with lock:
        checked_s, result = state.get("health_result", (None, None))
        if checked_s is None or time.monotonic() - checked_s > TTL_S:
            result = await _check(state.services)
            state["health_result"] = time.monotonic(), result
    return HealthBody(result)


async def _check(services: Services) -> Health:
    air_gapped = ["--air-gapped"] if services.config.air_gapped else []
    command = program("doctor", "--json", *air_gapped, "--data-dir", str(services.config.data_dir))
    try:
        child = await asyncio.create_subprocess_exec(
            *command,
            # `python -m` puts the working directory first on sys.path, so it must be the one that holds this package
            cwd=Path(imgproc_local.__file__).parents[1],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        return _no_result(f"can't be started ({error.strerror})")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            output, _ = await child.communicate()
    except TimeoutError:
        return _no_result(f"did not end within {TIMEOUT_S:.0f} seconds")
    finally:
        if child.returncode is None:
            child.kill()
    try:
        return msgspec.json.decode(output, type=Health)
    except msgspec.MsgspecError:
        return _no_result(f"ended with the exit code {child.returncode} and without a result")


def _no_result(reason: str) -> Health:
    return Health(None, problem=f"The checks {reason}. Run `imgproc-local doctor` in a terminal.")


HANDLERS = [health]
