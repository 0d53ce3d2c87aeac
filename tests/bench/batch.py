"""Compares `process` on a folder with the engine alone, which runs the same pictures as queued jobs and writes no
results.

Both run in this process, in turn, each on a new data folder, from the start of the services to their stop. The pictures
are small, because the command's own share is then largest; they are variants of ten synthetic photographs.

`python -m tests.bench.batch [--width 160] [--height 120] [--rounds 2] [--threads 2]`
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from imgproc_local.batch.request import make_request
from imgproc_local.cli.process.run import Run, RunOptions
from imgproc_local.compose import open_services
from imgproc_local.config import Config
from imgproc_local.domain.plan import Operation, Plan
from tests.bench.load import jpegs, with_comment

PLAN = Plan(Operation.PROCESS)
MAX_RATIO = 1.1
DIFFERENT = 10
"""Photographs, of which the pictures differ only in a comment."""
FINISH_S = 600


async def engine_alone(config: Config, files: list[Path]) -> None:
    async with open_services(config, "bench") as services:
        account_id = await services.store.keys.account_id(create=True)
        jobs = []
        for file in files:
            with services.blobs.incoming() as incoming:
                incoming.write(file.read_bytes())
                jobs.append((await services.engine.accept(account_id, PLAN, incoming, file.name))[0])
        for job in jobs:
            assert (await services.engine.wait(job.id, FINISH_S)).status.final


async def command(config: Config, source: Path, out: Path, count: int) -> None:
    run = Run(config, RunOptions((source,), out), make_request(PLAN, (), config, None))
    run.find()
    await run.process()
    assert sum(outcome.done for outcome in run.outcomes) == count


def timed(work: object) -> tuple[float, float]:
    """Wall and CPU seconds, those of the worker processes included."""
    begun_s, cpu_s = time.perf_counter(), sum(os.times()[:4])
    asyncio.run(work)  # type: ignore[arg-type]
    return time.perf_counter() - begun_s, sum(os.times()[:4]) - cpu_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--height", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="batch-") as work:
        source = Path(work, "pictures")
        different = [file.read_bytes() for file in jpegs(Path(work), DIFFERENT, options.width, options.height)]
        for number in range(options.pictures):
            file = source / f"{number // 20:02}" / f"stone-{number:04}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(with_comment(different[number % DIFFERENT], str(number)))
        files = sorted(source.rglob("*.jpg"))
        alone_s, command_s = [], []
        for number in range(options.rounds):
            folders = [Path(work, f"{kind}-{number}") for kind in ("engine", "command", "out")]
            engine, data = (
                Config(data_dir=folder, codec_threads=options.threads, model="none") for folder in folders[:2]
            )
            alone_s.append(timed(engine_alone(engine, files)))
            command_s.append(timed(command(data, source, folders[2], len(files))))
            for name, (wall_s, cpu_s) in (("engine", alone_s[-1]), ("process", command_s[-1])):
                print(f"{name}: {wall_s:.2f} s, {cpu_s:.2f} s of CPU time", flush=True)
    ratio, cpu_ratio = (
        sum(times[kind] for times in command_s) / sum(times[kind] for times in alone_s) for kind in (0, 1)
    )
    print(
        f"{options.pictures} pictures of {options.width} × {options.height} pixels: process takes {ratio:.3f} of the"
        f" engine's own time (at most {MAX_RATIO}), {cpu_ratio:.3f} of its CPU time"
    )
    sys.exit(0 if ratio <= MAX_RATIO else 1)


if __name__ == "__main__":
    main()
