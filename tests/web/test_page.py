"""The files of the page: how they are served, and that they use no other origin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

import httpx
import pytest

from imgproc_local.web.page import STATIC
from tests.support.service import Running

FILES = {file.name: file.read_text(encoding="utf-8") for file in resources.files("imgproc_local.web.static").iterdir()}

VENDORED = {"preact.js", "preact.LICENSE"}
"""Files of others. `preact.js` has a property that sets HTML; no other script uses it, and the policy forbids it."""
NAMESPACES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML")
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@pytest.fixture(scope="module")
def browser(service: Running) -> Iterator[httpx.Client]:
    """A client without a session: the files of the page are no secret."""
    with httpx.Client(base_url=service.root) as client:
        yield client


def test_the_page_is_html_with_a_strict_content_security_policy(browser: httpx.Client) -> None:
    answer = browser.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert policy["img-src"] == "'self' blob:"
    assert {policy[name] for name in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("name", sorted(STATIC))
def test_a_static_file_has_its_media_type_and_is_revalidated(browser: httpx.Client, name: str) -> None:
    answer = browser.get(f"/static/{name}")
    assert answer.status_code == 200
    charset = "" if name.endswith(".svg") else "; charset=utf-8"
    assert answer.headers["content-type"] == TYPES[name.rpartition(".")[2]] + charset
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text == FILES[name]
    again = browser.get(f"/static/{name}", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["index.html", "nothing.js", "..%2Fpage.py", "%2e%2e/page.py", "sub/app.js"])
def test_no_other_file_is_served(service: Running, path: str) -> None:
    answer = httpx.get(f"{service.root}/static/{path}")
    assert answer.status_code == 404
    assert "message" in answer.json()


def test_every_file_is_static_or_a_page() -> None:
    assert set(FILES) == set(STATIC) | {"index.html", "preact.LICENSE"}


@pytest.mark.parametrize("name", sorted(set(FILES) - {"preact.LICENSE"}))
def test_no_file_contains_a_foreign_url(name: str) -> None:
    addresses = re.findall(r"(?:[a-z]+:)?//[\w.-]+\.\w+[^\s\"'`)]*", re.sub(r"^\s*//.*$", "", FILES[name], flags=re.M))
    assert [address for address in addresses if address not in NAMESPACES] == []
    assert "@import" not in FILES[name]


@pytest.mark.parametrize("name", ["index.html", "locked.html"])
def test_the_html_has_no_inline_script_style_or_handler(name: str) -> None:
    html = FILES[name]
    assert re.findall(r"<script(?![^>]*\bsrc=\"/static/)", html) == []
    assert "<style" not in html
    assert re.findall(r"\s(?:style|on\w+)=", html) == []
    referenced = set(re.findall(r"(?:src|href)=\"/static/([^\"]+)\"", html))
    assert referenced
    assert referenced <= set(STATIC)


@pytest.mark.parametrize("name", sorted(name for name in FILES if name.endswith(".js")))
def test_scripts_import_only_each_other_and_parse_no_markup(name: str) -> None:
    script = FILES[name]
    statement = r"^import\b[^\"']*|^export\b[^\"';=]*\bfrom\s*|\bimport\s*\(\s*"
    imported = re.findall(rf"(?m)(?:{statement})[\"']([^\"']+)[\"']", script)
    assert {path.removeprefix("./") for path in imported} <= set(STATIC)
    if name not in VENDORED:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc", script
        )
