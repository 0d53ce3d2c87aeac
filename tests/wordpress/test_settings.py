"""The settings page: what the test button says, that the key is never printed, and who may change settings."""

from __future__ import annotations

import contextlib
import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.support.http_double import serving_double
from tests.support.service import Running, running
from tests.wordpress.admin import Admin, sign_in_author
from tests.wordpress.site import Site, free_port

PAGE = "options-general.php?page=imgproc-local"


class OldVersion(BaseHTTPRequestHandler):
    """A service that has only the published interface: languages, but no local additions."""

    def do_GET(self) -> None:
        found = self.path == "/api/v1/languages"
        languages = [{"code": "en", "name": "English", "native_name": "English"}]
        body = json.dumps({"data": languages} if found else {"message": "Not Found"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def said_about(admin: Admin, address: str, key: str) -> str:
    """Save address and key on the page, and press the test button. Returns what it says."""
    page = admin.page
    admin.open(PAGE)
    page.get_by_label("Address", exact=True).fill(address)
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Save Changes").click()
    page.wait_for_load_state()
    assert key not in page.content()
    page.get_by_role("button", name="Test the connection").click()
    result = page.locator("#imgproc-local-test-result")
    page.wait_for_function(
        "(text => text && !text.startsWith('Testing'))"
        "(document.querySelector('#imgproc-local-test-result').textContent.trim())"
    )
    said: str = result.inner_text()
    return said


def test_the_test_button_says_what_is_wrong(site: Site, admin: Admin, tmp_path: Path, described: Running) -> None:
    said = {"down": said_about(admin, f"http://127.0.0.1:{free_port()}", "imgp_secret1")}
    said["key"] = said_about(admin, described.root, "imgp_secret2")
    with running(tmp_path / "poor", first_balance=0) as poor:
        said["credits"] = said_about(admin, poor.root, poor.key)
    with serving_double(OldVersion) as address:
        said["version"] = said_about(admin, address, "imgp_secret3")
    said["other"] = said_about(admin, site.url, "imgp_secret4")
    said["right"] = said_about(admin, described.root, described.key)
    assert admin.page.get_by_label("Deutsch", exact=True).count() == 1, "the languages are those of another service"
    for name, word in (("down", "can’t be reached"), ("key", "key"), ("credits", "credits"), ("version", "version")):
        assert word in said[name].lower(), said
    assert len(set(said.values())) == len(said), said
    assert site.php("return get_option( 'imgproc_local_settings' )['key'];") == described.key


def test_only_administrators_change_settings(site: Site, service: Running) -> None:
    with contextlib.closing(sign_in_author(site)) as client:
        assert client.get(f"/wp-admin/{PAGE}").status_code == 403
        client.headers["X-WP-Nonce"] = client.get("/wp-admin/admin-ajax.php?action=rest-nonce").text
        assert client.post("/wp-json/imgproc-local/v1/test", json={"address": service.root}).status_code == 403
        answer = client.get("/wp-json/wp/v2/settings")
        assert service.key not in answer.text
