"""Kills a server again and again under load: no job is lost, done twice or changed once it is final.

`python -m tests.ordeals.kills [--kills 1000] [--seed N] [--program BINARY]`

Half of the kills happen at a chosen change: just before or just after the n-th write, sync, rename or deletion in the
data folder since the start. The others happen at a random time while the server starts or works. After every
`ROUND` kills, the work that is left is finished by a server that is not killed, and every invariant of the folder is
checked.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from imgproc_local.storage.inspection import inspect_folder
from tests.faults import disk
from tests.faults.fleet import Fleet, finish_and_check
from tests.faults.server_process import START_TIMEOUT_S, ServerProcess, make_key
from tests.ordeals.options import options_of
from tests.ordeals.recorder import build, under_library
from tests.support import pictures
from tests.support.worker_pool import wait_until

ROUND = 50
CLIENTS, OPEN_JOBS = 3, 3
WAYS = ("a change", "work", "a change", "its start", "a change", "work")
CHANGES = (15, 50, 150)
"""A chosen change is one of the first 15, 50 or 150: a start makes about ten changes, a job about forty."""
STARTING_S, UPTIME_S = 1.5, 1.5
"""The longest time at which a start is killed, and a server after it has accepted an upload."""
MAX_UPTIME_S = 10.0
"""A server that has not reached its chosen change by then is killed anyway."""


def kill_once(
    fleet: Fleet, folder: Path, way: str, library: Path | None, rng: random.Random, program: tuple[str, ...]
) -> None:
    """Start a server and kill it in one of `WAYS`. Raises: AssertionError if it ended on its own.

    Without `library`, which file_operations.c makes, it is killed at work instead of at a chosen change.
    """
    if way == "a change" and library is not None:
        kill_at = rng.choice((-1, 1)) * rng.randint(1, rng.choice(CHANGES))
        program = under_library(library, folder, program, kill_at=kill_at)
    server = ServerProcess(folder, program=program)
    accepted = len(fleet.accepted)
    is_at_change = way == "a change" and library is not None

    def has_ended() -> bool:
        return server.process.poll() is not None

    try:
        if way == "its start":
            time.sleep(rng.uniform(0, STARTING_S))
        else:
            wait_until(lambda: has_ended() or server.root is not None, START_TIMEOUT_S)
            fleet.root = server.root
            if is_at_change:
                wait_until(has_ended, MAX_UPTIME_S)
            else:
                wait_until(lambda: has_ended() or len(fleet.accepted) > accepted, START_TIMEOUT_S)
                time.sleep(rng.uniform(0, UPTIME_S))
        assert server.process.poll() in (None, -9), server.output()
    finally:
        server.kill()
        fleet.root = None


def run_round(folder: Path, library: Path | None, kills: int, seed: int, program: tuple[str, ...]) -> Counter[str]:
    """Kill a server on the new `folder`, then check everything. Raises: AssertionError."""
    rng = random.Random(seed)
    key = make_key(folder)
    with Fleet(key, seed, clients=CLIENTS, open_jobs=OPEN_JOBS, still=small_pictures()) as fleet:
        counts = Counter[str]()
        for number in range(kills):
            way = WAYS[number % len(WAYS)]
            kill_once(fleet, folder, way, library, rng, program)
            counts[f"at {way}"] += 1
        found = inspect_folder(folder, thorough=True).problems
        damage = [problem for problem in found if problem.area != "foreign"]
        assert not damage, damage
    counts["stages given up"] += finish_and_check(fleet, folder, key, program)
    counts["jobs answered 202"] += len(fleet.accepted)
    counts["jobs with a text written anew"] += len(fleet.regenerated)
    counts["jobs stored"] += disk.count_jobs(folder)
    return counts


def small_pictures() -> list[tuple[str, bytes]]:
    return [("still.jpg", pictures.jpeg(64, 48, number)) for number in range(3)]


def main() -> None:
    options = options_of(__doc__, kills=1000)
    print(f"--kills {options.kills} --seed {options.seed}", flush=True)
    counts, killed, violations = Counter[str](), 0, 0
    with tempfile.TemporaryDirectory(prefix="kills-") as work:
        library = build(Path(work))
        while killed < options.kills:
            kills = min(ROUND, options.kills - killed)
            try:
                counts += run_round(Path(work) / str(killed), library, kills, options.seed + killed, options.program)
            except AssertionError as error:
                violations += 1
                print(f"round at kill {killed}: {error}", flush=True)
            killed += kills
            print(f"{killed} kills, {violations} rounds with violations, {dict(counts)}", flush=True)
    if violations:
        sys.exit(1)


if __name__ == "__main__":
    main()
