"""Texts that are to be written anew when the server is killed are written once, and paid once."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local.storage.inspection import inspect_folder
from tests.faults import disk
from tests.faults.server_process import ServerProcess, serving
from tests.support import pictures

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")

LANGUAGES = ("en", "de", "fr", "it", "es")


@contextmanager
def server_and_client(folder: Path, key: str) -> Iterator[tuple[ServerProcess, httpx.Client]]:
    with serving(folder) as server:
        address = f"{server.root}/api/v1"
        with httpx.Client(base_url=address, headers={"X-API-Key": key}, timeout=40) as client:
            yield server, client


def wait_for_texts(client: httpx.Client, job_id: str) -> dict[str, Any]:
    """The job with its details, once each text was written anew."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        job: dict[str, Any] = client.get(f"/jobs/{job_id}?include=details").json()["data"]
        if not any(text["regenerating"] for text in job["image"]["details"]["texts"].values()):
            return job
        time.sleep(0.05)
    raise AssertionError(f"texts are not written after 30 s: {job}")


def test_texts_are_written_anew_once_after_a_kill(folder: Path, key: str) -> None:
    with server_and_client(folder, key) as (server, client):
        form = {"languages": ",".join(LANGUAGES)}
        sent = client.post("/images/analyze", files={"image": ("a.jpg", pictures.jpeg())}, data=form)
        job_id = sent.json()["data"]["job_id"]
        image_id = client.get(f"/jobs/{job_id}", headers={"Prefer": "wait=30"}).json()["data"]["image"]["id"]
        paths = [f"/images/{image_id}/translations/{language}" for language in LANGUAGES]
        for path in paths:
            client.patch(path, json={"seo_alt_text": "By hand."}).raise_for_status()
        for path in paths:
            assert client.post(f"{path}/regenerate").status_code == 202
        server.kill()
    with server_and_client(folder, key) as (server, client):
        job = wait_for_texts(client, job_id)
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
