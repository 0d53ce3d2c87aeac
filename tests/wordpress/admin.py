"""What the administrator of a site does: in a browser, and by the same requests without one."""

from __future__ import annotations

import re
from typing import Any

import httpx

from tests.wordpress.site import PASSWORD, USER, Site

WAIT_MS = 30_000


class Admin:
    """A tab of a browser that is signed in to the site."""

    def __init__(self, site: Site, browser: Any) -> None:
        self.site = site
        self.problems: list[str] = []
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("pageerror", lambda error: self.problems.append(f"{error} {error.stack}"))
        self.page.on("request", self._check_request)
        self.open("../wp-login.php")
        # the page moves the focus to its first field 0.2 s after it was loaded, wherever text is entered then
        self.page.wait_for_function("document.activeElement.id === 'user_login'")
        self.page.fill("#user_login", USER)
        self.page.fill("#user_pass", PASSWORD)
        self.page.click("#wp-submit")
        self.page.wait_for_selector("#wpadminbar")

    def _check_request(self, request: Any) -> None:
        if not request.url.startswith((self.site.url + "/", "data:", "blob:")):
            self.problems.append(f"request to {request.url}")

    def open(self, path: str) -> None:
        """Open a page of the administration, such as `upload.php`."""
        self.page.goto(f"{self.site.url}/wp-admin/{path}")

    def text(self) -> str:
        """The visible text of the page."""
        return " ".join(self.page.inner_text("body").split())

    def notices(self) -> str:
        """The visible text of all notices of the page."""
        return "\n".join(notice.inner_text() for notice in self.page.query_selector_all(".notice, .error, .updated"))

    def close(self) -> None:
        self.context.close()
        assert self.problems == []


def sign_in(url: str, user: str = USER, password: str = PASSWORD) -> httpx.Client:
    """A client whose requests are those of a user of the site. To be closed."""
    client = httpx.Client(base_url=url, timeout=60, follow_redirects=True)
    client.get("/wp-login.php")
    client.post("/wp-login.php", data={"log": user, "pwd": password, "testcookie": "1"})
    return client


def sign_in_author(site: Site) -> httpx.Client:
    """A client that is signed in as a new author, who may upload files, but edit only those of his own."""
    site.php("return wp_insert_user( array( 'user_login' => 'author', 'user_pass' => 'pw', 'role' => 'author' ) );")
    return sign_in(site.url, "author", "pw")


class Uploader:
    """Uploads files with the request that the page Media → Add New sends for each. To be closed by `close`."""

    def __init__(self, site: Site) -> None:
        self.client = sign_in(site.url)
        page = self.client.get("/wp-admin/media-new.php").text
        found = re.search(r'name="_wpnonce" value="(\w+)"', page)
        assert found, "not signed in"
        self.nonce = found[1]

    def upload(self, name: str, content: bytes) -> tuple[int, float]:
        """The id of the new attachment, and the seconds that the request took."""
        answer = self.client.post(
            "/wp-admin/async-upload.php",
            data={"name": name, "action": "upload-attachment", "_wpnonce": self.nonce},
            files={"async-upload": (name, content)},
        )
        body = answer.json()
        assert body["success"], body
        return body["data"]["id"], answer.elapsed.total_seconds()

    def close(self) -> None:
        self.client.close()
