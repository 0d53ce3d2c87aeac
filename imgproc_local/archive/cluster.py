"""The cluster that tasks run on: workers of this machine, or the scheduler at an address.

The workers of this machine are children of a process (`cluster_process.py`) that Ctrl+C in a terminal does not reach.
It serves until the client closes its pipe, so it ends with the client, and the workers with it.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from imgproc_local.domain.addresses import is_loopback
from imgproc_local.domain.errors import InvalidRequest
from imgproc_local.system.piped_child import ChildEnded, PipedChild, program

if TYPE_CHECKING:
    from distributed.security import Security

log = logging.getLogger(__name__)

COMMAND = "archive-cluster"
VISION = {"VISION": 1}
"""The resource of workers that have the vision model: `dask worker --resources VISION=1`."""
START_S = 600.0
"""How long the scheduler and all workers may take to start."""
STOP_S = 10.0
"""How long the workers may take to end before they are killed."""


@contextmanager
def local_cluster(workers: int, vision_workers: int, environment: Mapping[str, str]) -> Iterator[tuple[str, Security]]:
    """The address of a scheduler with `workers` processes on this machine, and the `Security` that its clients need.

    The processes end with the block. `vision_workers` of them may load the vision model. `environment` is added to that
    of this process.
    Raises: ChildProcessError, with the reason, if it does not start.
    """
    child = PipedChild(program(COMMAND, str(workers), str(vision_workers)), {**os.environ, **environment})
    try:
        try:
            started = child.receive(START_S)
        except ChildEnded as ended:
            raise ChildProcessError(f"{ended.cause}: {ended.last_error_line}".rstrip(": ")) from None
        if started is None:
            raise ChildProcessError(f"not within {START_S:.0f} s")
        yield pickle.loads(started)  # noqa: S301 - from this program
    finally:
        child.end(STOP_S)


def require_protected(address: str, *, allow_open: bool) -> None:
    """Refuse an address without TLS beyond this machine: whoever reaches it can run any code on the workers.

    On this machine, where those are its users, log a warning. Raises: InvalidRequest.
    """
    expected = "Expected a scheduler with TLS, such as tls://HOST:8786, received"
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
    except ValueError as error:
        raise InvalidRequest({"scheduler": [f"{expected} {address} ({error})."]}) from None
    if parts.scheme in ("tls", "wss") or allow_open:
        return
    if is_loopback(parts.hostname or ""):
        log.warning("Without TLS, other users of this machine can run programs as the user of the workers.")
        return
    raise InvalidRequest(
        {
            "scheduler": [
                f"{expected} {address}: tcp has no authentication, so whoever reaches the scheduler can run any program"
                " on the workers. Add --allow-open-tcp if the network is closed to others."
            ]
        }
    )
