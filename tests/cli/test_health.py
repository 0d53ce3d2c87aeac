"""`health` says what the running server says of itself."""

from __future__ import annotations

import ssl
import threading
from errno import EACCES
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from imgproc_local.system import files
from imgproc_local.system.folder_lock import FolderLock
from tests.cli.conftest import Program
from tests.faults.server_process import command_line, serving
from tests.support.certificates import self_signed


class _Broken(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(503 if self.path == "/healthz" else 404)
        self.end_headers()
        self.wfile.write(b'{"message": "No worker process can be started."}')

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


def test_a_server_that_works_is_healthy_also_with_tls_and_air_gapped(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path, "pictures.example")
    certificate.write_bytes(certificate.read_bytes() + key.read_bytes())
    folder = tmp_path / "data"
    trusted = ssl.create_default_context(cafile=str(certificate))
    with serving(folder, verify=trusted, tls_cert=certificate, air_gapped="true"):
        asked = command_line("health", data_dir=folder, air_gapped="true")
        assert (asked.returncode, asked.stdout) == (0, '{"status":"ok"}\n'), asked.stderr


def test_a_server_that_is_not_well_does_not_answer_or_does_not_run(program: Program) -> None:
    with FolderLock(program.data, "serve") as lock, HTTPServer(("127.0.0.1", 0), _Broken) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        lock.publish(f"http://127.0.0.1:{server.server_port}")
        broken = program.in_process("health")
        server.shutdown()
        thread.join()
        server.server_close()
        silent = program.in_process("health")
    assert (broken.exit_code, "No worker process can be started" in broken.output) == (1, True)
    assert (silent.exit_code, "does not answer" in silent.output) == (1, True)
    assert "No server runs" in program.error("health")


@pytest.mark.parametrize("command", ["health", "sign-in"])
def test_a_folder_of_somebody_else_is_not_taken_for_one_without_a_server(
    program: Program, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(EACCES, "Permission denied")

    monkeypatch.setattr(files, "open_own_file", refuse)
    refused = program.error(command)
    assert f"The data folder {program.data} can't be read (Permission denied" in refused
    assert "No server runs" not in refused
