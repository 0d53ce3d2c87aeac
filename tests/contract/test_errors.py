"""One error shape from every source, one row in the table for every error that can leave the API."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from imgproc_local.api import errors as table
from imgproc_local.domain import errors as domain
from tests.support import pictures
from tests.support.service import GatedDescriber, Running

NOT_OVER_HTTP = {
    "ServiceError",
    "DataFolderBusy",
    "ModelUnusable",
    "SettingInvalid",
    "StageFailed",
    "ExternalServiceFailed",
    "StageTimedOut",
    "StageCancelled",
}
"""Told on the command line, or inside a job's `errors`."""


def every_error() -> list[type[domain.ServiceError]]:
    """The errors of the module. Subclasses that a room has for its own use leave it as their parents."""
    found: list[type[domain.ServiceError]] = []
    waiting = [domain.ServiceError]
    while waiting:
        kind = waiting.pop()
        found.append(kind)
        waiting += [child for child in kind.__subclasses__() if child.__module__ == domain.__name__]
    return found


def test_every_error_has_a_row_or_is_never_sent() -> None:
    for kind in every_error():
        covered = any(parent in table.TABLE for parent in kind.__mro__)
        assert covered != (kind.__name__ in NOT_OVER_HTTP), kind


FORM = {"Content-Type": "multipart/form-data; boundary=b"}


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/api/v1/none", {}, 404),
        ("DELETE", "/api/v1/credits/balance", {}, 405),
        ("GET", "/api/v1/jobs/none", {}, 404),
        ("GET", "/api/v1/jobs/", {}, 404),
        ("POST", "/api/v1/images/process/", {}, 404),
        ("GET", "/metrics/", {}, 404),
        ("GET", "/static/style.css/", {}, 404),
        ("GET", "/api/v1/jobs/%ff%fe", {}, 404),
        ("POST", "/api/v1/images/process", {"content": b"\xff\xfe", "headers": FORM}, 422),
        ("POST", "/api/v1/images/process", {"content": b"{}", "headers": {"Content-Type": "application/json"}}, 422),
        ("POST", "/api/v1/images/process", {"content": b"x"}, 422),
        ("POST", "/api/v1/images/process", {"files": {"image": ("a.jpg", b"")}}, 422),
        ("POST", "/api/v1/images/process", {"files": {"image": ("a.jpg", b"x")}, "data": {"languages": "["}}, 422),
        ("POST", "/api/v1/images/process", {"data": {"image": "words"}, "files": {"y": ("y", b"")}}, 422),
        ("POST", "/api/v1/images/process", {"files": [("image", ("a.jpg", b"x"))] * 2}, 422),
        ("POST", "/api/v1/images/process", {"files": [(f"f{n}", ("a", b"x")) for n in range(200)]}, 422),
        ("GET", "/api/v1/credits/afford", {"params": {"images": "9" * 400}}, 422),
        ("GET", "/api/v1/jobs?cursor=%ff", {}, 422),
    ],
)
def test_every_refusal_has_a_message(
    service: Running, method: str, path: str, options: dict[str, object], status: int
) -> None:
    headers = {"X-API-Key": service.key, **options.pop("headers", {})} if options else {"X-API-Key": service.key}  # type: ignore[dict-item]
    answer = httpx.request(method, service.root + path, headers=headers, **options)  # type: ignore[arg-type]
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert isinstance(body["message"], str)
    assert body["message"]
    if status == 422:
        assert body["errors"]
        assert body["message"].startswith(next(iter(body["errors"].values()))[0])


def test_a_wrong_method_gets_the_allowed_methods(service: Running) -> None:
    answer = service.client.request("PUT", "/jobs/01arz3ndektsv4rrffq69g5fav")
    assert {"GET", "HEAD", "DELETE"} <= set(answer.headers["allow"].split(", "))
    assert "POST" not in answer.headers["allow"]


def test_an_unknown_project_is_reported_with_the_other_problems(service: Running) -> None:
    form = {"project_id": "01arz3ndektsv4rrffq69g5fav", "format": "bmp"}
    answer = service.client.post("/images/process", files={"image": ("a.jpg", b"x")}, data=form)
    assert set(answer.json()["errors"]) == {"project_id", "format", "image"}
    assert answer.json()["message"].endswith("(and 2 more errors)")


@pytest.mark.parametrize("path", ["/languages", "/credits/balance", "/jobs/{job}", "/jobs/{job}/events"])
def test_head_is_get_without_its_body_and_leaves_the_connection_usable(
    gated: Running, describer: GatedDescriber, path: str
) -> None:
    describer.open.clear()
    job_id = gated.dispatch("analyze", pictures.jpeg())["job_id"]
    answer = gated.client.head(path.format(job=job_id))
    assert (answer.status_code, answer.content) == (200, b"")
    assert gated.client.get("/credits/balance").status_code == 200


def test_an_unusable_image_has_its_own_code_unless_a_field_is_invalid_too(service: Running) -> None:
    def refused(code: str, picture: bytes, **form: str | bytes) -> str:
        answer = service.upload("process", picture, **form)
        assert (answer.status_code, answer.headers["x-error-code"]) == (422, code)
        return str(answer.json()["message"])

    refused("unsupported_image", b"words")
    refused("broken_image", pictures.jpeg()[:200])
    refused("invalid_request", b"words", format="bmp")
    assert "UTF-8" in refused("invalid_request", b"words", project_name=b"\xff\xfe")


def test_an_unexpected_error_is_reported_as_server_error(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> int:
        raise RuntimeError("secret")

    monkeypatch.setattr(service.services.store.credits, "balance", broken)
    answer = service.client.get("/credits/balance")
    assert answer.status_code == 500
    assert answer.json() == {"message": "Server Error"}
    assert answer.headers["x-ratelimit-limit"] == "0"
    assert answer.headers["x-ratelimit-reset"].isdecimal()


def test_the_whole_request_is_bounded_not_only_its_image(service: Running) -> None:
    def body() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="other"; filename="a"\r\n\r\n'
        for _ in range(40):
            yield bytes(1024 * 1024)

    assert service.client.post("/images/process", content=body(), headers=FORM).status_code == 413
