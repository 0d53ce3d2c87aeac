"""Signing a browser in and out."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from imgproc_local.cli.access import link_text
from imgproc_local.cli.serve import open_link
from tests.browser.conftest import OpenTab, Tab, violations
from tests.support import pictures
from tests.support.service import Running


def wait_until_locked(tab: Tab, fragment: str = "") -> None:
    locked = f"{tab.service.root}/static/locked.html{fragment}"
    tab.page.wait_for_url(locked)
    assert "imgproc-local sign-in" in tab.text("main.locked")
    tab.page.wait_for_timeout(300)
    assert tab.page.url == locked, "the page goes on to another one"


def test_a_link_is_opened_from_a_file(
    empty_service: Running, open_tab: OpenTab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    tab = open_tab(empty_service)
    tab.page.evaluate("localStorage.clear()")
    open_link(empty_service.services.config.data_dir, link_text(empty_service.root, empty_service.page_token())).join()
    tab.page.goto(opened[0])
    tab.page.locator(".pictures-view").wait_for()
    assert tab.page.url == f"{empty_service.root}/"
    assert list(tmp_path.glob("*.html")) == []
    tab.problems.clear()  # the file itself is not from the service


def test_a_browser_is_signed_in_in_all_its_tabs_until_the_sign_out(empty_service: Running, open_tab: OpenTab) -> None:
    empty_service.process("optimize", pictures.jpeg(64, 48), "private.jpg")
    tab = open_tab(empty_service)
    assert tab.page.url == f"{empty_service.root}/", "the token is no longer in the address"
    tab.wait_for_count("All", 1)
    second = tab.context.new_page()
    second.goto(empty_service.root)
    second.locator(".pictures-view").wait_for()
    second.close()
    tab.page.goto(f"{empty_service.root}/#access")
    tab.page.get_by_role("button", name="Sign out of this browser").click()
    wait_until_locked(tab)
    assert empty_service.run(empty_service.services.store.sessions.all()) == []
    assert tab.page.evaluate("localStorage['imgproc-local.session']") is None
    assert not tab.page.locator("#refused").is_visible()
    tab.page.goto(f"{empty_service.root}/?token=wrong")
    wait_until_locked(tab, "#refused")
    assert tab.page.locator("#refused").is_visible()
    tab.page.goto(f"{empty_service.root}/?token={empty_service.page_token()}")
    tab.wait_for_count("All", 1)


def test_a_page_whose_session_was_ended_goes_on_after_another_sign_in(
    empty_service: Running, open_tab: OpenTab
) -> None:
    tab = open_tab(empty_service)
    empty_service.process("optimize", pictures.jpeg(64, 48), "first.jpg")
    tab.wait_for_count("Done", 1)
    empty_service.run(empty_service.services.store.sessions.revoke_all())
    tab.page.evaluate("location.hash = 'access'")
    tab.wait("document.querySelector('.notice')?.textContent.includes('imgproc-local sign-in')")
    second = tab.context.new_page()
    second.goto(f"{empty_service.root}/?token={empty_service.page_token()}")
    second.locator(".pictures-view").wait_for()
    second.close()
    tab.page.evaluate("location.hash = 'pictures'")
    tab.drop({"second.jpg": pictures.jpeg(64, 48, seed=2)})
    tab.wait_for_count("Done", 2)


@pytest.mark.parametrize("before", ["", "Open this link: "])
def test_a_link_is_pasted_into_the_sign_in_page(empty_service: Running, open_tab: OpenTab, before: str) -> None:
    tab = open_tab(empty_service)
    tab.page.evaluate("localStorage.clear()")
    tab.page.goto(empty_service.root)
    wait_until_locked(tab)
    field = tab.page.get_by_label("Link")
    field.fill("imgproc-local sign-in")
    field.press("Enter")
    assert tab.page.evaluate("document.querySelector('input').validationMessage").startswith("This is not such a link")
    field.fill(f"{before}{empty_service.root}/?token=wrong")
    field.press("Enter")
    wait_until_locked(tab, "#refused")
    field.fill(f"{before}{empty_service.root}/?token={empty_service.page_token()}")
    field.press("Enter")
    tab.page.locator(".pictures-view").wait_for()


def test_the_sign_in_page_goes_on_when_another_tab_is_signed_in(empty_service: Running, open_tab: OpenTab) -> None:
    tab = open_tab(empty_service)
    tab.page.evaluate("localStorage.clear()")
    tab.page.goto(empty_service.root)
    wait_until_locked(tab)
    other = tab.context.new_page()
    other.goto(f"{empty_service.root}/?token={empty_service.page_token()}")
    tab.page.locator(".pictures-view").wait_for()
    other.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_sign_in_page_fits_its_window(empty_service: Running, open_tab: OpenTab, axe: str, scheme: str) -> None:
    for width, height in ((1440, 900), (360, 640)):
        tab = open_tab(empty_service, width=width, height=height, color_scheme=scheme)
        tab.page.goto(f"{empty_service.root}/static/locked.html#refused")
        root = "document.documentElement"
        size = f"[{root}.scrollWidth, {root}.scrollHeight]"
        assert tab.page.evaluate(size) == [width, height]
        assert violations(tab, axe) == []
