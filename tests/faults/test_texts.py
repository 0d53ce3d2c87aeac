"""Texts that are to be written anew when the server is killed are written once, and paid once."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.storage.inspection import inspect_folder
from tests.faults import disk
from tests.faults.server_process import serving
from tests.support import pictures
from tests.support.service import Service

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")

LANGUAGES = ("en", "de", "fr", "it", "es")


def wait_for_texts(service: Service, job_id: str) -> dict[str, Any]:
    """The job with its details, once each text was written anew."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        job: dict[str, Any] = service.client.get(f"/jobs/{job_id}?include=details").json()["data"]
        if not any(text["regenerating"] for text in job["image"]["details"]["texts"].values()):
            return job
        time.sleep(0.05)
    raise AssertionError(f"texts are not written after 30 s: {job}")


def test_texts_are_written_anew_once_after_a_kill(folder: Path, key: str) -> None:
    with serving(folder) as server, Service(server.wait_ready(), key) as service:
        job = service.process("analyze", pictures.jpeg(), languages=",".join(LANGUAGES))
        paths = [f"/images/{job['image']['id']}/translations/{language}" for language in LANGUAGES]
        for path in paths:
            service.client.patch(path, json={"seo_alt_text": "By hand."}).raise_for_status()
        for path in paths:
            assert service.client.post(f"{path}/regenerate").status_code == 202
        server.kill()
    with serving(folder) as server, Service(server.wait_ready(), key) as service:
        job = wait_for_texts(service, job["job_id"])
        assert server.terminate() == 0, server.output()
    assert job["status"] == "completed"
    assert {text["source"] for text in job["image"]["translations"]} == {"pixels"}
    assert {text["error"] for text in job["image"]["details"]["texts"].values()} == {None}
    with disk.database(folder) as rows:
        (paid,) = rows.execute("SELECT -sum(amount) FROM ledger WHERE stage LIKE 'regenerate-%'").fetchone()
        (versions,) = rows.execute("SELECT count(*) FROM translation_versions").fetchone()
    assert paid == len(LANGUAGES)
    assert versions == 2 * len(LANGUAGES), "the first version and the edit, before the one that was written anew"
    assert inspect_folder(folder, thorough=True).problems == ()
