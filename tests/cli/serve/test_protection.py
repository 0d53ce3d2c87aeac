"""Addresses that other machines can reach need TLS, or a proxy that has it."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from imgproc_local.cli.serve.protection import require_protection
from imgproc_local.config import Config
from imgproc_local.domain.errors import SettingInvalid
from tests.cli.conftest import Program, use_link
from tests.faults.server_process import command_line, make_key, serving


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost and its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    names = "DNS:localhost,IP:127.0.0.1"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-keyout", key, "-out", cert, "-subj", "/CN=localhost", "-addext", f"subjectAltName={names}"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    cert.write_bytes(cert.read_bytes() + key.read_bytes())
    return cert


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "studio.lan", "2001:db8::1"])
def test_a_reachable_address_is_refused_in_one_sentence(host: str) -> None:
    with pytest.raises(SettingInvalid) as refused:
        require_protection(Config(host=host))
    message = refused.value.message
    for word in (host, "--tls-cert", "--behind-proxy", "127.0.0.1"):
        assert word in message
    assert message.count(". ") == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost", "LOCALHOST", "127.1.2.3"])
def test_loopback_needs_nothing(host: str) -> None:
    require_protection(Config(host=host))


def test_a_refused_start_exits_with_status_2_before_it_listens(program: Program) -> None:
    result = program("serve", "--no-browser", "--host", "0.0.0.0", "--port", "0")
    assert result.returncode == 2
    assert "--tls-cert" in result.stderr
    assert "serves" not in result.stdout


def test_unusable_tls_files_are_refused(tmp_path: Path, certificate: Path) -> None:
    only_certificate, key = tmp_path / "certificate.pem", certificate.with_name("key.pem")
    only_certificate.write_text(certificate.read_text().partition("-----BEGIN PRIVATE KEY")[0])
    no_pem = tmp_path / "no.pem"
    no_pem.write_text("nothing")
    locked = tmp_path / "locked.pem"
    subprocess.run(
        ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:x", "-out", locked], check=True, capture_output=True
    )
    locked.write_text(only_certificate.read_text() + locked.read_text())
    for wrong, reason in (
        (only_certificate, "append it to the certificate"),
        (key, "PEM"),
        (no_pem, "PEM"),
        (tmp_path / "none", "No such file"),
        (locked, "without a password"),
    ):
        with pytest.raises(SettingInvalid, match=reason):
            require_protection(Config(host="0.0.0.0", tls_cert=str(wrong)))


@pytest.mark.parametrize("value", ["proxy.lan", "10.0.0.0/33", "10.0.0.1 10.0.0.2"])
def test_a_proxy_must_be_given_as_valid_addresses_or_networks(program: Program, value: str) -> None:
    result = program.in_process("config", "show", behind_proxy=value)
    assert result.exit_code == 2
    assert "behind_proxy" in result.stderr


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
        assert use_link(link, **headers).status_code == 200
        assert httpx.get(f"{root}/metrics", headers=headers).status_code == 401, (
            "a client on another machine needs a key"
        )
        assert httpx.get(f"{root}/metrics").status_code == 401, (
            "a proxy that does not state the client's address got the rights of a local client"
        )
        spoofed = {"Forwarded": "for=127.0.0.2;host=localhost", "X-Forwarded-For": "203.0.113.5"}
        assert httpx.get(f"{root}/metrics", headers=spoofed).status_code == 401, (
            "a client whose header the proxy passed on got the rights of a local client"
        )
        forged = {"X-API-Key": make_key(folder), "X-Forwarded-For": "203.0.113.5 key=FORGED, 127.0.0.1"}
        assert httpx.get(f"{root}/api/v1/jobs", headers=forged).status_code == 200
        assert "FORGED" not in (folder / "logs" / "audit.log").read_text(encoding="utf-8")
