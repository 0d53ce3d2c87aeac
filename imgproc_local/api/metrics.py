"""`GET /metrics`: counts and states for Prometheus, in its text format.

Source: the Prometheus documentation, "Exposition formats", version 0.0.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from litestar import Request, Response
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from imgproc_local.api.auth import require_key
from imgproc_local.api.proxy import TRUSTED_PROXY
from imgproc_local.api.requests import get
from imgproc_local.compose import Services
from imgproc_local.domain.addresses import host_name, is_loopback, is_loopback_name
from imgproc_local.engine.stage import BOUNDS_S, StageDurations

MEDIA_TYPE = "text/plain; version=0.0.4"
UNMATCHED = "unmatched"
"""The `route` of requests that match no route. Clients choose their paths, which would make any number of series."""
KNOWN_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))

Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]
"""What to append to the metric's name, the labels, and the value."""


class RequestCounts:
    """How many requests were answered, by method, route and status, since the service started."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, int]] = Counter()

    def add(self, method: str, route: str, status: int) -> None:
        self._counts[method if method in KNOWN_METHODS else "other", route, status] += 1

    def samples(self) -> Iterator[Sample]:
        for (method, route, status), count in sorted(self._counts.items()):
            yield "", {"method": method, "route": route, "status": str(status)}, count


async def require_loopback_or_key(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Allow a client on this machine, and others with an API key. Raises: Unauthenticated, RateLimited.

    Through a proxy every client needs a key: a proxy may pass on a header in which the client calls itself local.
    """
    client = connection.client
    # a page of a foreign site can reach this machine by DNS rebinding, but only under its own host name
    name = host_name(connection.headers.get("host", ""))
    is_local = client is not None and is_loopback(client.host) and is_loopback_name(name)
    if not is_local or connection.scope["state"].get(TRUSTED_PROXY):
        await require_key(connection, handler)


@get("/metrics", guards=[require_loopback_or_key])
async def metrics(request: Request[Any, Any, Any]) -> Response[str]:
    services: Services = request.app.state.services
    counts: RequestCounts = request.app.state.request_counts
    queue_depths = await services.jobs.queue_depths()
    stored_bytes = await services.jobs.stored_bytes()
    text = "".join(
        (
            _metric("imgproc_requests_total", "counter", "Requests that were answered.", counts.samples()),
            _metric(
                "imgproc_queue_stages",
                "gauge",
                "Stages that wait or run, by lane and state.",
                (("", {"lane": lane, "state": state}, count) for lane, state, count in queue_depths),
            ),
            _metric(
                "imgproc_stage_duration_seconds",
                "histogram",
                "How long stages ran, by stage and outcome.",
                _histogram_samples(services.engine.stage_durations),
            ),
            _metric(
                "imgproc_stored_bytes",
                "gauge",
                "Bytes of the files of jobs; a file that several jobs share is counted once.",
                [("", {}, stored_bytes)],
            ),
        )
    )
    return Response(text, media_type=MEDIA_TYPE)


def _histogram_samples(durations: StageDurations) -> Iterator[Sample]:
    for stage, outcome, histogram in durations.all():
        labels = {"stage": stage, "outcome": outcome}
        counts = list(accumulate(histogram.buckets))
        for bound, count in zip((*map("{:g}".format, BOUNDS_S), "+Inf"), counts, strict=True):
            yield "_bucket", {**labels, "le": bound}, count
        yield "_sum", labels, histogram.total_s
        yield "_count", labels, counts[-1]


def _metric(name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
    for suffix, labels, value in samples:
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{suffix}{{{pairs}}} {value:.15g}" if pairs else f"{name}{suffix} {value:.15g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
