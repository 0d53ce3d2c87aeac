"""Watches the memory of the client of `archive` and of its process for the manifest, which the benches start here.

Both run without NumPy, which the extra `cluster` does not install and PyArrow would load. Linux only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from imgproc_local.archive.manifest_process import COMMAND
from tests.faults.server_process import ROOT
from tests.support import processes

SAMPLE_S = 0.1
MB = 1e6


class Sample(Struct, frozen=True):
    """Resident memory in MB. `private` is the client without files of libraries, `child` the peak of its child so far.

    `other` is that of another process.
    """

    client: float
    private: float
    child: float
    other: float


@contextmanager
def started(
    folder: Path, function: str, *arguments: object, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that calls a function of `tests.bench`, given as `module:name`, with the arguments as text.

    `folder` receives a module that hides NumPy. The process is ended with the block.
    """
    (folder / "numpy.py").write_text("raise ModuleNotFoundError('hidden', name='numpy')\n")
    module, _, name = function.partition(":")
    code = f"import sys\nfrom tests.bench.{module} import {name}\n{name}(*sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def watch(client: subprocess.Popen[bytes], other_pid: int | None = None) -> list[Sample]:
    """The memory until the client ends, which must succeed."""
    samples: list[Sample] = []
    while client.poll() is None:
        resident, private = processes.rss_bytes(client.pid), processes.private_bytes(client.pid)
        below = processes.descendants(client.pid)
        child = max((processes.peak_rss_bytes(pid) for pid in below if _is_child(pid)), default=0)
        other = processes.rss_bytes(other_pid) if other_pid is not None else 0
        if resident and private:
            samples.append(Sample(resident / MB, private / MB, child / MB, other / MB))
        try:
            client.wait(SAMPLE_S)
        except subprocess.TimeoutExpired:
            continue
    if client.returncode != 0:
        raise SystemExit(f"The measured process ended with {client.returncode}.")
    return samples


def _is_child(pid: int) -> bool:
    return processes.command_line(pid).rstrip().endswith(f" {COMMAND}")
