"""Measures the memory of the idle server, the time to its first response, and the memory of eight large concurrent
uploads. Linux only.

Each upload pauses before its last bytes until the others have done the same. Uploads are measured once up to the first
202, and once with an unknown language at the end of the form, so that they are refused and no stage runs.

`python -m tests.bench.memory [--starts 5]`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import socket
import statistics
import tempfile
import time
from pathlib import Path

from tests.bench.load import MIB, Connection, png_of_noise, print_table, verdict
from tests.faults.server_process import SOURCE, ServerProcess, make_key, memory_bytes, reset_peak, serving

UPLOADS = 8
UPLOAD_SIDE_PX = 2890  # at three bytes per pixel, 23.9 MiB
PIECE_BYTES = 256 * 1024
PIECE_PAUSE_S = 0.02
LAST_BYTES = 64 * 1024
GROWTHS = (
    "refused uploads, all but the last bytes received",
    "refused uploads, all answered",
    "accepted uploads, all but the last bytes received",
    "accepted uploads, until the first response",
)


def start_seconds(folder: Path, program: tuple[str | Path, ...] = SOURCE) -> float:
    """Seconds from the start of the process to its first response with status 200."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started_at = time.perf_counter()
    server = ServerProcess(folder, port, program=program)
    try:
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                try:
                    connection.request("GET", "/healthz")
                    if connection.getresponse().status == 200:
                        return time.perf_counter() - started_at
                finally:
                    connection.close()
            time.sleep(0.002)
    finally:
        server.kill()


async def uploads_at_once(server: ServerProcess, root: str, key: str, picture: bytes, language: str) -> tuple[int, int]:
    """The peak memory of the server before the last bytes of the uploads are sent, and after the first response."""
    arrived = asyncio.Barrier(UPLOADS + 1)
    first_answer = asyncio.Event()
    statuses: list[int] = []

    async def upload() -> None:
        connection = await Connection.open(root, key)
        request = connection.upload_parts("/api/v1/images/analyze", picture, {"languages": language})
        for at in range(0, len(request) - LAST_BYTES, PIECE_BYTES):
            connection.writer.write(request[at : min(at + PIECE_BYTES, len(request) - LAST_BYTES)])
            await connection.writer.drain()
            await asyncio.sleep(PIECE_PAUSE_S)
        await arrived.wait()
        await arrived.wait()
        connection.writer.write(request[-LAST_BYTES:])
        status, _ = await connection.answer()
        statuses.append(status)
        first_answer.set()
        connection.close()

    reset_peak(server.pid)
    sending = [asyncio.create_task(upload()) for _ in range(UPLOADS)]
    await arrived.wait()
    await asyncio.sleep(0.2)
    all_in = memory_bytes(server.pid, "VmHWM")
    await arrived.wait()
    await first_answer.wait()
    at_first_answer = memory_bytes(server.pid, "VmHWM")
    await asyncio.gather(*sending)
    if len(set(statuses)) != 1:
        raise SystemExit(f"expected the same status for all uploads, received {statuses}")
    return all_in, at_first_answer if statuses[0] == 202 else memory_bytes(server.pid, "VmHWM")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    arguments = parser.parse_args()
    picture = png_of_noise(UPLOAD_SIDE_PX, UPLOAD_SIDE_PX)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        key = make_key(folder)
        start_seconds(folder)  # warm
        starts_s = [start_seconds(folder) for _ in range(arguments.starts)]
        grown_mib, idle_mib = [], 0.0
        for language in ("xx", "en"):
            with serving(folder) as server:
                root = server.wait_ready()
                time.sleep(1)
                idle = server.rss_bytes()
                peaks = asyncio.run(uploads_at_once(server, root, key, picture, language))
            grown_mib += [(peak - idle) / MIB for peak in peaks]
            idle_mib = idle / MIB
    start_s = statistics.median(starts_s)
    starts = " ".join(f"{seconds:.2f}" for seconds in starts_s)
    print_table(
        f"Memory and start, {UPLOADS} uploads of {len(picture) / MIB:.1f} MiB",
        [
            ("idle memory (RSS)", f"{idle_mib:.1f} MiB", verdict(idle_mib, 60, "MiB")),
            (f"serve to its first response, median of {starts}", f"{start_s:.2f} s", verdict(start_s, 1.2, "s")),
            *(
                (f"growth, {name}", f"{grown:.1f} MiB", verdict(grown, 64, "MiB"))
                for name, grown in zip(GROWTHS, grown_mib, strict=True)
            ),
        ],
    )


if __name__ == "__main__":
    main()
