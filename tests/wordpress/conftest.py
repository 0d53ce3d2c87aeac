"""A WordPress site with the plugin, its administrator in Chromium, and the service that the plugin uses.

The tests of a running site take minutes. They run only if the command line names this folder or a file in it:
`pytest tests/wordpress`. They are skipped where WordPress, MariaDB, PHP or Chromium is not installed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.result import NeedsTextReason, TextSource, Translation
from tests.support.service import Running, running
from tests.wordpress import site as sites
from tests.wordpress.admin import Admin, Uploader
from tests.wordpress.library import configure
from tests.wordpress.site import Site

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests of a running site, unless the command line names this folder."""
    if collection_path == HERE or collection_path.name == "test_code.py":
        return None
    named = [Path(str(argument).partition("::")[0]).resolve() for argument in config.args]
    return None if any(path == HERE or HERE in path.parents for path in named) else True


class SiteDescriber:
    """Writes "NAME in CODE" as the text of the picture NAME; `needs_text` is true for names that contain "plain".

    It waits while `open` is not set. `contexts` has what was sent as context, by name.
    """

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.contexts: dict[str, str] = {}

    def describe(self, image: Any, languages: Any, hints: Any, check_stop: Any) -> tuple[Translation, ...]:
        while not self.open.wait(0.01):
            check_stop()
        name = hints.original_filename.rpartition(".")[0]
        self.contexts[name] = hints.context
        needs_text = "plain" in name
        source = TextSource.PIXELS if needs_text else TextSource.VISION
        reason = NeedsTextReason.NOTHING_KNOWN if needs_text else None
        return tuple(Translation(code, f"a-{name.lower()}", f"{name} in {code}", source, reason) for code in languages)

    def close(self) -> None:
        pass


@pytest.fixture
def describer() -> Iterator[SiteDescriber]:
    describer = SiteDescriber()
    yield describer
    describer.open.set()


@pytest.fixture
def described(tmp_path: Path, describer: SiteDescriber) -> Iterator[Running]:
    """A service for one test, whose texts `describer` writes. Its keys have no rate limit."""
    with running(tmp_path / "data", lambda: describer) as service:
        yield service


@pytest.fixture(scope="module")
def installed_site() -> Iterator[Site]:
    if lacking := sites.missing():
        pytest.skip(f"not installed: {', '.join(lacking)}")
    with sites.installed() as site:
        yield site


@pytest.fixture
def site(installed_site: Site) -> Iterator[Site]:
    """A site with the plugin and without pictures and settings. No error of PHP may be logged during a test."""
    installed_site.reset()
    yield installed_site
    assert installed_site.errors() == []
    assert installed_site.refused() == ""


@pytest.fixture
def service(site: Site, described: Running) -> Running:
    """The service `described`, with which the site is connected."""
    configure(site, described.root, described.key)
    return described


@pytest.fixture
def admin(site: Site, chromium: Any) -> Iterator[Admin]:
    """The site's administrator in a browser, signed in. Errors of scripts and requests elsewhere fail the test."""
    admin = Admin(site, chromium)
    yield admin
    admin.close()


@pytest.fixture
def uploader(site: Site) -> Iterator[Uploader]:
    uploader = Uploader(site)
    yield uploader
    uploader.close()
