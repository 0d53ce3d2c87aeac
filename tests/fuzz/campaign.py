"""Fuzzing: `python -m tests.fuzz.campaign TARGET --seconds 60 --seed 1`, or `all` for every target in turn.

With the package atheris the search is guided by coverage; without it, mutations of the seeds are tried at random.
Printed at the end: executions, inputs that were accepted, crashes, hangs, the slowest input and memory. Inputs that
crash or hang are written to the folder `--findings`; `TARGET --replay FILE` runs one of them again. The inputs that
reached new code are kept in the folder `--corpus`, where a later run begins with them.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

MAX_INPUT_S = 2.0
"""An input that takes more CPU time counts as a hang."""
MAX_INPUT_WITH_COVERAGE_S = 20.0
"""The same while coverage is counted, which makes the code up to ten times slower."""
ALARM_S = 40
"""An input that takes this much CPU time is interrupted."""
MAX_CORPUS = 400
"""Inputs that random mutations begin with, at most."""


class Campaign:
    """One run on one target: counts what it tries and stores what fails."""

    def __init__(self, target: str, seconds: float, seed: int, findings: Path) -> None:
        self.target, self.seconds, self.seed, self.findings = target, seconds, seed, findings
        self.max_input_s, self.end_s = MAX_INPUT_S, 0.0
        self.executions = self.accepted = self.hangs = 0
        self.crashes: dict[str, int] = {}
        self.slowest_s, self.slowest = 0.0, b""

    def begin(self) -> None:
        """Start the time limit. Called when everything is imported and the seeds are made."""
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
            self.record(error, data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        took_s = time.process_time() - started_s
        if took_s > self.slowest_s:
            self.slowest_s, self.slowest = took_s, data
        if took_s > self.max_input_s:
            self.hangs += 1
            self.store("hang", data)

    def record(self, error: Exception, data: bytes) -> None:
        """Count a crash by the place of its error in the package. The input of the first one is stored."""
        frames = traceback.extract_tb(error.__traceback__)
        where = next((each for each in reversed(frames) if "imgproc_local" in each.filename), frames[-1])
        place = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
        self.crashes[place] = self.crashes.get(place, 0) + 1
        if self.crashes[place] == 1:
            print(f"{self.target}: {place}: {error}"[:160], self.store("crash", data), sep="; ", flush=True)

    def store(self, kind: str, data: bytes) -> Path:
        self.findings.mkdir(parents=True, exist_ok=True)
        path = self.findings / f"{self.target}-{kind}-{hashlib.sha256(data).hexdigest()[:12]}"
        path.write_bytes(data)
        return path

    def summary(self) -> str:
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return (
            f"{self.target}: seed {self.seed}: {self.executions:,} executions, {self.accepted:,} accepted,"
            f" {len(self.crashes)} kinds of crashes, {self.hangs} hangs, slowest {self.slowest_s:.2f} s"
            f" ({len(self.slowest):,} bytes), peak memory {peak_mib} MiB, CPU {time.process_time():.0f} s"
        )


def by_random(campaign: Campaign) -> None:
    """Mutate the seeds, and each accepted input with some probability, until the time is over."""
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
        if campaign.accepted > accepted and len(corpus) < MAX_CORPUS and source.random() < 0.01:
            corpus.append(data)
    print(campaign.summary(), flush=True)


def by_coverage(campaign: Campaign, corpus: Path) -> None:
    """Let libFuzzer choose the mutations by the code that they reach. Does not return: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["imgproc_local", "multipart"]):
        from tests.fuzz import targets  # noqa: F401 - instruments what is imported
    from tests.fuzz.mutate import mutated
    from tests.fuzz.seeds import seeds

    campaign.max_input_s = MAX_INPUT_WITH_COVERAGE_S
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(campaign.target)):
        (corpus / f"seed-{number}").write_bytes(seed)

    def execute(data: bytes) -> None:
        if campaign.is_over:
            print(campaign.summary(), flush=True)
            os._exit(bool(campaign.crashes or campaign.hangs))
        campaign.execute(data)

    def mutate(data: bytes, max_bytes: int, seed: int) -> bytes:
        source = random.Random(seed)
        if source.random() < 0.5:
            return bytes(atheris.Mutate(data, max_bytes))
        return mutated(data, source, seeds(campaign.target)[:8])[:max_bytes]

    campaign.findings.mkdir(parents=True, exist_ok=True)
    campaign.begin()
    options = [f"-seed={campaign.seed}", "-max_len=262144", "-timeout=86400", "-rss_limit_mb=4096"]
    options.append(f"-artifact_prefix={campaign.findings}{os.sep}")  # inputs that libFuzzer itself finds slow
    atheris.Setup(["fuzz", *options, str(corpus)], execute, custom_mutator=mutate, internal_libfuzzer=True)
    atheris.Fuzz()


def run_all(options: argparse.Namespace) -> int:
    """Every target in a process of its own, the time divided between them. Returns how many failed."""
    from tests.fuzz.targets import TARGETS

    failed = 0
    for name in TARGETS:
        command = [sys.executable, "-m", "tests.fuzz.campaign", name, "--seconds", str(options.seconds / len(TARGETS))]
        command += ["--seed", str(options.seed), "--findings", str(options.findings)]
        command += ["--corpus", str(options.corpus / name)] if options.corpus else []
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        print(ended.stdout.strip(), flush=True)
        if ended.returncode:
            print(f"{name}: ended with {ended.returncode}", *ended.stderr.splitlines()[-5:], sep="\n", flush=True)
        failed += bool(ended.returncode)
    return failed


def interrupt(*_: object) -> None:
    raise TimeoutError(f"an input took longer than {ALARM_S} s")


def main(arguments: Any = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign", description=__doc__)
    parser.add_argument("target", help="a name of TARGETS in tests/fuzz/targets.py, or all")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=Path(tempfile.gettempdir()) / "imgproc-local-findings")
    parser.add_argument("--corpus", type=Path, help="default: a temporary folder, removed at the end")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this input, and print what it takes")
    options = parser.parse_args(arguments)
    if options.target == "all":
        return run_all(options)
    signal.signal(signal.SIGPROF, interrupt)
    campaign = Campaign(options.target, options.seconds, options.seed, options.findings)
    if options.replay:
        campaign.execute(options.replay.read_bytes())
        print(campaign.summary())
    elif importlib.util.find_spec("atheris") is None:
        by_random(campaign)
    else:
        with tempfile.TemporaryDirectory(prefix="imgproc-local-corpus-") as corpus:
            by_coverage(campaign, options.corpus or Path(corpus))
    return bool(campaign.crashes or campaign.hangs)


if __name__ == "__main__":
    sys.exit(main())
