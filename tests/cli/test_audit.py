"""The audit log: what a server and commands beside it write to it, and that it holds no secrets and no names."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import httpx

from tests.cli.conftest import Program, use_link
from tests.faults.server_process import serving
from tests.support import pictures


def audit_lines(folder: Path) -> list[str]:
    return (folder / "logs" / "audit.log").read_text(encoding="utf-8").splitlines()


def test_uses_of_keys_and_acts_of_administrators_are_audited_without_contents(program: Program) -> None:
    with serving(program.data) as server, httpx.Client() as browser:
        root = server.wait_ready()
        key = program.in_process_json("keys", "create", "--name", "Secret customer")
        program.in_process("credits", "grant", "5")
        headers = {"X-API-Key": key["key"], "X-Request-Id": "the-upload"}
        files = {"image": ("Secret picture.jpg", pictures.jpeg())}
        assert httpx.post(f"{root}/api/v1/images/optimize", headers=headers, files=files).status_code == 202
        assert httpx.get(f"{root}/api/v1/languages").status_code == 200
        assert httpx.get(f"{root}/api/v1/jobs", headers={"X-API-Key": "imgp_wrong"}).status_code == 401
        assert use_link(program.in_process("sign-in").stdout.strip(), browser).status_code == 200
        (session,) = program.in_process_json("sessions", "list")
        made = browser.post(f"{root}/local/keys", json={"name": "Other customer"}).json()
        browser.delete(f"{root}/local/keys/{made['data']['id']}")
        program.in_process("sessions", "revoke", session["id"])
        program.in_process("keys", "revoke", key["id"])
        assert httpx.get(f"{root}/api/v1/jobs", headers=headers).status_code == 401
    lines = audit_lines(program.data)
    at = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")
    assert all(at.match(line) for line in lines)
    acts = [line.split()[1] for line in lines]
    assert acts == [
        "key.create", "credits.grant", "key.use", "link.create", "session.begin", "key.create", "key.revoke",
        "session.revoke", "key.revoke",
    ]  # fmt: skip
    use = lines[2]
    for part in (f"key={key['id']}", "method=POST", "route=/api/v1/images/optimize", "status=202", "client=127.0.0.1"):
        assert part in use
    assert use.endswith("request=the-upload")
    text = "\n".join(lines)
    for secret in (key["key"], made["data"]["key"], "Secret", "customer", "token"):
        assert secret not in text


def test_the_audit_log_is_private(program: Program) -> None:
    program.in_process("keys", "create", "--name", "a")
    assert (program.data / "logs" / "audit.log").stat().st_mode & 0o077 == 0


def test_audit_lines_go_to_no_other_log() -> None:
    audit = logging.getLogger("imgproc_local.audit")
    assert not audit.propagate
