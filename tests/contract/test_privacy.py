"""No secret planted in an upload or its name is in a result, an export or a name, and the kinds are reported."""

from __future__ import annotations

import io
import logging
import re
import zipfile
from pathlib import Path

import pytest

from imgproc_local.config import Secret
from imgproc_local.domain.image import Format
from imgproc_local.domain.privacy import Removed
from tests.codecs.metadata import profiles, test_icc
from tests.codecs.metadata.planted import ALT_TEXT, COPYRIGHT, CREATOR, NEEDLES, source
from tests.codecs.metadata.test_secrets import found_in, searchable
from tests.remote.tinify_server import KEY, tinify_server
from tests.support.service import Running, running

FILENAME = "mail.one@private.example 61.0101, -1.0101 AB-4711-XZ.jpg"
FORMATS = {"jpg": "JPEG", "webp": "WEBP"}
TIME = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z")
KINDS = set(Removed) - {Removed.UNREADABLE, Removed.DATE}


def test_no_secret_of_an_upload_is_in_an_export(service: Running) -> None:
    job = service.process("process", source("JPEG"), FILENAME, languages="en,de,ar", format="webp")
    assert job["status"] == "completed"
    image = service.client.get(f"/jobs/{job['job_id']}", params={"include": "removed"}).json()["data"]["image"]
    assert set(image["removed"]) >= KINDS
    assert image["removed"] == sorted(image["removed"])
    assert [needle for needle in NEEDLES if needle in str(image["removed"])] == []
    body = {"images": [image["id"]], "variants": ["optimized", "converted"], "allow_needs_text": True}
    answer = service.client.post("/exports", json=body)
    assert answer.status_code == 200, answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert len(archive.namelist()) == 4
        for entry in archive.namelist():
            data = archive.read(entry)
            assert found_in(entry.encode()) == []
            if entry in ("alt.csv", "alt.json"):
                # the name of the upload is the user's own, and a time may have the digits of a planted number
                assert found_in(TIME.sub(b"", data.replace(FILENAME.encode(), b""))) == []
                continue
            file_format = FORMATS[entry.rpartition(".")[2]]
            assert found_in(searchable(data, file_format)) == []
            for text in (ALT_TEXT, COPYRIGHT, CREATOR):
                assert text.encode() in searchable(data, file_format), text
            for text in image["translations"]:
                is_there = text["seo_alt_text"].encode() in searchable(data, file_format)
                assert is_there == (text["source"] == "embedded"), text


@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP", "AVIF"])
def test_no_secret_leaves_by_any_operation_nor_to_the_outside_service_nor_into_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.INFO)
    operations = {"AVIF": ["optimize"], "WEBP": ["analyze", "optimize", "process"]}.get(
        name, ["analyze", "optimize", "convert", "process"]
    )
    texts = ""
    with tinify_server() as outside:
        secrets = {"compression_url": outside.url, "compression_key": Secret(KEY)}
        with running(tmp_path / "data", compression_service="tinify", **secrets) as service:
            for operation in operations:
                for data in (source(name), test_icc.source(name, profiles.planted())):
                    fields = {"languages": "en,de,ja"} if operation in ("analyze", "process") else {}
                    job = service.process(operation, data, FILENAME, **fields)
                    assert job["status"] == "completed"
                    for each in job["image"]["translations"]:
                        texts += f"{each['seo_alt_text']}\n{each['seo_filename']}\n"
                    for variant in ("optimized", "converted"):
                        answer = service.client.get(f"/images/{job['image']['id']}/{variant}")
                        if answer.status_code == 200:
                            file_format = "WEBP" if variant == "converted" else name
                            assert found_in(searchable(answer.content, file_format)) == []
                            assert test_icc.markers_in(answer.content, Format[file_format]) == []
    assert found_in(texts.encode()) == []
    sent = [request.body for request in outside.requests if request.body]
    assert sent or name == "AVIF"
    for body in sent:
        assert found_in(searchable(body, name)) == []
        assert test_icc.markers_in(body, Format[name]) == []
    assert found_in(TIME.sub(b"", caplog.text.replace(FILENAME, "").encode())) == []
