"""`max_width_px` and `max_height_px`: results that are scaled down."""

from __future__ import annotations

import io

import httpx
import pytest
from PIL import Image

from tests.support import pictures
from tests.support.service import Running

PICTURE = pictures.jpeg()
MESSAGE = "{name} must be an integer from 1 to 65535; received {received}."


def dispatch(service: Running, operation: str, key: str | None = None, **fields: object) -> httpx.Response:
    return service.client.post(
        f"/images/{operation}",
        files={"image": ("a.jpg", PICTURE)},
        data={name: str(value) for name, value in fields.items()},
        headers={} if key is None else {"Idempotency-Key": key},
    )


def size_px(service: Running, image_id: str, variant: str) -> tuple[int, int]:
    return Image.open(io.BytesIO(service.client.get(f"/images/{image_id}/{variant}").content)).size


def test_results_fit_inside_both_limits(service: Running) -> None:
    width, height = Image.open(io.BytesIO(PICTURE)).size
    fields = {"max_width_px": width, "max_height_px": height // 4}
    image = service.final(dispatch(service, "process", **fields).json()["data"]["job_id"])["image"]
    for variant in ("optimized", "converted"):
        assert size_px(service, image["id"], variant) == (round(width / height * (height // 4)), height // 4)
    assert image["optimized_size"] < image["original_size"]
    for operation, variant in (("optimize", "optimized"), ("convert", "converted")):
        image = service.final(dispatch(service, operation, max_width_px=1).json()["data"]["job_id"])["image"]
        assert size_px(service, image["id"], variant) == (1, 1)
    image = service.final(dispatch(service, "optimize", max_width_px=65535).json()["data"]["job_id"])["image"]
    assert size_px(service, image["id"], "optimized") == (width, height), "never scaled up"


@pytest.mark.parametrize("name", ["max_width_px", "max_height_px"])
@pytest.mark.parametrize("value", ["0", "-5", "65536", "12.5", "wide"])
def test_another_value_is_refused(service: Running, name: str, value: str) -> None:
    for operation in ("optimize", "convert", "process"):
        answer = dispatch(service, operation, **{name: value})
        assert answer.status_code == 422
        assert answer.json()["errors"] == {name: [MESSAGE.format(name=name, received=repr(value))]}


def test_an_empty_value_is_no_limit_and_another_limit_another_body_for_an_idempotency_key(service: Running) -> None:
    assert dispatch(service, "analyze", max_width_px="wide").status_code == 202, "analyze has no such field"
    assert dispatch(service, "optimize", max_width_px="").status_code == 202
    fields = [{}, {}, {"max_width_px": 40}, {"max_height_px": 40}]
    assert [dispatch(service, "optimize", "k", **each).status_code for each in fields] == [202, 202, 409, 409]
