"""`max_width_px` and `max_height_px`: results that are scaled down."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from tests.support import pictures
from tests.support.service import Running

PICTURE = pictures.jpeg()
MESSAGE = "{name} must be an integer from 1 to 65535; received {received}."


def size_px(service: Running, image_id: str, variant: str) -> tuple[int, int]:
    return Image.open(io.BytesIO(service.client.get(f"/images/{image_id}/{variant}").content)).size


def test_results_fit_inside_both_limits(service: Running) -> None:
    width, height = Image.open(io.BytesIO(PICTURE)).size
    fields = {"max_width_px": width, "max_height_px": height // 4}
    image = service.process("process", PICTURE, **fields)["image"]
    for variant in ("optimized", "converted"):
        assert size_px(service, image["id"], variant) == (round(width / height * (height // 4)), height // 4)
    assert image["optimized_size"] < image["original_size"]
    for operation, variant in (("optimize", "optimized"), ("convert", "converted")):
        image = service.process(operation, PICTURE, max_width_px=1)["image"]
        assert size_px(service, image["id"], variant) == (1, 1)
    image = service.process("optimize", PICTURE, max_width_px=65535)["image"]
    assert size_px(service, image["id"], "optimized") == (width, height), "never scaled up"


@pytest.mark.parametrize("name", ["max_width_px", "max_height_px"])
@pytest.mark.parametrize("value", ["0", "-5", "65536", "12.5", "wide"])
def test_another_value_is_refused(service: Running, name: str, value: str) -> None:
    for operation in ("optimize", "convert", "process"):
        answer = service.upload(operation, PICTURE, **{name: value})
        assert answer.status_code == 422
        assert answer.json()["errors"] == {name: [MESSAGE.format(name=name, received=repr(value))]}


def test_an_empty_value_is_no_limit(service: Running) -> None:
    assert service.upload("analyze", PICTURE, max_width_px="wide").status_code == 202, "analyze has no such field"
    assert service.upload("optimize", PICTURE, max_width_px="").status_code == 202
