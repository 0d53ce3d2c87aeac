"""Compares the idle service in a virtual environment with the extra `cluster` and in one without it, in turns.

`python -m tests.bench.archive_extra [--rounds 5]`. It installs both environments from the lock files. Linux only.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from msgspec import Struct

from tests.bench.load import MIB, print_table, verdict
from tests.bench.memory import start_seconds
from tests.faults.server_process import ROOT, serving
from tests.support import processes

LOCKS = {"without": "requirements.lock", "with": "requirements-cluster.lock"}
MAX_MORE_MIB = 1.0
MAX_MORE_CPU_S = 0.05
SETTLE_S = 1.0


class Measured(Struct, frozen=True):
    """One start: seconds to the first response, and CPU time and memory of the idle service."""

    start_s: float
    cpu_s: float
    idle_mib: float


def installed(folder: Path, lock: str) -> Path:
    """The Python of a new virtual environment with the packages of a lock file."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--require-hashes", "-r", ROOT / lock], check=True)
    return python


def measure(folder: Path, python: Path) -> Measured:
    program = (python, "-m", "imgproc_local")  # the working folder has the package
    start_s = start_seconds(folder, program)
    with serving(folder, program=program) as server:
        server.wait_ready()
        time.sleep(SETTLE_S)
        return Measured(start_s, processes.cpu_s(server.pid), server.rss_bytes() / MIB)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="archive-extra-") as name:
        folder = Path(name)
        pythons = {kind: installed(folder / kind, lock) for kind, lock in LOCKS.items()}
        runs: dict[str, list[Measured]] = {kind: [] for kind in pythons}
        for python in pythons.values():
            measure(folder / "data", python)  # warm
        for _ in range(rounds):
            for kind, python in pythons.items():
                runs[kind].append(measure(folder / "data", python))
    median = {
        kind: Measured(*(statistics.median(getattr(run, field) for run in own) for field in Measured.__struct_fields__))
        for kind, own in runs.items()
    }
    without, with_extra = median["without"], median["with"]
    more_mib, more_cpu_s = with_extra.idle_mib - without.idle_mib, with_extra.cpu_s - without.cpu_s
    print_table(
        f"The service without and with the extra cluster, medians of {rounds} starts",
        [
            ("serve to its first response", f"{without.start_s:.2f} s, {with_extra.start_s:.2f} s", ""),
            ("CPU time of the start", f"{without.cpu_s:.2f} s, {with_extra.cpu_s:.2f} s", ""),
            ("idle memory (RSS)", f"{without.idle_mib:.1f} MiB, {with_extra.idle_mib:.1f} MiB", ""),
            ("more CPU time", f"{more_cpu_s:+.2f} s", verdict(more_cpu_s, MAX_MORE_CPU_S, "s")),
            ("more memory", f"{more_mib:+.1f} MiB", verdict(more_mib, MAX_MORE_MIB, "MiB")),
        ],
    )
    sys.exit(0 if more_cpu_s <= MAX_MORE_CPU_S and more_mib <= MAX_MORE_MIB else 1)


if __name__ == "__main__":
    main()
