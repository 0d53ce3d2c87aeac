"""Functions that tests run in worker processes in place of stages. Each is named by what it does."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from imgproc_local.domain.errors import BrokenImage, CheckStop, StageFailed
from imgproc_local.engine.stage import Output, WorkItem
from imgproc_local.engine.thumbnails import ThumbnailSource
from imgproc_local.engine.workers import memory_limit_bytes

StageFunction = Callable[[WorkItem, CheckStop], Output]


def make_small_file(work: WorkItem, check_stop: CheckStop) -> Output:
    return Output(data=b"small", format=work.info.format)


def keep_original(work: WorkItem, check_stop: CheckStop) -> Output:
    return Output(keeps_original=True)


def crash(work: WorkItem, check_stop: CheckStop) -> Output:
    ctypes.string_at(0)
    return Output()


calls_in_this_process = itertools.count(1)


def crash_in_a_used_worker(work: WorkItem, check_stop: CheckStop) -> Output:
    return crash(work, check_stop) if next(calls_in_this_process) > 1 else Output(keeps_original=True)


def start_a_process_and_hang(work: WorkItem, check_stop: CheckStop) -> Output:
    """Writes the id of the started process beside the result."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    Path(os.environ["TMPDIR"], "child").write_text(str(child.pid))
    return hang_with_the_interpreter_lock(work, check_stop)


def hang_with_the_interpreter_lock(work: WorkItem, check_stop: CheckStop) -> Output:
    ctypes.PyDLL(None).sleep(1000)
    return Output()


def allocate_without_end(work: WorkItem, check_stop: CheckStop) -> Output:
    blocks = []
    while True:
        blocks.append(b"\1" * (16 << 20))


def map_memory_without_end(work: WorkItem, check_stop: CheckStop) -> Output:
    """Shared mappings, which the limit of the process's own memory does not count."""
    blocks = []
    while True:
        block = mmap.mmap(-1, 16 << 20)
        for page in range(0, len(block), 4096):
            block[page] = 1
        blocks.append(block)


def fail_after_using_most_of_its_memory(work: WorkItem, check_stop: CheckStop) -> Output:
    held = b"\1" * (memory_limit_bytes(work.info) * 7 // 10)
    raise BrokenImage(f"The picture is damaged ({len(held)}).")


def raise_domain_error(work: WorkItem, check_stop: CheckStop) -> Output:
    raise StageFailed("Expected more.")


def raise_value_error(work: WorkItem, check_stop: CheckStop) -> Output:
    raise ValueError("an error in the program")


def try_what_is_forbidden(work: WorkItem, check_stop: CheckStop) -> Output:
    """Fails with the names of the attempts that succeeded."""
    succeeded = []
    with contextlib.suppress(OSError):
        work.original.with_name("written-by-a-worker").write_text("x")
        succeeded.append("writing beside the original")
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", int(work.plan.project_name)), timeout=1).close()
        succeeded.append("connecting")
    libc = ctypes.CDLL(None)
    if libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0) >= 0:
        succeeded.append("a socket from C")
    succeeded += [name for name in os.environ if name.startswith("IMGPROC_") and name != "IMGPROC_AIR_GAPPED"]
    if succeeded:
        raise StageFailed(", ".join(succeeded))
    return Output(keeps_original=True)


def _answer_after(write: Callable[[Path, bytes], object], work: WorkItem) -> Output:
    """An answer with a file that `write` makes, as a compromised worker might."""
    Path.write_bytes = write  # type: ignore[method-assign,assignment]
    return Output(data=b"", format=work.info.format)


def answer_with_a_link(work: WorkItem, check_stop: CheckStop) -> Output:
    """Its result is a link to another file of the user."""
    return _answer_after(lambda path, _: path.symlink_to(work.original), work)


def answer_with_a_folder(work: WorkItem, check_stop: CheckStop) -> Output:
    return _answer_after(lambda path, _: (path / "inside").mkdir(parents=True), work)


# ---- in place of `engine.thumbnails.make_thumbnail` ----


def crash_on_a_thumbnail(source: ThumbnailSource, check_stop: CheckStop) -> bytes:
    ctypes.string_at(0)
    return b""
