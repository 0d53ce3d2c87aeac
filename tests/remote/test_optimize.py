"""`POST /images/optimize` with an external compression service: requests, accepted results, and failures."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from imgproc_local import remote
from imgproc_local.compose import compression_service
from imgproc_local.config import Config, Secret
from imgproc_local.domain.errors import SettingInvalid
from imgproc_local.remote import Tinify
from tests.codecs import pictures as scenes
from tests.remote import tinify_server as server
from tests.remote.tinify_server import KEY, Behaviour, TinifyServer
from tests.support import pictures
from tests.support.service import Running, running


def settings(remote_service: TinifyServer, **more: Any) -> dict[str, Any]:
    return {
        "compression_service": "tinify",
        "compression_url": remote_service.url,
        "compression_key": Secret(KEY),
        **more,
    }


def optimized(service: Running, job: dict[str, Any]) -> bytes:
    """The optimized file of `job`, as served."""
    answer = service.client.get(f"/images/{job['image']['id']}/optimized")
    assert answer.status_code == 200, answer.text
    return answer.content


def test_the_result_of_the_service_is_served_with_the_metadata_to_preserve(
    tmp_path: Path, remote_service: TinifyServer
) -> None:
    source = scenes.jpeg_with_metadata()
    with running(tmp_path / "data", **settings(remote_service)) as service:
        job = service.process("optimize", source)
        assert job["status"] == "completed"
        data = optimized(service, job)
    result = remote_service.results[0]
    assert remote_service.count("POST") == remote_service.count("GET") == 1
    # the image data is that of the service, the metadata that of the original
    assert data[-2000:] == result[-2000:]
    assert scenes.COPYRIGHT.encode() in data
    for secret in scenes.SECRETS.values():
        assert secret not in data
        assert secret not in remote_service.requests[0].body
    assert job["image"]["optimized_size"] == len(data) < len(source)
    assert [file.name for file in (tmp_path / "data").iterdir() if file.name.endswith(".part")] == []


@pytest.mark.parametrize(
    ("posts", "gets"),
    [
        ([server.error_response(401, "Unauthorized", "Credentials are invalid.")], []),
        ([], [server.response(200, pictures.webp())]),
        ([], [server.response(200, b"<html>")]),
        ([], [server.send_half]),
        ([], [server.response(200, pictures.jpeg(seed=9, quality=50))]),
    ],
    ids=["wrong key", "wrong type", "not a picture", "truncated", "another picture"],
)
def test_if_the_service_fails_the_local_codecs_are_used_and_the_log_says_why(
    tmp_path: Path,
    remote_service: TinifyServer,
    posts: list[Behaviour],
    gets: list[Behaviour],
    caplog: pytest.LogCaptureFixture,
) -> None:
    remote_service.posts, remote_service.gets = posts, gets
    source = pictures.jpeg()
    with caplog.at_level(logging.DEBUG), running(tmp_path, **settings(remote_service)) as service:
        job = service.process("optimize", source)
        assert job["status"] == "completed"
        assert job["image"]["optimized_size"] < len(source)
    records = [entry for entry in caplog.records if entry.name == "imgproc_local.engine.results"]
    assert [entry.levelno for entry in records] == [logging.WARNING]
    assert "local codecs instead" in records[0].message
    assert KEY not in caplog.text


def test_a_picture_that_the_service_can_not_make_smaller_is_optimized_and_cleaned_locally(
    tmp_path: Path, remote_service: TinifyServer
) -> None:
    remote_service.shrink = lambda data: data
    with running(tmp_path, **settings(remote_service)) as service:
        job = service.process("optimize", scenes.jpeg_with_metadata(quality=30))
        data = optimized(service, job)
        large = service.process("optimize", pictures.jpeg())["image"]
    assert large["optimized_size"] < large["original_size"]
    for secret in scenes.SECRETS.values():
        assert secret not in data


def test_a_slow_service_leaves_half_of_the_time_limit_to_the_local_codecs(
    tmp_path: Path, remote_service: TinifyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits_s = []

    def impatient(url: str, key: str, timeout_s: float) -> Tinify:
        limits_s.append(timeout_s)
        return Tinify(url, key, 0.5)

    monkeypatch.setattr(remote, "Tinify", impatient)
    remote_service.posts = [server.never_respond]
    with running(tmp_path, **settings(remote_service, stage_timeout_s=100)) as service:
        assert service.process("optimize", pictures.jpeg())["status"] == "completed"
    assert limits_s == [50]


def test_only_what_is_asked_for_is_sent(tmp_path: Path, remote_service: TinifyServer) -> None:
    with running(tmp_path / "asked", **settings(remote_service)) as service:
        assert service.process("optimize", pictures.gif())["status"] == "completed"
        assert service.process("convert", pictures.jpeg())["status"] == "completed"
        assert service.process("optimize", pictures.jpeg(), quality_target=70)["status"] == "completed"
    # by default no service is contacted, and air-gapped mode and a service exclude each other
    assert compression_service(Config()) is None
    more = {"compression_url": remote_service.url, "compression_key": Secret(KEY), "air_gapped": True}
    with running(tmp_path / "default", **more) as service:
        assert service.process("process", pictures.jpeg())["status"] == "completed"
    with (
        pytest.raises(SettingInvalid, match="air_gapped"),
        running(tmp_path / "x", compression_service="tinify", **more),
    ):
        pass
    assert remote_service.requests == []
