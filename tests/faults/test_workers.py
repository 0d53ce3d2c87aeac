"""The service keeps pictures out of its own process, and survives whatever happens to its worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.faults import disk
from tests.faults.server_process import ROOT, SOURCE, clean_environment, serving
from tests.ordeals.worker_kills import kill_workers
from tests.support import pictures
from tests.support.service import Service
from tests.support.worker_pool import WAIT_S, ends, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")

IMAGE_LIBRARIES = ("libvips", "PIL/", "pillow.libs", "libheif", "ssimulacra")
IDLE_LIMIT_BYTES = 60 * 1024 * 1024
KILLS = 5
ENDED_S = 40
"""A worker that is not ended is there for a minute after its picture."""
OBSTRUCTED = (
    sys.executable,
    "-c",
    """
import subprocess, sys, threading
from pathlib import Path
from imgproc_local.cli import main
from imgproc_local.engine import workers

kind, obstacle = sys.argv[1], Path(sys.argv[2])
start_process, start_thread = subprocess.Popen, threading.Thread.start

def popen(*arguments, **options):
    if kind == "process" and obstacle.exists():
        raise FileNotFoundError(2, "No such file or directory")
    return start_process(*arguments, **options)

def start(thread):
    if kind == "thread" and obstacle.exists():
        raise RuntimeError("can't start new thread")
    start_thread(thread)

subprocess.Popen, threading.Thread.start = popen, start
workers.START_PATIENCE_S = workers.START_RETRY_S = 0.2
del sys.argv[:3]
main()
""",
)
"""The program, which can start no process or no thread while the file `obstacle` exists."""


def test_the_service_loads_no_image_library_and_holds_little_memory(folder: Path, key: str) -> None:
    with serving(folder) as server, Service(server.wait_ready(), key) as service:
        for operation, picture in (
            ("process", pictures.jpeg()),
            ("process", pictures.png()),
            ("optimize", pictures.gif()),
        ):
            assert service.process(operation, picture)["status"] == "completed"
        assert server.workers()
        maps = Path(f"/proc/{server.pid}/maps").read_text()
        assert [name for name in IMAGE_LIBRARIES if name in maps] == []
        assert server.rss_bytes() < IDLE_LIMIT_BYTES


def test_a_deleted_job_and_the_stop_of_the_service_end_its_worker_at_once(folder: Path, key: str) -> None:
    picture = pictures.jpeg(3000, 2000)
    with serving(folder) as server, Service(server.wait_ready(), key) as service:

        def dispatch() -> tuple[str, int]:
            """A job that is running, and its worker."""
            job_id = service.dispatch("convert", picture, format="avif")["job_id"]
            (worker,) = server.workers()  # it has read the upload, and gets the stage
            read_s = psutil.Process(worker).cpu_times().user
            assert wait_until(lambda: psutil.Process(worker).cpu_times().user > read_s + 0.3)
            return job_id, worker

        job_id, worker = dispatch()
        assert service.client.delete(f"/jobs/{job_id}").is_success
        assert ends(worker, ENDED_S)
        job_id, worker = dispatch()
        os.kill(worker, signal.SIGTERM)  # as supervisors do that stop all processes of a service at once
        assert not ends(worker, 0.5), "the service decides when its worker ends"
        assert server.terminate() == 0
        assert ends(worker, ENDED_S)
    with disk.database(folder) as rows:
        assert [tuple(row) for row in rows.execute("SELECT state, attempts FROM stages")] == [("pending", 0)]


def test_workers_killed_at_random_moments_fail_no_other_job(folder: Path) -> None:
    """`python -m tests.ordeals.worker_kills` does this for longer."""
    print(kill_workers(folder, KILLS, seed=7, program=SOURCE))


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_what_has_no_worker_waits_or_is_refused(tmp_path: Path, folder: Path, key: str, kind: str) -> None:
    obstacle = tmp_path / "obstacle"
    program = (*OBSTRUCTED, kind, str(obstacle), "imgproc-local")
    with serving(folder, program=program) as server, Service(server.wait_ready(), key) as service:
        health = f"{service.root}/healthz"
        job_id = service.dispatch("optimize", pictures.jpeg(3000, 2000))["job_id"]
        obstacle.touch()
        for pid in server.workers():
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: service.client.get(health).status_code == 503)
        assert "can't be started" in service.client.get(health).json()["message"]
        # where it gets no threads, a worker is started again and again, and ends at once
        assert wait_until(lambda: server.workers() == [])
        assert service.job(job_id).get("errors", []) == []
        refused = service.client.post("/images/process", files={"image": ("a.jpg", pictures.jpeg())})
        assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
        assert "can't be started" in refused.json()["message"]
        obstacle.unlink()
        final = service.final(job_id)
        assert final["status"] == "completed", final
        assert wait_until(lambda: service.client.get(health).status_code == 200)
        assert server.terminate() == 0
        assert "Traceback" not in server.output()


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_the_health_says_that_uploads_are_refused_until_a_worker_can_be_started(
    tmp_path: Path, folder: Path, key: str, kind: str
) -> None:
    """No stage waits, so that nothing but the upload has tried to start a worker."""
    obstacle = tmp_path / "obstacle"
    program = (*OBSTRUCTED, kind, str(obstacle), "imgproc-local")
    with serving(folder, program=program) as server, Service(server.wait_ready(), key) as service:
        health = f"{service.root}/healthz"
        obstacle.touch()
        assert service.upload("optimize", pictures.jpeg()).status_code == 503
        assert wait_until(lambda: service.client.get(health).status_code == 503)
        for _ in range(3):
            answer = service.client.get(health)
            assert answer.status_code == 503
            assert "can't be started" in answer.json()["message"]
        obstacle.unlink()
        assert wait_until(lambda: service.client.get(health).status_code == 200)
        assert service.process("optimize", pictures.jpeg())["status"] == "completed"


def test_process_ends_with_the_reason_if_no_worker_can_be_started(tmp_path: Path) -> None:
    picture, obstacle = tmp_path / "a.jpg", tmp_path / "obstacle"
    picture.write_bytes(pictures.jpeg())
    obstacle.touch()
    done = subprocess.run(
        [*OBSTRUCTED, "process", str(obstacle), "imgproc-local", "process", str(picture), "--out", tmp_path / "out"],
        cwd=ROOT,
        env=clean_environment(data_dir=tmp_path / "data"),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode not in (0, 2), done.stderr
    assert "The process that works on pictures can't be started" in done.stdout + done.stderr
