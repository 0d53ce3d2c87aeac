"""How long a single upload takes behind the many jobs of another account, against its time alone.

`python -m tests.bench.fairness [--jobs 10000] [--uploads 5]`

The limit is twice the time alone: the upload waits at most for the stages that run when it arrives.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import STAGES, Operation, Plan
from imgproc_local.engine.stage import CODECS_LANE
from imgproc_local.storage.jobs import Submission
from tests.support import pictures
from tests.support.service import Running, running

MAX_RATIO = 2.0
WIDTH_PX, HEIGHT_PX = 1600, 1200


async def queue(service: Running, account_id: str, picture: bytes, count: int) -> None:
    """Queue `count` jobs of the account, all of the same picture."""
    services = service.services
    with services.blobs.incoming() as incoming:
        incoming.write(picture)
        async with services.blobs.stored(incoming) as blob:
            for _ in range(count):
                submission = Submission(
                    account_id=account_id,
                    plan=Plan(Operation.OPTIMIZE),
                    original_filename="many.jpg",
                    sha256=blob.sha256,
                    size_bytes=blob.size_bytes,
                    info=ImageInfo(Format.JPEG, WIDTH_PX, HEIGHT_PX),
                    prices=dict.fromkeys(STAGES[Operation.OPTIMIZE], 1),
                    lanes=dict.fromkeys(StageName, CODECS_LANE),
                )
                await services.jobs.submit(submission)
    services.engine._wake_lanes()


def upload_times(service: Running, picture: bytes, count: int) -> list[float]:
    """Seconds from the upload to the final state, of `count` uploads one after the other."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        job = service.process("optimize", picture + bytes(number + 1))
        assert job["status"] == "completed", job
        times.append(time.perf_counter() - began)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--uploads", type=int, default=5)
    options = parser.parse_args()
    picture = pictures.jpeg(WIDTH_PX, HEIGHT_PX)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder) / "data", queue_limit=100_000, codec_threads=2) as service,
    ):
        upload_times(service, picture, 1)
        alone = upload_times(service, picture, options.uploads)
        many = service.run(service.services.store.keys.account_id("many", create=True))
        began = time.perf_counter()
        asyncio.run_coroutine_threadsafe(queue(service, many, picture, options.jobs), service.loop).result(600)
        print(f"{options.jobs:,} jobs queued in {time.perf_counter() - began:.1f} s")
        behind = upload_times(service, picture, options.uploads)
    ratio = statistics.median(behind) / statistics.median(alone)
    for name, times in (("alone", alone), ("behind", behind)):
        print(f"a single upload {name}: {', '.join(f'{time:.2f}' for time in times)} s")
    print(f"median behind / alone: {ratio:.2f}, limit {MAX_RATIO}")
    if ratio > MAX_RATIO:
        sys.exit(1)


if __name__ == "__main__":
    main()
