"""`POST /images/optimize` with an external compression service: requests, accepted results, and failures."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.compose import compression_service
from imgproc_local.config import Config, Secret
from imgproc_local.domain.errors import SettingInvalid
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


FAULTS: dict[str, tuple[list[Behaviour], list[Behaviour]]] = {  # for POST, for GET
    "wrong key": ([server.error_response(401, "Unauthorized", "Credentials are invalid.")], []),
    "wrong type": ([server.created_at("/o")], [server.response(200, pictures.webp())]),
    "not a picture": ([server.created_at("/o")], [server.response(200, b"<html>")]),
    "truncated": ([], [server.send_half]),
    "another picture": ([server.created_at("/o")], [server.response(200, pictures.jpeg(seed=9, quality=50))]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_if_the_service_fails_the_local_codecs_are_used_and_the_log_says_why(
    tmp_path: Path, remote_service: TinifyServer, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    remote_service.posts, remote_service.gets = (list(behaviours) for behaviours in FAULTS[fault])
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
    tmp_path: Path, remote_service: TinifyServer
) -> None:
    remote_service.posts = [server.never_respond]
    with running(tmp_path, **settings(remote_service, stage_timeout_s=8)) as service:
        assert service.process("optimize", pictures.jpeg())["status"] == "completed"


def test_gifs_and_pictures_for_other_operations_are_not_sent(tmp_path: Path, remote_service: TinifyServer) -> None:
    with running(tmp_path, **settings(remote_service)) as service:
        assert service.process("optimize", pictures.gif())["status"] == "completed"
        assert service.process("convert", pictures.jpeg())["status"] == "completed"
        assert service.process("analyze", pictures.jpeg())["status"] == "completed"
    assert remote_service.requests == []


def test_by_default_no_service_is_contacted(tmp_path: Path, remote_service: TinifyServer) -> None:
    assert compression_service(Config()) is None
    with running(tmp_path, compression_url=remote_service.url, compression_key=Secret(KEY), air_gapped=True) as service:
        assert service.process("process", pictures.jpeg())["status"] == "completed"
    assert remote_service.requests == []


def test_air_gapped_mode_and_a_service_exclude_each_other(tmp_path: Path, remote_service: TinifyServer) -> None:
    with (
        pytest.raises(SettingInvalid, match="air_gapped"),
        running(tmp_path, **settings(remote_service, air_gapped=True)),
    ):
        pass
    assert remote_service.requests == []


def test_no_repr_contains_the_key(remote_service: TinifyServer) -> None:
    config = Config(**settings(remote_service))
    assert KEY not in repr(config)
    assert KEY not in str(config.compression_key)
    assert KEY not in repr(compression_service(config))
