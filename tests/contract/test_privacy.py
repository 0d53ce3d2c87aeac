"""No secret planted in an upload or its name is in a result, an export or a name, and the kinds are reported."""

from __future__ import annotations

import io
import re
import zipfile

from imgproc_local.domain.privacy import Removed
from tests.codecs.metadata.planted import ALT_TEXT, COPYRIGHT, CREATOR, NEEDLES, source
from tests.codecs.metadata.test_secrets import found_in, searchable
from tests.support.service import Running

FILENAME = "mail.one@private.example 61.0101, -1.0101 AB-4711-XZ.jpg"
FORMATS = {"jpg": "JPEG", "webp": "WEBP"}
TIME = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z")
KINDS = set(Removed) - {Removed.UNREADABLE, Removed.CONTENT_CREDENTIALS, Removed.DATE}


def test_no_secret_of_an_upload_is_in_an_export(service: Running) -> None:
    job = service.process("process", source("JPEG"), FILENAME, languages="en,de,ar", format="webp")
    assert job["status"] == "completed"
    image = service.client.get(f"/jobs/{job['job_id']}", params={"include": "removed"}).json()["data"]["image"]
    assert set(image["removed"]) >= KINDS
    assert image["removed"] == sorted(image["removed"])
    assert [needle for needle in NEEDLES if needle in str(image["removed"])] == []
    body = {"images": [image["id"]], "variants": ["optimized", "converted"]}
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
