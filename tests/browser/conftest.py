"""The local page in a real browser: an installed Chromium, driven by Playwright. Skipped where one is not installed."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.result import NeedsTextReason, TextSource, Translation
from tests.support import pictures
from tests.support.service import Running, running

WAIT_S = 60
PICTURE_COUNT = 8
WITHOUT_TEXT = ["4.jpg", "8.jpg"]
"""`NumberedDescriber` leaves every fourth picture without a text."""
WITH_TEXT = ["1.jpg", "2.jpg", "3.jpg", "5.jpg", "6.jpg", "7.jpg"]


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until `condition()` is true. Raises: AssertionError with `what`, after `WAIT_S` seconds."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not after {WAIT_S} s: {what}"
        time.sleep(0.02)


class NumberedDescriber:
    """Numbers the pictures that it describes. Every fourth needs a text, as without a model and words in the file."""

    def __init__(self) -> None:
        self.described = 0

    def describe(self, image: Any, languages: Any, hints: Any, check_stop: Any) -> tuple[Translation, ...]:
        self.described += 1
        needs_text = self.described % 4 == 0
        source = TextSource.PIXELS if needs_text else TextSource.VISION
        reason = NeedsTextReason.NOTHING_KNOWN if needs_text else None
        return tuple(
            Translation(code, f"picture-{self.described}-{code}", f"Text {self.described} in {code}.", source, reason)
            for code in languages
        )

    def close(self) -> None:
        pass


class Tab:
    """The local page in a browser tab, signed in to `service`.

    `problems` are the errors of its scripts, and its requests to other servers.
    """

    def __init__(self, service: Running, context: Any) -> None:
        self.service = service
        self.context = context
        self.problems: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_S * 1000)
        self.page.on("pageerror", lambda error: self.problems.append(f"{error} {error.stack}"))
        self.page.on("request", self._check_request)
        self.page.on("console", self._check_console)
        self.page.goto(f"{service.root}/?token={service.page_token()}")
        self.wait("document.querySelector('.pictures-view')")

    def _check_request(self, request: Any) -> None:
        if not request.url.removeprefix("blob:").startswith(self.service.root + "/"):
            self.problems.append(f"request to {request.url}")

    def _check_console(self, message: Any) -> None:
        # the browser itself reports responses with an error status
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.problems.append(message.text)

    def wait(self, condition: str) -> None:
        """Wait until the JavaScript expression `condition` is true. The page's policy forbids Playwright's own way."""
        wait_until(lambda: self.page.evaluate(f"Boolean({condition})"), condition)

    def watch(self, condition: str) -> str:
        """A condition that is true once the JavaScript expression `condition` has been true, for however short a time.

        It is checked at each change of the document from now on.
        """
        self.page.evaluate(
            f"""() => {{
              const seen = {{ condition: false }};
              (window.watched ??= []).push(seen);
              new MutationObserver(() => {{ seen.condition ||= Boolean({condition}); }})
                .observe(document.body, {{ subtree: true, childList: true, characterData: true }});
            }}"""
        )
        number: int = self.page.evaluate("window.watched.length - 1")
        return f"window.watched[{number}].condition"

    def hold(self, pattern: str) -> Callable[[], Any]:
        """Hold the requests to addresses like `pattern`. Returns a function that waits for the next one."""
        held: list[Any] = []
        self.page.route(pattern, lambda route: held.append(route))  # noqa: PLW0108 - Playwright reads its signature

        def take() -> Any:
            # handlers of requests run only while Playwright is called
            wait_until(lambda: self.page.wait_for_timeout(20) or held, f"a request to {pattern}")
            return held.pop(0)

        return take

    def text(self, selector: str) -> str:
        """The text of the first element that `selector` matches, "" if there is none."""
        found: str = self.page.evaluate(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")
        return " ".join(found.split())

    def count(self, label: str) -> int:
        """The number beside a filter such as "Done"; 0 before the filters are shown."""
        counts: dict[str, str] = self.page.evaluate(
            "Object.fromEntries([...document.querySelectorAll('.shows label')].map((choice) =>"
            " [...choice.querySelectorAll('span')].map((part) => part.textContent.replaceAll(',', ''))))"
        )
        return int(counts.get(label, 0))

    def wait_for_count(self, label: str, count: int) -> None:
        wait_until(lambda: self.count(label) == count, f"{count} pictures in {label}")

    def names(self) -> list[str]:
        """The names of the pictures in the document, in the order of the list."""
        names: list[str] = self.page.evaluate(
            "[...document.querySelectorAll('.tile')].sort((a, b) => a.ariaPosInSet - b.ariaPosInSet)"
            ".map((tile) => tile.querySelector('.name').textContent)"
        )
        return names

    def drop(self, files: dict[str, bytes]) -> None:
        """Drop files on the page, as if they were dragged from a file manager."""
        encoded = {name: base64.b64encode(content).decode() for name, content in files.items()}
        self.page.evaluate(
            """(files) => {
              const transfer = new DataTransfer();
              for (const [name, content] of Object.entries(files)) {
                transfer.items.add(new File([Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0))], name));
              }
              for (const type of ["dragover", "drop"]) {
                const options = { dataTransfer: transfer, bubbles: true, cancelable: true };
                document.body.dispatchEvent(new DragEvent(type, options));
              }
            }""",
            encoded,
        )

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def close(self) -> None:
        self.context.close()
        assert self.problems == []


@pytest.fixture(scope="session")
def axe() -> str:
    module = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
    return (Path(module.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def violations(tab: Tab, axe: str) -> list[Any]:
    """What axe-core finds in the page as it is shown once it is still: rule, and the elements that break it."""
    tab.page.evaluate(axe)
    # the mark of work in progress moves on for ever
    tab.wait(
        "document.getAnimations().every((each) =>"
        " each.playState !== 'running' || each.effect.getComputedTiming().endTime === Infinity)"
    )
    found: list[Any] = tab.page.evaluate(
        "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>"
        " violations.map(({ id, nodes }) => [id, nodes.map(({ target, failureSummary }) => [target, failureSummary])]))"
    )
    return found


OpenTab = Callable[..., Tab]
LOOKS = pytest.mark.parametrize(
    ("width", "options"),
    [
        (1280, {"color_scheme": "light"}),
        (1280, {"color_scheme": "dark"}),
        (360, {}),
        (1280, {"forced_colors": "active"}),
    ],
)
"""How a dialog is looked at by axe: in both themes, in a narrow window, and in forced colours."""


@pytest.fixture
def open_tab(chromium: Any) -> Iterator[OpenTab]:
    """Opens the page of a service in a browser profile of its own. `options` are Playwright's: `color_scheme` …"""
    opened: list[Tab] = []

    def open_it(service: Running, width: int = 1280, height: int = 800, **options: Any) -> Tab:
        context = chromium.new_context(
            viewport={"width": width, "height": height}, locale="en-GB", accept_downloads=True, **options
        )
        opened.append(Tab(service, context))
        return opened[-1]

    yield open_it
    for tab in opened:
        tab.close()


@pytest.fixture
def empty_service(tmp_path: Path) -> Iterator[Running]:
    """A service without pictures, for one test."""
    with running(tmp_path / "data", NumberedDescriber, max_upload_bytes=1024 * 1024) as service:
        yield service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with finished pictures in two languages, the last of them in a project of its own."""
    with running(tmp_path_factory.mktemp("data"), NumberedDescriber) as started:
        for number in range(1, PICTURE_COUNT + 1):
            project = "Other" if number == PICTURE_COUNT else "Shop"
            form = {"languages": ["en", "de"], "project_name": project}
            started.process("process", pictures.jpeg(96, 64, seed=number), f"{number}.jpg", **form)
        yield started


@pytest.fixture
def tab(service: Running, open_tab: OpenTab) -> Tab:
    opened = open_tab(service)
    opened.wait_for_count("All", len(jobs(service)))
    opened.wait("document.querySelector('[data-alt]')")
    return opened


def jobs(service: Running) -> dict[str, dict[str, Any]]:
    """The jobs with their details, by the name of the picture."""
    listed = service.client.get("/jobs", params={"limit": 100, "include": "removed,details"}).json()["data"]
    return {job["image"]["original_filename"]: job for job in listed}


def translation(service: Running, name: str, code: str = "en") -> dict[str, Any]:
    texts = jobs(service)[name]["image"]["translations"]
    return next(text for text in texts if text["language_code"] == code)


def show(tab: Tab, name: str) -> None:
    """Choose a picture in the list."""
    tab.page.locator(".tile", has=tab.page.get_by_text(name, exact=True)).click()
    tab.wait(f"document.querySelector('#detail-title').textContent === {json.dumps(name)}")


def choose_filter(tab: Tab, label: str, option: str | None = None) -> None:
    """Choose what the list shows by the label of a filter, and by an `option` where it has some."""
    menu = tab.page.locator(".filters .menu")
    menu.get_by_role("button").click()
    field = menu.get_by_label(label)
    if option is None:
        field.check()
    else:
        field.select_option(option)
    tab.press("Escape")


def open_option(tab: Tab, label: str) -> None:
    """Open the control of an option of new pictures, such as "Format"."""
    tab.page.locator(".option", has_text=f"{label}:").click()


def alt_text(tab: Tab, code: str = "en") -> str:
    return str(tab.page.locator(f"[data-alt={code}]").input_value())


def wait_for_text(tab: Tab, text: str, code: str = "en") -> None:
    tab.wait(f"document.querySelector('[data-alt={code}]').value === {json.dumps(text)}")


def wait_until_stored(service: Running, name: str, text: str, code: str = "en", field: str = "seo_alt_text") -> None:
    wait_until(lambda: translation(service, name, code)[field] == text, f"{text!r} as {field} of {name}")
