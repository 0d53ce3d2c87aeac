"""The CPU time of a worker process of Dask and of the processes that it has started."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress


def used_cpu_s(children: Iterable[int]) -> float:
    """The CPU time of this process, of its children that have ended, and of those of `children` that still run.

    It grows monotonically, except on Windows, which does not count children that have ended.
    """
    import psutil

    total_s = sum(os.times()[:4])
    for pid in children:
        with suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            total_s += times.user + times.system
    return total_s
