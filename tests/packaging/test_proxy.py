"""The service behind nginx and Caddy, with the files of packaging/proxy as they are."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from PIL import Image

from imgproc_local.storage.accounts import audit_log
from tests.support import pictures
from tests.support.certificates import self_signed
from tests.support.scripts import PACKAGING
from tests.support.service import Running, running
from tests.support.worker_pool import wait_until

START_TIMEOUT_S = 60
PROXY = PACKAGING / "proxy"
TEMPORARY = " ".join(f"{kind}_temp_path {kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
HTTP = f"http {{ access_log off; {TEMPORARY} include site.conf; }}"
NGINX = f"daemon off; master_process off; pid nginx.pid; events {{}} {HTTP}"
CADDY = "{{\nadmin off\nauto_https disable_redirects\nskip_install_trust\n}}\nimport {snippet}\n"


def free_port() -> int:
    """A port that the system gives to no other connection before the proxy listens."""
    port = random.randrange(20_000, 30_000)
    socket.create_server(("127.0.0.1", port)).close()
    return port


def nginx(folder: Path, port: int, upstream: str) -> tuple[list[str], dict[str, str], Path]:
    """A command that starts the proxy, its environment, and the certificate to trust."""
    certificate, key = self_signed(folder)
    text = (PROXY / "nginx.conf").read_text(encoding="utf-8")
    for placeholder, value in (
        ("listen 443 ssl http2;", f"listen 127.0.0.1:{port} ssl http2;"),
        ("    listen [::]:443 ssl http2;\n", ""),
        ("img.example.org;", "localhost;"),
        ("/etc/letsencrypt/live/img.example.org/fullchain.pem", str(certificate)),
        ("/etc/letsencrypt/live/img.example.org/privkey.pem", str(key)),
        ("http://127.0.0.1:8484;", f"http://{upstream};"),
    ):
        assert placeholder in text
        text = text.replace(placeholder, value)
    (folder / "site.conf").write_text(text, encoding="utf-8")
    (folder / "nginx.conf").write_text(NGINX, encoding="utf-8")
    return ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")], {}, certificate


def caddy(folder: Path, port: int, upstream: str) -> tuple[list[str], dict[str, str], Path]:
    (folder / "Caddyfile").write_text(CADDY.format(snippet=PROXY / "Caddyfile"), encoding="utf-8")
    data = {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    site = {"IMGPROC_SITE": f"https://localhost:{port}", "IMGPROC_UPSTREAM": upstream}
    authority = folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")], data | site, authority


Proxied = tuple[Running, httpx.Client]
"""A service, and a client with an API key that reaches it through a proxy only."""


@pytest.fixture(scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    if shutil.which(request.param.__name__) is None:
        pytest.skip(f"{request.param.__name__} is not installed")
    folder, port = tmp_path_factory.mktemp("proxy"), free_port()
    root = f"https://localhost:{port}"
    with (
        running(folder / "data", behind_proxy="127.0.0.1", public_url=root) as service,
        contextlib.ExitStack() as stack,
    ):
        command, environment, authority = request.param(folder, port, service.root.removeprefix("http://"))
        log = stack.enter_context((folder / "proxy.log").open("wb"))
        proxy = stack.enter_context(
            subprocess.Popen(command, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        )
        stack.callback(proxy.terminate)
        answers = wait_until(lambda: authority.exists() and _answers(root, authority), START_TIMEOUT_S)
        assert answers, (folder / "proxy.log").read_text(encoding="utf-8")
        trusted = ssl.create_default_context(cafile=str(authority))
        key = {"Authorization": f"Bearer {service.key}"}
        yield service, stack.enter_context(httpx.Client(base_url=root, headers=key, verify=trusted, timeout=60))


def _answers(root: str, authority: Path) -> bool:
    """Whether the proxy listens, and has its certificate."""
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{root}/healthz", verify=ssl.create_default_context(cafile=str(authority))).is_success
    return False


def test_a_link_signs_a_browser_in_to_the_page(proxied: Proxied) -> None:
    service, client = proxied
    page = client.get("/", params={"token": "of a link"})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert client.get("/static/app.js").status_code == 200
    signed_in = client.post("/local/sign-in", json={"token": service.page_token()})
    session = {"Authorization": f"Bearer {signed_in.json()['data']['secret']}"}
    assert client.get("/local/overview", headers=session).status_code == 200
    assert client.get("/local/overview").status_code == 401


def test_browsers_are_offered_http2_for_the_event_streams_of_many_tabs(proxied: Proxied) -> None:
    url, tls = proxied[1].base_url, ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection((url.host, url.port), timeout=60) as raw,
        tls.wrap_socket(raw, server_hostname=url.host) as encrypted,
    ):
        assert encrypted.selected_alpn_protocol() == "h2"


def test_the_location_of_a_large_upload_leads_to_its_job(proxied: Proxied) -> None:
    picture = pictures.encoded(Image.new("RGB", (2400, 2400)), "PNG", compress_level=0)
    assert len(picture) > 16_000_000
    sent = proxied[1].post("/api/v1/images/analyze", files={"image": ("a.png", picture)})
    assert sent.status_code == 202, sent.text
    job = proxied[1].get(sent.headers["location"])
    assert (job.status_code, job.json()["data"]["job_id"]) == (200, sent.json()["data"]["job_id"])


def test_a_refused_upload_is_answered_as_by_the_service(proxied: Proxied) -> None:
    picture = pictures.encoded(Image.new("RGB", (1200, 900)), "PNG", compress_level=0)
    wrong = {"Authorization": "Bearer imgp_wrong", "Connection": "close"}  # nginx closes after an early answer
    for _ in range(20):
        sent = proxied[1].post("/api/v1/images/analyze", files={"image": ("a.png", picture)}, headers=wrong)
        assert sent.status_code == 401, sent.text


def test_events_arrive_while_their_stream_is_open(proxied: Proxied) -> None:
    service, client = proxied
    with client.stream("GET", "/api/v1/events") as answer:
        names = (line.removeprefix("event: ") for line in answer.iter_lines() if line.startswith("event: "))
        assert next(names) == "snapshot"
        service.dispatch("optimize", pictures.png())
        assert "job" in next(names)


def test_the_proxy_states_who_the_client_is_whatever_that_says(
    proxied: Proxied, caplog: pytest.LogCaptureFixture
) -> None:
    forged = {"X-Forwarded-For": "203.0.113.9", "X-Real-IP": "203.0.113.9"}
    audit_log.addHandler(caplog.handler)
    try:
        assert proxied[1].get("/api/v1/jobs", headers=forged).status_code == 200
    finally:
        audit_log.removeHandler(caplog.handler)
    assert "client=127.0.0.1" in caplog.text
    assert "203.0.113.9" not in caplog.text
