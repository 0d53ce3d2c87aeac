"""Starts of `serve`: beside another server, refused, opening the page in a browser, and beyond this machine."""

from __future__ import annotations

import os
import re
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx
import pytest

from imgproc_local.cli.serve import _require_protection
from imgproc_local.config import Config
from imgproc_local.domain.errors import SettingInvalid
from imgproc_local.system.folder_lock import FolderLock
from tests.cli.conftest import Program, use_link
from tests.faults.server_process import ServerProcess, command_line, make_key, serving
from tests.support.certificates import self_signed
from tests.support.worker_pool import wait_until

TIMEOUT_S = 60


@pytest.mark.parametrize(
    ("address", "host"),
    [("localhost", "localhost"), ("localhost", "127.0.0.1"), ("127.0.0.1", "localhost"), ("[::1]", "::1")],
)
def test_a_second_start_prints_the_address_or_is_refused_with_another_host_or_port(
    program: Program, address: str, host: str
) -> None:
    with FolderLock(program.data, "serve") as lock:
        lock.publish(f"http://{address}:2222")
        shown = program.output("serve", "--no-browser", "--host", host)
        assert f"already running: it serves http://{address}:2222/api/v1  (process {os.getpid()})" in shown
        for flags in (("--host", "127.0.0.2"), ("--port", "3333")):
            refused = program.error("serve", "--no-browser", *flags)
            assert f"already served at http://{address}:2222 (process {os.getpid()})" in refused


# ---- a refused start ----


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which a program in place of the browser appends each address that it should open."""
    if sys.platform == "win32":
        pytest.skip("the browser is a shell script")
    script, record = tmp_path / "browser", tmp_path / "opened"
    script.write_text(f'#!/bin/sh\necho "$1" >> {record}\n')
    script.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(script))
    return record


def test_the_reason_of_a_refused_start_is_in_the_log_and_from_the_desktop_in_the_browser(
    program: Program, opened: Path
) -> None:
    log, page = program.data / "logs" / "imgproc.log", program.data / "logs" / "not-started.html"
    assert program("serve", "--no-browser", rate_limit_per_minute=-1).returncode == 2
    assert not program.data.exists()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = program("serve", "--no-browser", "--port", port)
        assert (result.returncode, "Choose another port with --port" in result.stderr) == (1, True)
        assert program("serve", "--no-browser", rate_limit_per_minute=-1).returncode == 2
        assert not opened.exists()
        program("serve", "--browser", "--port", port)
    reason = f"ERROR imgproc_local.lifecycle: not started: Can't listen on 127.0.0.1 port {port}"
    assert reason in log.read_text()
    assert "not started: rate_limit_per_minute" in log.read_text()
    assert opened.read_text().strip() == page.as_uri()
    text = page.read_text(encoding="utf-8")
    assert f"127.0.0.1 port {port}" in text
    assert str(log) in text


# ---- the page in a browser: no other user of the machine may learn the link that signs it in ----


def opened_page(record: Path, count: int) -> Path:
    """The file that the browser was started with, once it was started `count` times."""
    assert wait_until(lambda: record.exists() and len(record.read_text().splitlines()) >= count, TIMEOUT_S)
    url = record.read_text().splitlines()[-1]
    assert "token" not in url, "other users can read the arguments of a command"
    return Path(url2pathname(urlsplit(url).path))


def test_the_link_is_in_a_private_file_until_it_was_opened(program: Program, tmp_path: Path, opened: Path) -> None:
    """`program` has `tmp_path` as the home folder."""

    def link_of(page: Path) -> str:
        assert page.parent == tmp_path
        assert not page.name.startswith("."), "browsers from the Snap Store read no hidden files"
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        (link,) = set(re.findall(r"http://[^\"]*\?token=[^\"]+", page.read_text()))
        return str(link)

    server = program.start("serve", "--browser", "--port", 0)
    try:
        with httpx.Client() as browser:
            first = link_of(opened_page(opened, 1))
            assert use_link(f"{first}wrong").status_code == 401
            assert list(tmp_path.glob("*.html")), "anyone could remove it before it was opened"
            assert use_link(first, browser).status_code == 200
            assert list(tmp_path.glob("*.html")) == []
            assert program("serve", "--browser").returncode == 0
            second = link_of(opened_page(opened, 2))
            assert use_link(second, browser).json()["data"]["secret"] is None, "it is signed in already"
            assert list(tmp_path.glob("*.html")) == []
    finally:
        server.terminate()
        server.communicate(timeout=TIMEOUT_S)


# ---- addresses that other machines can reach need TLS, or a proxy that has it ----


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost and its key, in one file."""
    cert, key = self_signed(tmp_path_factory.mktemp("tls"))
    cert.write_bytes(cert.read_bytes() + key.read_bytes())
    return cert


def test_a_reachable_address_is_refused_in_one_sentence_and_before_it_is_listened_on(program: Program) -> None:
    for host in ("127.0.0.1", "::1", "[::1]", "::ffff:127.0.0.1", "localhost", "LOCALHOST"):
        _require_protection(Config(host=host))
    for host in ("0.0.0.0", "::", "192.0.2.7", "studio.lan", "fe80::1%eth0"):
        with pytest.raises(SettingInvalid) as refused:
            _require_protection(Config(host=host))
        for word in (host, "--tls-cert", "--behind-proxy", "127.0.0.1"):
            assert word in refused.value.message
        assert refused.value.message.count(". ") == 0
    assert "--tls-cert" in program.error("serve", "--no-browser", "--host", "0.0.0.0", "--port", "0")


def test_unusable_tls_files_are_refused(tmp_path: Path, certificate: Path) -> None:
    only_certificate, key = tmp_path / "certificate.pem", certificate.with_suffix(".key")
    only_certificate.write_text(certificate.read_text().partition("-----BEGIN PRIVATE KEY")[0])
    locked = tmp_path / "locked.pem"
    subprocess.run(
        ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:x", "-out", locked], check=True, capture_output=True
    )
    locked.write_text(only_certificate.read_text() + locked.read_text())
    for wrong, reason in (
        (only_certificate, "append it to the certificate"),
        (key, "PEM"),
        (tmp_path / "none", "No such file"),
        (locked, "without a password"),
    ):
        with pytest.raises(SettingInvalid, match=reason):
            _require_protection(Config(host="0.0.0.0", tls_cert=str(wrong)))


def test_with_tls_the_page_works_and_plain_http_is_refused(tmp_path: Path, certificate: Path) -> None:
    folder = tmp_path / "data"
    trusted = ssl.create_default_context(cafile=str(certificate))
    with serving(folder, host="127.0.0.1", tls_cert=certificate, verify=trusted) as server:
        assert server.root is not None
        root = server.root
        assert root.startswith("https://127.0.0.1:")
        link = command_line("sign-in", data_dir=folder).stdout.strip()
        assert link.startswith(f"{root}/?token=")
        with httpx.Client(verify=trusted, base_url=root.replace("127.0.0.1", "localhost")) as browser:
            assert use_link(link, browser).status_code == 200
            assert browser.post("/local/keys", json={"name": "a"}).status_code == 201
            # any Host is accepted: a browser has compared the name with the certificate
            assert browser.get("/local/keys", headers={"Host": "pictures.example"}).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(root.replace("https", "http"))


def test_a_proxy_is_trusted_and_other_machines_must_use_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with serving(folder, host="0.0.0.0", behind_proxy="192.0.2.7, 127.0.0.1") as server:
        root = server.wait_ready()
        headers = {"X-Forwarded-For": "203.0.113.5", "X-Forwarded-Proto": "https", "Host": "pictures.example"}
        link = command_line("sign-in", data_dir=folder).stdout.strip()
        assert use_link(link, None, **headers).status_code == 200
        spoofed = {"Forwarded": "for=127.0.0.2;host=localhost", "X-Forwarded-For": "203.0.113.5"}
        # another machine, a proxy that states no client, and a client whose header the proxy passed on
        untrusted: list[dict[str, str]] = [headers, {}, spoofed]
        for sent in untrusted:
            assert httpx.get(f"{root}/metrics", headers=sent).status_code == 401, "got the rights of a local client"
        forged = {"X-API-Key": make_key(folder), "X-Forwarded-For": "203.0.113.5 key=FORGED, 127.0.0.1"}
        assert httpx.get(f"{root}/api/v1/jobs", headers=forged).status_code == 200
        assert "FORGED" not in (folder / "logs" / "audit.log").read_text(encoding="utf-8")


def test_the_public_address_is_the_one_that_is_printed_and_linked(tmp_path: Path) -> None:
    """`sign-in` takes it from the running server: in a shell, the variables of a service are not set."""
    folder = tmp_path / "data"
    public = "https://img.example.org"
    server = ServerProcess(folder, behind_proxy="127.0.0.1", public_url=f"{public}:443/")
    try:
        assert wait_until(lambda: server.root is not None, TIMEOUT_S)
        assert server.root == public
        link = command_line("sign-in", data_dir=folder).stdout.strip()
        assert link.startswith(f"{public}/?token=")
        assert len(link) > len(f"{public}/?token=") + 20
        assert "it serves http://127.0.0.1:" in command_line("serve", "--no-browser", data_dir=folder).stdout
    finally:
        server.kill()
