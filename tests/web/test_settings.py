"""The page's endpoints for the settings: what they show, what they change in the file, and what they refuse."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local import config
from imgproc_local.config import SETTINGS, load
from imgproc_local.storage.accounts import audit_log
from tests.support import pictures
from tests.support.service import Running, running

FILE = """# my settings

effort = "fast"  # enough for me
# a shop needs more
queue_limit = 7
"""

Page = tuple[Running, httpx.Client]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default settings file, which does not exist until a test writes it; nor does its folder."""
    path = tmp_path / "new" / "config.toml"
    monkeypatch.setattr(config, "default_config_path", lambda: path)
    return path


@contextmanager
def served(folder: Path, **environ: str) -> Iterator[Page]:
    """A service with the settings file, and a client that is signed in to its page."""
    loaded = load({"data_dir": folder / "data", "port": 0}, environ)
    with (
        running(folder, loaded=loaded) as service,
        httpx.Client(base_url=service.root, headers=service.page_session(), timeout=60) as client,
    ):
        yield service, client


def settings_in(answer: httpx.Response) -> dict[str, dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return {row["name"]: row for row in answer.json()["data"]["settings"]}


def change(client: httpx.Client, **values: Any) -> dict[str, dict[str, Any]]:
    return settings_in(client.patch("/local/settings", json=values))


def test_every_setting_is_shown_with_its_source_and_no_secret(file: Path, tmp_path: Path) -> None:
    file.parent.mkdir()
    file.write_text(FILE)
    with served(tmp_path, IMGPROC_COMPRESSION_KEY="secret-word", IMGPROC_PIXEL_TEXTS="false") as (_, client):
        answer = client.get("/local/settings")
    assert answer.json()["data"]["file"] == str(file)
    assert "secret-word" not in answer.text
    rows = settings_in(answer)
    assert tuple(rows) == SETTINGS
    assert rows["effort"] == {
        "name": "effort",
        "value": "fast",
        "in_effect": "fast",
        "default": "balanced",
        "description": rows["effort"]["description"],
        "source": "file",
        "changeable": True,
        "needs_restart": rows["effort"]["needs_restart"],
    }
    sources = {name: (row["source"], row["changeable"]) for name, row in rows.items()}
    assert sources["keep_location"] == ("default", True)
    assert sources["pixel_texts"] == ("IMGPROC_PIXEL_TEXTS", False)
    assert sources["data_dir"] == ("--data-dir", False)
    assert sources["queue_limit"] == ("file", False)
    assert (rows["compression_key"]["value"], rows["data_dir"]["default"]) == ("set", None)


def test_a_change_keeps_comments_order_mode_and_link_of_the_file(file: Path, tmp_path: Path) -> None:
    own = tmp_path / "dotfiles.toml"
    own.write_text(FILE)
    own.chmod(0o640)
    file.parent.mkdir()
    file.symlink_to(own)
    with served(tmp_path) as (_, client):
        rows = change(client, effort="best", quality_target=82, name_people="all")
        assert [rows[name]["value"] for name in ("effort", "quality_target", "name_people")] == ["best", 82, "all"]
        assert rows["quality_target"]["source"] == "file"
        text = FILE.replace('"fast"', '"best"') + 'quality_target = 82.0\nname_people = "all"\n'
        assert own.read_text() == text
        rows = change(client, effort=None, name_people=None, keep_location=None)
        assert (rows["effort"]["value"], rows["effort"]["source"]) == ("balanced", "default")
    assert own.read_text() == FILE.replace('effort = "fast"  # enough for me\n', "") + "quality_target = 82.0\n"
    assert (own.stat().st_mode & 0o777, file.is_symlink()) == (0o640, True)
    assert load({}, {}).config.quality_target == 82


def test_a_new_file_and_its_folder_are_for_their_owner_only(file: Path, tmp_path: Path) -> None:
    with served(tmp_path) as (_, client):
        assert client.get("/local/settings").json()["data"]["file"] == str(file)
        change(client, retention_jobs_days=90)
    assert file.read_text() == "retention_jobs_days = 90\n"
    assert [path.stat().st_mode & 0o777 for path in (file, file.parent)] == [0o600, 0o700]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"effort": "most"}, "effort", "effort .*can't be 'most'. Expected: CPU time"),
    ({"keep_location": "all", "quality_target": 99}, "quality_target", "99.*from 50 to 95"),
    ({"program_url": "http://example.com"}, "program_url", "program_url"),
    ({"pixel_texts": "perhaps"}, "pixel_texts", "can't be 'perhaps'"),
    *(
        ({name: value}, name, "can't be changed from the page")
        for name, value in {
            "host": "0.0.0.0",
            "data_dir": "/tmp",
            "cors_origins": "https://example.com",
            "compression_key": "x",
            "air_gapped": False,
            "port": None,
            "prot": 1,
        }.items()
    ),
    ({"codec_threads": 1}, "codec_threads", "set by IMGPROC_CODEC_THREADS, which wins"),
]
"""Changes that are refused, with the field and a part of the sentence that says so."""


def test_what_may_not_be_changed_is_refused_and_the_file_stays(file: Path, tmp_path: Path) -> None:
    file.parent.mkdir()
    file.write_text(FILE)
    with served(tmp_path, IMGPROC_CODEC_THREADS="2") as (_, client):
        before = client.get("/local/settings").json()
        for changes, field, message in REFUSED:
            answer = client.patch("/local/settings", json=changes)
            assert (answer.status_code, list(answer.json()["errors"])) == (422, [field]), answer.text
            [sentence] = answer.json()["errors"][field]
            assert re.search(message, sentence), sentence
            assert client.get("/local/settings").json() == before
            assert file.read_text() == FILE


def test_a_body_that_is_no_object_of_values_is_refused(file: Path, tmp_path: Path) -> None:
    with served(tmp_path) as (_, client):
        for body in (b"", b"[]", b'{"effort": ["best"]}', b'{"effort": {}}'):
            assert client.patch("/local/settings", content=body).status_code == 422
        with httpx.Client(base_url=client.base_url) as stranger:
            assert stranger.get("/local/settings").status_code == 401
            assert stranger.patch("/local/settings", json={"effort": "best"}).status_code == 401
    assert not file.exists()


def no_room(*_: object, **__: object) -> None:
    raise OSError(28, os.strerror(28))


def test_a_file_that_was_broken_by_hand_or_cannot_be_written_is_left_alone(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as (_, client):
        change(client, effort="best")
        for text, message in (("effort = ", "can't be read as TOML"), ("prot = 1", "Did you mean port")):
            file.write_text(text)
            answer = client.patch("/local/settings", json={"effort": "fast"})
            assert (answer.status_code, message in answer.json()["message"]) == (409, True), answer.text
            assert file.read_text() == text
        file.unlink()
        monkeypatch.setattr(config.files, "write_atomically", no_room)
        answer = client.patch("/local/settings", json={"effort": "fast"})
        assert answer.status_code == 503
        assert answer.json()["message"] == (
            f"The settings file {file} can't be written (No space left on device). Free space on its disk."
        )
        assert settings_in(client.get("/local/settings"))["effort"]["value"] == "best"


def test_without_a_home_folder_the_page_says_where_to_name_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "default_config_path", lambda: None)
    with served(tmp_path) as (_, client):
        assert client.get("/local/settings").json()["data"]["file"] is None
        answer = client.patch("/local/settings", json={"effort": "fast"})
    assert (answer.status_code, "IMGPROC_CONFIG" in answer.json()["message"]) == (409, True)


def test_a_setting_that_needs_a_start_is_in_effect_after_it(file: Path, tmp_path: Path) -> None:
    with served(tmp_path) as (service, client):
        row = change(client, codec_threads=1)["codec_threads"]
        assert (row["value"], row["in_effect"], row["needs_restart"]) == (1, 0, True)
        assert service.services.config.codec_threads == 0
    with served(tmp_path) as (_, client):
        assert settings_in(client.get("/local/settings"))["codec_threads"]["in_effect"] == 1


IN_BREMEN = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<rdf:Description xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/" photoshop:City="Bremen"/>'
    b"</rdf:RDF></x:xmpmeta>"
)


def test_what_stages_do_is_changed_for_the_next_upload(file: Path, tmp_path: Path) -> None:
    picture = pictures.encoded(pictures.photo(320, 240), quality=98, xmp=IN_BREMEN)

    def result(service: Running) -> tuple[bytes, int, str]:
        image = service.process("process", picture, languages="en")["image"]
        optimized = service.client.get(f"/images/{image['id']}/optimized").content
        return optimized, image["converted_size"], image["translations"][0]["seo_alt_text"]

    with served(tmp_path) as (service, client):
        before, converted_before, described = result(service)
        rows = change(client, quality_target="small", keep_location="none", pixel_texts=False)
        assert {rows[name]["in_effect"] for name in ("quality_target", "keep_location", "pixel_texts")} == {
            "small",
            "none",
            False,
        }
        after, converted_after, empty = result(service)
    assert (b"Bremen" in before, b"Bremen" in after) == (True, False)
    assert len(after) < 0.8 * len(before)
    assert converted_after < converted_before
    assert (bool(described), empty) == (True, "")


def test_the_rate_limit_is_changed_for_the_next_request(file: Path, tmp_path: Path) -> None:
    with served(tmp_path) as (service, client):
        limited = service.make_key(rate_limit=None)

        def limit() -> str:
            return httpx.get(f"{service.url}/credits/balance", headers={"X-API-Key": limited}).headers[
                "x-ratelimit-limit"
            ]

        assert limit() == "60"
        change(client, rate_limit_per_minute=5)
        assert limit() == "5"


def test_a_change_is_a_line_of_the_audit_log(file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit_log.addHandler(caplog.handler)
    try:
        with served(tmp_path) as (_, client):
            change(client, effort="best", keep_location=None)
    finally:
        audit_log.removeHandler(caplog.handler)
    assert 'setting.change setting=effort value="best" session=' in caplog.text
    assert "setting.change setting=keep_location value=null session=" in caplog.text
