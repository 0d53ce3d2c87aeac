"""Stored files that another program damaged or deleted: never served, and repaired by an upload of the same picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import disk
from tests.support import pictures
from tests.support.service import Running, running


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


EVERY_DAMAGE = pytest.mark.parametrize("damage", [cut, flip, Path.unlink])


@EVERY_DAMAGE
def test_a_damaged_result_is_not_served_and_is_repaired_by_the_same_upload(
    service: Running, damage: Callable[[Path], None]
) -> None:
    picture = pictures.jpeg()
    job = service.process("optimize", picture)
    address = f"/images/{job['image']['id']}/optimized"
    intact = service.client.get(address)
    assert intact.status_code == 200
    damage(service.services.blobs.path(intact.headers["etag"].strip('"')))
    answer = service.client.get(address)
    assert answer.status_code == 404
    assert "in the data folder" in answer.json()["message"]
    again = service.process("optimize", picture)
    assert again["status"] == "completed"
    repaired = service.client.get(address)
    assert repaired.content == intact.content
    assert repaired.headers["etag"] == intact.headers["etag"]


@EVERY_DAMAGE
def test_a_stage_of_a_damaged_upload_fails_costs_nothing_and_says_what_to_do(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    with running(tmp_path / "data") as service:
        service.run(service.services.engine.stop())  # so that the stage is still pending when the file is damaged
        balance = service.client.get("/credits/balance").json()["data"]["balance"]
        job_id = service.dispatch("optimize", pictures.jpeg())["job_id"]
    (file,) = disk.stored_files(tmp_path / "data").values()
    damage(file)
    with running(tmp_path / "data") as service:
        job = service.final(job_id)
        assert job["status"] == "failed"
        assert "Send the picture again" in job["errors"][0]["message"]
        missing = service.client.get(f"/images/{job['image']['id']}/optimized")
        assert missing.status_code == 404
        assert missing.json()["error"].endswith(f"but it has failed. {job['errors'][0]['message']}")
        assert service.client.get("/credits/balance").json()["data"]["balance"] == balance
