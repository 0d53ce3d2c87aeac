"""The service keeps pictures out of its own process, and survives whatever happens to its worker processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.faults import disk
from tests.faults.server_process import ROOT, ServerProcess, clean_environment, make_key, serving
from tests.support import pictures
from tests.support.worker_pool import ends, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")

IMAGE_LIBRARIES = ("libvips", "PIL/", "pillow.libs", "libheif", "ssimulacra")
IDLE_LIMIT_BYTES = 60 * 1024 * 1024
WAIT_S = 60
ENDED_S = 20
"""A worker that is not ended is there for a minute after its picture."""
DEATH_MESSAGE = "SIGKILL"
"""In the error of a stage whose worker was killed."""
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


def workers_of(server: ServerProcess) -> list[int]:
    """The worker processes of the server."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"codec-worker" in arguments and parent == server.pid:
            found.append(int(folder.name))
    return found


def test_the_service_loads_no_image_library_and_holds_little_memory(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    key = make_key(folder)
    with serving(folder) as server, httpx.Client(headers={"X-API-Key": key}, timeout=WAIT_S) as client:
        url = f"{server.wait_ready()}/api/v1"
        for name, picture in (("a.jpg", pictures.jpeg()), ("a.png", pictures.png()), ("a.gif", pictures.gif())):
            operation = "optimize" if name == "a.gif" else "process"
            answer = client.post(
                f"{url}/images/{operation}", files={"image": (name, picture)}, headers={"Prefer": "wait=60"}
            )
            assert answer.json()["data"]["status"] == "completed", answer.text
        assert workers_of(server)
        maps = Path(f"/proc/{server.pid}/maps").read_text()
        assert [name for name in IMAGE_LIBRARIES if name in maps] == []
        assert server.rss_bytes() < IDLE_LIMIT_BYTES


def test_a_deleted_job_and_the_stop_of_the_service_end_its_worker_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    key = make_key(folder)
    picture = {"image": ("a.jpg", pictures.jpeg(4000, 3000))}
    with serving(folder) as server, httpx.Client(headers={"X-API-Key": key}, timeout=WAIT_S) as client:
        url = f"{server.wait_ready()}/api/v1"

        def dispatch() -> tuple[str, int]:
            """A job that is running, and its worker."""
            answer = client.post(f"{url}/images/convert", files=picture, data={"format": "avif"})
            job_id = answer.json()["data"]["job_id"]
            assert wait_until(lambda: workers_of(server) != [], WAIT_S)
            return job_id, workers_of(server)[0]

        job_id, worker = dispatch()
        assert client.delete(f"{url}/jobs/{job_id}").is_success
        assert ends(worker, ENDED_S)
        job_id, worker = dispatch()
        assert server.terminate() == 0
        assert ends(worker, ENDED_S)
    with disk.database(folder) as rows:
        assert [tuple(row) for row in rows.execute("SELECT state, attempts FROM stages")] == [("pending", 0)]


def test_workers_killed_at_random_moments_fail_no_other_job(tmp_path: Path) -> None:
    """`python -m tests.ordeals.worker_kills` does this for longer."""
    folder = tmp_path / "data"
    key = make_key(folder)
    moments = random.Random(7)
    killed: list[int] = []
    done = threading.Event()
    with serving(folder) as server, httpx.Client(headers={"X-API-Key": key}, timeout=WAIT_S) as client:
        url = f"{server.wait_ready()}/api/v1"

        def kill() -> None:
            while not done.wait(moments.uniform(0.3, 3)):
                if found := workers_of(server):
                    os.kill(victim := moments.choice(found), signal.SIGKILL)
                    killed.append(victim)

        killer = threading.Thread(target=kill)
        killer.start()
        began_s = time.monotonic()
        jobs = [
            client.post(f"{url}/images/process", files={"image": ("a.jpg", picture)}).json()["data"]
            for picture in (pictures.jpeg(640, 480, seed) for seed in range(12))
        ]
        finals = []
        for job in jobs:
            while True:
                final = client.get(f"{url}/jobs/{job['job_id']}", headers={"Prefer": "wait=20"}).json()["data"]
                if final["status"] in ("completed", "failed"):
                    break
                assert time.monotonic() - began_s < 3 * WAIT_S
            finals.append(final)
        done.set()
        killer.join()
        errors = [error["message"] for final in finals for error in final.get("errors", [])]
        assert killed
        assert len(errors) <= len(killed)
        assert all(DEATH_MESSAGE in message for message in errors), errors
        assert server.terminate() == 0
        assert "Traceback" not in server.output()
    disk.check_folder(folder)


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_what_has_no_worker_waits_and_healthz_says_so(tmp_path: Path, kind: str) -> None:
    folder, obstacle = tmp_path / "data", tmp_path / "obstacle"
    key = make_key(folder)
    program = (*OBSTRUCTED, kind, str(obstacle), "imgproc-local")
    with serving(folder, program=program) as server, httpx.Client(headers={"X-API-Key": key}, timeout=WAIT_S) as client:
        root = server.wait_ready()
        obstacle.touch()
        answer = client.post(f"{root}/api/v1/images/process", files={"image": ("a.jpg", pictures.jpeg())})
        assert answer.status_code == 202, answer.text
        job = f"{root}/api/v1/jobs/{answer.json()['data']['job_id']}"
        assert wait_until(lambda: client.get(f"{root}/healthz").status_code == 503, WAIT_S)
        assert "can't be started" in client.get(f"{root}/healthz").json()["message"]
        # where it gets no threads, a worker is started again and again, and ends at once
        assert wait_until(lambda: workers_of(server) == [], WAIT_S)
        assert client.get(job).json()["data"].get("errors", []) == []
        obstacle.unlink()
        final = client.get(job, headers={"Prefer": "wait=60"}).json()["data"]
        assert final["status"] == "completed", final
        assert client.get(f"{root}/healthz").status_code == 200
        assert server.terminate() == 0
        assert "Traceback" not in server.output()


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
