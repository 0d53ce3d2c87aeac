"""Fixtures that start the service, a test double of a local model server, or a browser."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.vision.loopback.programs import PROGRAMS
from tests.support.chromium import CHROMIUM
from tests.support.model_servers import ModelServerDouble, model_server
from tests.support.service import API_KEY, BASE_URL, GatedDescriber, Running, RunningProgram, Service, running

# shells start background jobs with SIGINT ignored, but some tests send SIGINT
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that the tests of one file share. It describes pictures without a vision model."""
    if BASE_URL:
        assert API_KEY, "IMGPROC_BASE_URL needs IMGPROC_API_KEY, a key of that service without a rate limit"
        program = RunningProgram(BASE_URL.removesuffix("/").removesuffix("/api/v1"), API_KEY)
        with program.client:
            yield program
        return
    with running(tmp_path_factory.mktemp("data")) as started:
        yield started


@pytest.fixture(autouse=True)
def nothing_is_replaced_inside_a_program(request: pytest.FixtureRequest) -> None:
    if BASE_URL and {"service", "monkeypatch"} <= set(request.fixturenames):
        pytest.skip(f"replaces functions inside the service, which can't be done at {BASE_URL}")


@pytest.fixture
def describer() -> GatedDescriber:
    return GatedDescriber()


@pytest.fixture
def gated(tmp_path: Path, describer: GatedDescriber) -> Iterator[Running]:
    """A service for one test. Its analyze stage waits while `describer.open` is not set."""
    with running(tmp_path / "data", lambda: describer) as started:
        yield started
        describer.open.set()


@pytest.fixture(params=PROGRAMS)
def double(request: pytest.FixtureRequest) -> Iterator[ModelServerDouble]:
    """A test double of a program that serves models over loopback; the test runs with each program in turn."""
    with model_server(request.param) as started:
        yield started


@pytest.fixture
def ollama() -> Iterator[ModelServerDouble]:
    with model_server("ollama") as started:
        yield started


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser. It ends with the module: Playwright runs an event loop, beside which tests can't run another."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
