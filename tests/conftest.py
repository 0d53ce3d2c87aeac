"""Fixtures that start the service, a test double of a local model server, or a browser."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local.vision.llm.loopback import PROGRAMS
from tests.support.chromium import CHROMIUM
from tests.support.model_servers import ModelServerDouble, model_server
from tests.support.service import API_KEY, BASE_URL, GatedDescriber, Running, RunningProgram, Service, running

SLOW = (
    "browser/",
    "build/test_frozen.py",
    "cli/archive/",
    "cli/process/test_resume.py",
    "cli/process/test_round_trip.py",
    "cli/test_backup.py::test_a_backup_under_load",
    "codecs/picture/test_errors.py::test_damaged_files",
    "codecs/png/test_posterize.py",
    "codecs/quality/",
    "codecs/test_avif_alpha.py",
    "faults/test_connections.py",
    "faults/test_disk.py",
    "faults/test_floods.py",
    "faults/test_kill.py",
    "faults/test_power_cut.py",
    "faults/test_stop.py::test_sigterm_in_mid_stage",
    "faults/test_surroundings.py",
    "faults/test_workers.py::test_workers_killed_at_random",
    "fuzz/",
    "packaging/test_locks.py::test_the_pip_of_a_new_environment",
    "system/test_connections.py::test_no_command_opens_an_outside_connection[air-gapped]",
    "vision/test_described_service.py",
    "wordpress/",
)
"""The beginnings of the names of tests that build the program, start a cluster or a browser, flood, kill, compile, or
encode for seconds. They have the mark `slow`: `.ci/test` leaves them out, and `.ci/test slow` runs them.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(SLOW):
            item.add_marker(pytest.mark.slow)


# instead of five seconds, which a busy machine may need for an answer
for each in ("connect", "read", "write", "pool"):
    setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, each, 60.0)

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


@pytest.fixture
def recent_chromium(chromium: Any) -> Any:
    """The browser, if its version shows JPEG XL and maps the tones of HDR as the present ones do."""
    if int(chromium.version.split(".")[0]) < 156:
        pytest.skip("Chromium 156 or later is not installed")
    return chromium
