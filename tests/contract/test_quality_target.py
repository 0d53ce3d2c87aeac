"""`quality_target`: the quality of the results of one upload."""

from __future__ import annotations

import pytest

from tests.support import pictures
from tests.support.service import Running

PICTURE = pictures.jpeg(320, 240, quality=97)


def test_the_quality_of_an_upload_replaces_that_of_the_service(service: Running) -> None:
    sizes = []
    for target, stored in (("visually-lossless", "visually-lossless"), ("", None), ("70", 70.0), ("Small", "small")):
        job = service.process("process", PICTURE, quality_target=target)
        path = f"/jobs/{job['job_id']}?include=details"
        assert service.client.get(path).json()["data"]["image"]["details"]["quality_target"] == stored
        sizes.append((job["image"]["optimized_size"], job["image"]["converted_size"]))
    best, web, score_70, small = sizes
    assert all(larger > smaller for larger, smaller in zip(best + web + small, web + small + score_70, strict=True))


def test_the_score_of_lossy_results_is_told(service: Running) -> None:
    def scores(upload: bytes, **form: object) -> tuple[float | None, float | None]:
        job = service.process("process", upload, **form)
        details = service.client.get(f"/jobs/{job['job_id']}?include=details").json()["data"]["image"]["details"]
        return details["optimized_score"], details["converted_score"]

    for score in scores(PICTURE, quality_target=75):
        assert score is not None
        assert 73 < score < 78
        assert score == round(score, 1)
    assert scores(pictures.gif())[0] is None


@pytest.mark.parametrize("value", ["best", "49", "95.5", "-70", "7e1", "nan", "٧٠", '"web"'])
def test_another_quality_is_refused(service: Running, value: str) -> None:
    for operation in ("optimize", "convert", "process"):
        answer = service.upload(operation, PICTURE, quality_target=value)
        assert answer.status_code == 422
        (problem,) = answer.json()["errors"]["quality_target"]
        assert "one of visually-lossless, web, small, or a score from 50 to 95" in problem
    assert service.upload("analyze", PICTURE, quality_target=value).status_code == 202, "analyze has no such field"
