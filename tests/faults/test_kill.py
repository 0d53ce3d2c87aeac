"""A server that is killed at random moments under load loses no job and does none twice.

`FAULT_SEED` repeats the moments and choices of a run. `python -m tests.ordeals.kills` is the thorough run.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from tests.faults import disk
from tests.faults.server_process import SOURCE, serving
from tests.ordeals.kills import run_round
from tests.ordeals.recorder import build
from tests.support import pictures
from tests.support.service import Service
from tests.support.worker_pool import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")

KILLS = 8
SEED = int(os.environ.get("FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)


def test_every_accepted_job_reaches_one_final_state_whenever_the_server_is_killed(tmp_path: Path) -> None:
    print(f"\nFAULT_SEED={SEED}")
    library = build(tmp_path) if sys.platform == "linux" and shutil.which("cc") else None
    counts = run_round(tmp_path / "data", library, KILLS, SEED, SOURCE)
    assert counts["jobs answered 202"] > 2, counts


def test_a_result_that_is_being_made_anew_when_the_server_is_killed_stays_until_the_new_one_is_there(
    folder: Path, key: str
) -> None:
    def remakes(*states: str) -> int:
        with disk.database(folder) as rows:
            found = [state for (state,) in rows.execute("SELECT state FROM remakes")]
            return sum(state in states for state in found)

    with serving(folder, codec_threads=1) as server, Service(server.wait_ready(), key) as service:
        image = service.process("process", pictures.jpeg(1000, 750), widths="300,900")["image"]
        path = f"/images/{image['id']}/converted"
        in_force = service.client.get(path).content
        body = {"images": [{"image_id": image["id"]}], "format": "avif", "max_width_px": 900}
        service.client.post("/images/remake", json=body).raise_for_status()
        assert wait_until(lambda: remakes("running") == 1)
        server.kill()
    assert remakes("running") == 1, "it was killed while it made one of two results"
    assert in_force in {file.read_bytes() for file in disk.stored_files(folder).values()}
    with serving(folder, codec_threads=1) as server, Service(server.wait_ready(), key) as service:
        assert wait_until(lambda: remakes("pending", "running") == 0)
        (job,) = service.client.get("/jobs", params={"include": "details"}).json()["data"]
        assert (job["status"], job["image"]["converted_format"]) == ("completed", "avif")
        assert (job["image"]["details"]["max_width_px"], job["image"]["details"]["remake_error"]) == (900, None)
        assert service.client.get(path).content != in_force
        assert service.client.get(f"{path}?width=300").headers["Content-Type"] == "image/avif"
        assert server.terminate() == 0, server.output()
    disk.check_folder(folder)
