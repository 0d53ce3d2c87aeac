"""Worker processes: what a function does to its own process stays there, and ends with its own stage."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from imgproc_local.domain.errors import (
    NoWorker,
    StageCancelled,
    StageFailed,
    StageTimedOut,
)
from imgproc_local.engine import workers as workers_module
from imgproc_local.engine.stage import Output, WorkItem
from imgproc_local.engine.workers import MEGABYTE, WorkerError, Workers, memory_limit_bytes
from imgproc_local.system.piped_child import program
from tests.support import worker_functions as functions
from tests.support.worker_pool import StageFunction, ends, is_running, run, wait_until, work_item, worker_pool

ROOT = Path(__file__).parents[2]
ENDED_S = 40
"""How long the end of a process may take on a busy machine. Those that are not ended take a minute or more."""
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the system offers this on Linux only")


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with worker_pool(tmp_path) as pool:
        yield pool


@pytest.fixture
def work(tmp_path: Path) -> WorkItem:
    return work_item(tmp_path)


def test_errors_of_the_function_are_raised_to_the_caller(workers: Workers, work: WorkItem) -> None:
    with pytest.raises(StageFailed, match=r"^Expected more\.$"):
        run(workers, functions.raise_domain_error, work)
    with pytest.raises(WorkerError, match=r"raise_value_error(.|\n)*an error in the program"):
        run(workers, functions.raise_value_error, work)
    assert len(workers.pids) == 1, "an error does not end the worker"


def test_a_crash_fails_its_own_stage_only(workers: Workers, work: WorkItem) -> None:
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(lambda: [run(workers, functions.make_small_file, work) for _ in range(20)])
        with pytest.raises(StageFailed, match="SIGSEGV"):
            run(workers, functions.crash, work)
        assert all(output.path for output in other.result())
    assert run(workers, functions.keep_original, work) == Output(keeps_original=True)


def test_a_crash_of_a_used_worker_is_tried_once_more_on_a_fresh_one(workers: Workers, work: WorkItem) -> None:
    run(workers, functions.crash_in_a_used_worker, work)
    [first] = workers.pids
    assert run(workers, functions.crash_in_a_used_worker, work) == Output(keeps_original=True)
    assert workers.pids != [first]


def test_a_hang_that_holds_the_interpreter_lock_ends_at_the_deadline(workers: Workers, work: WorkItem) -> None:
    run(workers, functions.keep_original, work)
    began_s = time.monotonic()
    with pytest.raises(StageTimedOut, match="Not finished within 1 seconds"):
        run(workers, functions.hang_with_the_interpreter_lock, work, timeout_s=1)
    assert time.monotonic() - began_s < 30  # the function itself would take 1000 s
    assert workers.pids == []
    assert run(workers, functions.keep_original, work) == Output(keeps_original=True)


def test_a_cancelled_function_is_killed_with_the_processes_it_started(
    workers: Workers, work: WorkItem, tmp_path: Path
) -> None:
    def started() -> list[Path]:
        return [path for path in (tmp_path / "work").glob("*/child") if path.read_text()]

    children: list[int] = []

    def check_stop() -> None:
        if files := started():
            children.append(int(files[0].read_text()))
            raise StageCancelled("Cancelled.")

    with pytest.raises(StageCancelled):
        workers.run(functions.start_a_process_and_hang, work, memory_limit_bytes(work.info), check_stop)
    assert workers.pids == []
    assert not list((tmp_path / "work").iterdir()), "the folder of a worker is deleted with it"
    if sys.platform == "linux":
        assert ends(children[0], ENDED_S)


@linux_only
@pytest.mark.parametrize(
    "function",
    [functions.allocate_without_end, functions.map_memory_without_end, functions.fail_after_using_most_of_its_memory],
)
def test_memory_above_the_limit_fails_the_stage_and_says_so(
    workers: Workers, work: WorkItem, function: functions.StageFunction
) -> None:
    limit_mb = memory_limit_bytes(work.info) // MEGABYTE
    with pytest.raises(StageFailed, match=f"more memory than the {limit_mb} MB"):
        run(workers, function, work)
    assert run(workers, functions.keep_original, work) == Output(keeps_original=True)


@linux_only
def test_a_worker_can_not_use_the_network_nor_write_elsewhere_nor_read_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, worker_pool(tmp_path) as workers:
        work = work_item(tmp_path, project_name=str(listener.getsockname()[1]))
        with pytest.raises(StageFailed, match="writing beside the original, connecting, a socket from C"):
            functions.try_what_is_forbidden(work, lambda: None)  # all of it works outside of a worker
        assert run(workers, functions.try_what_is_forbidden, work) == Output(keeps_original=True)


@pytest.mark.parametrize("function", [functions.answer_with_a_link, functions.answer_with_a_folder])
def test_a_result_that_is_no_file_is_refused(
    workers: Workers, work: WorkItem, tmp_path: Path, function: StageFunction
) -> None:
    with pytest.raises(StageFailed, match="can't be read"):
        run(workers, function, work)
    assert not list((tmp_path / "results").iterdir())
    assert work.original.is_file()


def test_idle_workers_are_ended(tmp_path: Path, work: WorkItem) -> None:
    with worker_pool(tmp_path, idle_s=0.5) as workers:
        for _ in range(2):
            run(workers, functions.keep_original, work)
            pid = workers._idle[-1].pid
            assert wait_until(lambda: workers.pids == [])
            if sys.platform == "linux":
                assert ends(pid)


def test_a_program_that_can_not_start_is_reported_with_the_reason_in_the_log(
    tmp_path: Path, work: WorkItem, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "START_PATIENCE_S", 0.1)
    for command in ([sys.executable, "-c", "raise SystemExit('no codecs here')"], [str(tmp_path / "missing")]):
        pool = Workers(tmp_path / "work", tmp_path, command, os.environ, 10)
        with pytest.raises(NoWorker, match="can't be started"):
            run(pool, functions.keep_original, work)
        pool.close()
    assert "no codecs here" in caplog.text
    assert "No such file" in caplog.text


@pytest.mark.skipif(os.name != "posix", reason="the program is replaced by a link")
def test_a_program_that_was_removed_is_noticed_without_a_picture(tmp_path: Path, work: WorkItem) -> None:
    command = program("codec-worker")
    link = tmp_path / "program"
    link.symlink_to("/bin/sh")
    pool = Workers(tmp_path / "work", tmp_path, [str(link), "-c", 'exec "$@"', "sh", *command], os.environ, 10)
    pool.check_start()
    assert pool.pids == [], "no process is started while nothing is wrong"
    link.unlink()
    with pytest.raises(NoWorker):
        pool.check_start()
    link.symlink_to("/bin/sh")
    pool.check_start()
    [pid] = pool.pids
    run(pool, functions.keep_original, work)
    assert pool.pids == [pid], "the process of the check is used"
    pool.check_start()
    assert pool.pids == [pid]
    pool.close()


SERVICE = """
import sys, threading, time
from pathlib import Path
from tests.support import worker_functions as functions
from tests.support.worker_pool import run, wait_until, work_item, worker_pool

folder = Path(sys.argv[1])
with worker_pool(folder) as workers:
    work = work_item(folder)
    run(workers, functions.keep_original, work)
    busy = threading.Thread(target=run, args=(workers, functions.hang_with_the_interpreter_lock, work))
    busy.start()
    assert wait_until(lambda: workers._busy)
    run(workers, functions.keep_original, work)
    print(*workers.pids, flush=True)
    time.sleep(60)
"""


@linux_only
def test_workers_end_when_the_service_is_killed(tmp_path: Path) -> None:
    service = subprocess.Popen([sys.executable, "-c", SERVICE, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE)
    with service:
        assert service.stdout is not None
        pids = [int(pid) for pid in service.stdout.readline().split()]
        assert len(pids) == 2
        assert all(is_running(pid) for pid in pids)
        service.send_signal(signal.SIGKILL)
        assert wait_until(lambda: not any(is_running(pid) for pid in pids), ENDED_S), "one idle, one holding its lock"
