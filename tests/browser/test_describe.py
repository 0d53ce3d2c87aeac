"""One button that has a model describe every picture that needs a text."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.result import TextSource, Translation
from tests.browser.conftest import NumberedDescriber, OpenTab, Tab, jobs, violations, wait_until
from tests.support import pictures
from tests.support.service import Running, running

COUNT = 7


class Describer(NumberedDescriber):
    """Knows nothing of a picture until it is `ready`; from then on it describes one each time that it is let `go`."""

    ready = False
    go = threading.Semaphore(0)

    def describe(self, image: Any, languages: Any, hints: Any, check_stop: Any) -> tuple[Translation, ...]:
        if not self.ready:
            self.described = 3  # the next one is the fourth, which needs a text
            return super().describe(image, languages, hints, check_stop)
        while not self.go.acquire(timeout=0.05):
            check_stop()
        self.described += 1
        text = f"Described {self.described}."
        return tuple(Translation(code, f"described-{code}", text, TextSource.VISION) for code in languages)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[tuple[Running, Describer]]:
    """Seven pictures in two languages that need texts, and a model that could write them."""
    describer = Describer()
    describer.go = threading.Semaphore(0)
    with running(tmp_path / "data", lambda: describer) as started:
        for number in range(COUNT):
            started.process("analyze", pictures.jpeg(96, 64, seed=number), f"{number}.jpg", languages=["en", "de"])
        describer.ready = True
        yield started, describer
        describer.go.release(10 * COUNT)


def open_with_model(service: Running, open_tab: OpenTab, **options: Any) -> Tab:
    """The page of a service that says that a model is in use."""
    tab = open_tab(service, **options)

    def with_model(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        body["data"]["described_by"] = {"model": "tiny", "problem": None}
        route.fulfill(response=response, json=body)

    tab.page.route("**/local/overview", with_model)
    tab.page.reload()
    tab.wait(f"document.querySelectorAll('.tile').length === {COUNT}")
    return tab


def needing(service: Running) -> int:
    return sum(any(text["needs_text"] for text in job["image"]["translations"]) for job in jobs(service).values())


def test_all_pictures_without_a_text_are_described_with_one_request(
    archive: tuple[Running, Describer], open_tab: OpenTab, axe: str
) -> None:
    service, describer = archive
    tab = open_with_model(service, open_tab)
    requests: list[Any] = []
    tab.page.on("request", lambda each: requests.append(each) if "/translations/" in each.url else None)
    tab.page.get_by_role("button", name=f"Describe {COUNT} pictures that need a text").click()
    tab.wait("document.querySelector('.describe').textContent.includes('7 pictures left')")
    for left in range(COUNT - 1, 1, -1):
        describer.go.release()
        tab.wait(f"document.querySelector('.describe').textContent.includes('{left} pictures left')")
    assert "on this machine" in tab.text(".describe"), "measured on the first five"
    assert violations(tab, axe) == []
    # another tab, and this one after a reload, show the same
    second = open_with_model(service, open_tab)
    second.wait("document.querySelector('.describe')?.textContent.includes('2 pictures left')")
    describer.go.release(2)
    tab.wait("!document.querySelector('.describe')")
    assert needing(service) == 0
    assert len(requests) == 1
    assert len(requests[0].post_data_json["texts"]) == 2 * COUNT


def test_what_is_done_remains_after_stop_and_the_button_goes_on(
    archive: tuple[Running, Describer], open_tab: OpenTab
) -> None:
    service, describer = archive
    tab = open_with_model(service, open_tab)
    tab.page.evaluate("location.hash = 'models'")  # the button is where a model was installed, too
    tab.page.get_by_role("button", name="Describe 7 pictures").click()
    describer.go.release(2)
    tab.wait("document.querySelector('.describe').textContent.includes('5 pictures left')")
    tab.page.get_by_role("button", name="Stop").click()
    describer.go.release()  # the one that is being written
    wait_until(lambda: needing(service) < COUNT - 1, "the texts that were written")
    tab.wait("document.querySelector('.describe button')?.textContent.startsWith('Describe')")
    left = needing(service)
    assert 0 < left <= COUNT - 2
    describer.go.release(left)
    tab.page.get_by_role("button", name=f"Describe {left} pictures that need a text").click()
    wait_until(lambda: needing(service) == 0, "the other texts")


def test_without_a_model_there_is_no_button(archive: tuple[Running, Describer], open_tab: OpenTab) -> None:
    tab = open_tab(archive[0])
    tab.wait(f"document.querySelectorAll('.tile').length === {COUNT}")
    tab.wait("document.querySelector('.detail')")
    assert tab.page.locator(".describe").count() == 0
