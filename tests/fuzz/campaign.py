"""Fuzzing: `python -m tests.fuzz.campaign TARGET --seconds 60 --seed 1`, or `all` for every target in turn.

With the package atheris the search is guided by coverage; without it, mutations of the seeds are tried at random.
Printed at the end: executions, inputs that were accepted, crashes, hangs, the slowest input, memory and coverage.
Inputs that crash or hang are written to the folder `--findings`; `TARGET --replay FILE` runs one of them again. The
inputs that reached new code are kept in the folder `--corpus`, where a later run begins with them.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

MAX_INPUT_S = 2.0
"""An input that takes more CPU time counts as a hang.

Counting coverage makes the code up to ten times slower: an input that takes longer with it is timed again without it.
"""
ALARM_S = 20
"""An input that takes this much CPU time is interrupted."""
GRACE_S = 600
"""A run that lasts this much longer than `--seconds` is ended. Its start takes minutes on a busy machine."""
NAMES = (
    "detect",
    "jpeg",
    "png",
    "gif",
    "webp",
    "avif",
    "tiff",
    "heic",
    "xmp",
    "exif",
    "iptc",
    "icc",
    "texts",
    "multipart",
)


class Campaign:
    """One run on one target: counts what it tries and stores what fails."""

    def __init__(self, target: str, seconds: float, seed: int, findings: Path) -> None:
        self.target, self.seed, self.findings = target, seed, findings
        self.seconds, self.end_s = seconds, 0.0
        self.executions = self.accepted = self.hangs = self.slow_with_coverage = 0
        self.crashes: dict[str, int] = {}
        self.slowest_s, self.slowest = 0.0, b""
        self.engine = "random mutations"
        self.counts_coverage = False

    def begin(self) -> None:
        """Starts the time limit. Called when everything is imported and the seeds are made."""
        self.end_s = time.monotonic() + self.seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.end_s

    def execute(self, data: bytes) -> None:
        from tests.fuzz import targets

        self.executions += 1
        started_s = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, ALARM_S)
        try:
            self.accepted += targets.run(self.target, data)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            where = next((each for each in reversed(frames) if "imgproc_local" in each.filename), frames[-1])
            self.record(f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}"[:160], data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        took_s = time.process_time() - started_s
        if took_s > self.slowest_s:
            self.slowest_s, self.slowest = took_s, data
        if took_s > MAX_INPUT_S:
            path = self.store("hang", data)
            if self.counts_coverage:
                took_s = self.replay_s(path)
            if took_s > MAX_INPUT_S:
                self.hangs += 1
            else:
                self.slow_with_coverage += 1
                path.unlink()

    def replay_s(self, path: Path) -> float:
        """The CPU time in seconds that the input takes in a process of its own, without coverage; at most `ALARM_S`."""
        command = [sys.executable, "-m", "tests.fuzz.campaign", self.target, "--replay", str(path)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=GRACE_S)
        return float(ended.stdout.split()[0]) if ended.stdout else ALARM_S

    def record(self, what: str, data: bytes) -> None:
        key = what.partition(": ")[0]
        self.crashes[key] = self.crashes.get(key, 0) + 1
        if self.crashes[key] == 1:
            print(f"{self.target}: {what}; {self.store('crash', data)}", flush=True)

    def store(self, kind: str, data: bytes) -> Path:
        self.findings.mkdir(parents=True, exist_ok=True)
        path = self.findings / f"{self.target}-{kind}-{hashlib.sha256(data).hexdigest()[:12]}"
        path.write_bytes(data)
        return path

    def summary(self) -> str:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return (
            f"{self.target}: seed {self.seed}, {self.engine}: {self.executions:,} executions,"
            f" {self.accepted:,} accepted, {len(self.crashes)} kinds of crashes, {self.hangs} hangs"
            f" ({self.slow_with_coverage} inputs slow only while coverage is counted),"
            f" slowest {self.slowest_s:.2f} s ({len(self.slowest):,} bytes), peak memory {peak} MiB,"
            f" CPU {time.process_time():.0f} s"
        )


def by_random(campaign: Campaign) -> None:
    """Mutates the seeds, and each accepted input with some probability, until the time is over."""
    from tests.fuzz.mutate import mutated
    from tests.fuzz.seeds import seeds

    source = random.Random(campaign.seed)
    corpus = list(seeds(campaign.target))
    campaign.begin()
    for seed in corpus:
        campaign.execute(seed)
    while not campaign.is_over:
        accepted = campaign.accepted
        data = mutated(source.choice(corpus), source, tuple(corpus[:8]))
        campaign.execute(data)
        if campaign.accepted > accepted and source.random() < 0.01:
            if len(corpus) < 400:
                corpus.append(data)
            else:
                corpus[source.randrange(8, len(corpus))] = data
    print(campaign.summary(), flush=True)


def by_coverage(campaign: Campaign, kept_corpus: Path | None) -> None:
    """Lets libFuzzer choose the mutations by the code that they reach. Does not return: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["imgproc_local", "multipart"]):
        from tests.fuzz import targets  # noqa: F401 - instruments what is imported
    from tests.fuzz.mutate import mutated
    from tests.fuzz.seeds import seeds

    campaign.engine, campaign.counts_coverage = "atheris", True
    corpus = kept_corpus or Path(tempfile.mkdtemp(prefix="imgproc-local-corpus-"))
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(campaign.target)):
        (corpus / f"seed-{number}").write_bytes(seed)

    def execute(data: bytes) -> None:
        if campaign.is_over:
            print(campaign.summary(), flush=True)
            if kept_corpus is None:
                shutil.rmtree(corpus)
            os._exit(bool(campaign.crashes or campaign.hangs))
        campaign.execute(data)

    def mutate(data: bytes, max_bytes: int, seed: int) -> bytes:
        source = random.Random(seed)
        if source.random() < 0.5:
            return bytes(atheris.Mutate(data, max_bytes))
        return mutated(data, source, seeds(campaign.target)[:8])[:max_bytes]

    campaign.findings.mkdir(parents=True, exist_ok=True)
    campaign.begin()
    options = [f"-seed={campaign.seed}", "-max_len=262144", "-timeout=86400", "-rss_limit_mb=4096", "-verbosity=1"]
    options.append(f"-artifact_prefix={campaign.findings}{os.sep}")  # inputs that libFuzzer itself finds slow
    atheris.Setup(["fuzz", *options, str(corpus)], execute, custom_mutator=mutate, internal_libfuzzer=True)
    atheris.Fuzz()


def run_all(arguments: argparse.Namespace) -> int:
    """Every target in a process of its own, the time divided between them."""
    failed = 0
    for name in NAMES:
        command = [sys.executable, "-m", "tests.fuzz.campaign", name, "--seconds", str(arguments.seconds / len(NAMES))]
        command += ["--seed", str(arguments.seed), "--findings", str(arguments.findings)]
        command += ["--corpus", str(arguments.corpus / name)] if arguments.corpus else []
        command += ["--random"] if arguments.random else []
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = ended.stderr.splitlines()
        coverage = [line for line in lines if " cov: " in line][-1:]
        print(ended.stdout.strip(), *(f"coverage: {line.split(' exec/s')[0]}" for line in coverage), flush=True)
        if ended.returncode:
            print(f"{name}: ended with {ended.returncode}", *lines[-5:], sep="\n", flush=True)
        failed += bool(ended.returncode)
    return failed


def replay(target: str, data: bytes) -> int:
    """Runs one input, and prints its CPU time. After `ALARM_S` the system ends the process."""
    from tests.fuzz import targets

    signal.setitimer(signal.ITIMER_PROF, ALARM_S)
    started_s = time.process_time()
    try:
        accepted = targets.run(target, data)
    finally:
        print(f"{time.process_time() - started_s:.2f} s", flush=True)
    print("accepted" if accepted else "refused")
    return 0


def main(arguments: Any = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign", description=__doc__)
    parser.add_argument("target", choices=[*NAMES, "all"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=Path(tempfile.gettempdir()) / "imgproc-local-findings")
    parser.add_argument("--corpus", type=Path, help="default: a temporary folder, removed at the end")
    parser.add_argument("--random", action="store_true", help="do not use atheris")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this input, and print its CPU time in seconds")
    options = parser.parse_args(arguments)
    if options.target == "all":
        return run_all(options)
    if options.replay:
        return replay(options.target, options.replay.read_bytes())
    faulthandler.dump_traceback_later(options.seconds + GRACE_S, exit=True)

    def interrupt(*_: object) -> None:
        raise TimeoutError(f"an input took longer than {ALARM_S} s")

    signal.signal(signal.SIGPROF, interrupt)
    campaign = Campaign(options.target, options.seconds, options.seed, options.findings)
    guided = not options.random and importlib.util.find_spec("atheris") is not None
    with contextlib.suppress(KeyboardInterrupt):
        if guided:
            by_coverage(campaign, options.corpus)
        else:
            by_random(campaign)
    return bool(campaign.crashes or campaign.hangs)


if __name__ == "__main__":
    sys.exit(main())
