"""Kills and interrupts `process` at random moments: the results are those of an undisturbed run, and nothing is left.

`python -m tests.ordeals.batch [--pictures 200] [--disturbances 20] [--seed N]`

A tree of small pictures, of which many get the same name, is processed without disturbance. Then it is processed again
into another folder; the command is killed, interrupted, or interrupted twice at random moments and started again. At
the end the files and the manifest are those of the undisturbed run, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.cli.conftest import Program
from tests.cli.process.test_resume import content
from tests.support import pictures

UPTIME_S = 4.0
"""The longest time from the start of the command to its disturbance."""
FINISH_S = 600
LANGUAGES = "en,de"
SAME_NAME = 5
"""Consecutive pictures whose file names differ only in their numbers, and which therefore get the same texts."""


def make_tree(root: Path, count: int) -> None:
    """`count` pictures in nested folders; every fortieth is a copy of another, and two are broken."""
    for number in range(count):
        folder = root / f"{number // 20:02}" / f"{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"green stone {'abcd'[number // SAME_NAME % 4]}-{number:04}.jpg"
        (folder / name).write_bytes(pictures.jpeg(64, 48, seed=number % 40))
    for number in range(2):
        (root / f"broken {number}.jpg").write_bytes(pictures.broken_jpeg())


def disturb(program: Program, arguments: tuple[object, ...], rng: random.Random, counts: Counter[str]) -> None:
    """Start the command, and kill or interrupt it at a random moment."""
    with program.start(*arguments) as process:
        time.sleep(rng.uniform(0, UPTIME_S))
        kind = rng.choice(("kill", "kill", "interrupt", "interrupt twice"))
        process.send_signal(signal.SIGKILL if kind == "kill" else signal.SIGINT)
        if kind == "interrupt twice":
            time.sleep(rng.uniform(0, 0.3))
            process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=FINISH_S)
    # -2 and 1: interrupted before the command could handle it; 0 and 1: all pictures were in progress or done
    assert process.returncode in (-9, -2, 0, 1, 130), (process.returncode, stderr)
    assert kind == "kill" or "Traceback" not in stderr or "KeyboardInterrupt" in stderr, stderr
    counts[kind] += 1


def run(folder: Path, options: argparse.Namespace, rng: random.Random) -> Counter[str]:
    """Disturb and finish one run, and compare it with the undisturbed one in `folder`. Raises: AssertionError."""
    program, out = Program(folder), folder / "out"
    arguments = ("process", folder / "pictures", "--languages", LANGUAGES, "--out", out, "--json")
    counts = Counter[str]()
    for _ in range(options.disturbances):
        disturb(program, arguments, rng, counts)
    finished = program(*arguments, timeout_s=FINISH_S)
    assert sum(image["status"] == "failed" for image in json.loads(finished.stdout)) == 2, finished.stderr
    assert not program.data.exists()
    expected, actual = content(folder / "expected"), content(out)
    assert actual.keys() == expected.keys(), sorted(actual.keys() ^ expected.keys())[:10]
    assert actual == expected, [name for name in actual if actual[name] != expected[name]][:10]
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--disturbances", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    options = parser.parse_args()
    print(f"--pictures {options.pictures} --disturbances {options.disturbances} --seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="batch-") as work:
        folder = Path(work)
        make_tree(folder / "pictures", options.pictures)
        arguments = ("process", folder / "pictures", "--languages", LANGUAGES, "--out", folder / "expected", "--json")
        images = json.loads(Program(folder)(*arguments, timeout_s=FINISH_S).stdout)
        done = sum(image["status"] == "completed" for image in images)
        assert done == options.pictures, Counter(image["status"] for image in images)
        print(f"equal; {dict(run(folder, options, rng))}", flush=True)


if __name__ == "__main__":
    main()
