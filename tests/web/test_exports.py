"""Downloads of archives from the local page."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import httpx
import pytest

from imgproc_local.domain.image import Format
from imgproc_local.web import local
from tests.support.finished import Result, add_job, text
from tests.support.service import Running, running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with one finished image."""
    with running(tmp_path_factory.mktemp("data")) as started:
        optimized = Result(b"optimized", Format.JPEG)
        started.run(add_job(started.services, b"original", optimized=optimized, texts=[text("en", "red-boat")]))
        yield started


def begin(page: httpx.Client, **body: object) -> str:
    answer = page.post("/local/exports", json={"write_texts": False, **body})
    assert answer.status_code == 201, answer.text
    url: str = answer.json()["data"]["url"]
    return url


def test_the_page_downloads_an_archive_as_often_as_it_asks(page: httpx.Client) -> None:
    url = begin(page)
    assert url.endswith("/API%20Uploads.zip")
    answers = [page.get(url) for _ in range(2)]
    assert answers[0].content == answers[1].content
    assert answers[0].headers["cache-control"] == "no-store"
    assert "content-security-policy" in answers[0].headers
    with zipfile.ZipFile(io.BytesIO(answers[0].content)) as archive:
        assert archive.namelist() == ["red-boat.jpg", "alt.csv", "alt.json"]
    assert page.head(url).status_code == 200


def test_a_download_expires_and_the_oldest_is_forgotten(
    service: Running, page: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [begin(page) for _ in range(local.MAX_TICKETS + 1)]
    assert page.get(urls[0]).status_code == 404
    assert page.get(urls[1]).status_code == 200
    monkeypatch.setattr(local, "TICKET_VALID_S", -1)
    expired = page.get(begin(page))
    assert (expired.status_code, list(expired.json())) == (404, ["message"])


def test_only_the_page_can_begin_and_who_has_the_ticket_can_download(service: Running, page: httpx.Client) -> None:
    assert httpx.post(f"{service.root}/local/exports", json={}).status_code == 401
    _, _, _, ticket, name = begin(page).split("/")
    assert len(ticket) >= 20, "it can't be guessed"
    assert httpx.get(f"{service.root}/local/exports/{ticket}/{name}").status_code == 200
    assert httpx.get(f"{service.root}/local/exports/{ticket[:-1]}/{name}").status_code == 404
