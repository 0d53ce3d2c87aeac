"""`keys`, `credits`, `sessions`, `sign-in`, what `serve` prints of secrets, and the audit log of all these."""

from __future__ import annotations

import logging
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Program, use_link
from tests.faults.server_process import ROOT, clean_environment, serving
from tests.support import pictures

LINK = re.compile(r"(http://\S+/)\?token=(\S+)")


def test_a_key_is_shown_once_and_listed_until_it_is_revoked(program: Program) -> None:
    first = program.in_process_json("keys", "create", "--name", "shop")
    assert (list(first), first["name"], first["key"][:5]) == (["id", "name", "key"], "shop", "imgp_")
    printed = program.output("keys", "create", "--name", "größer", "--rate-limit", 0, "--account", "other")
    (second,) = re.findall(r"imgp_\w+", printed)
    for wrong in ((), ("--name", " "), ("--name", "a\nb"), ("--name", "a", "--rate-limit", "-1"), ("--name", "\udcff")):
        program.error("keys", "create", *wrong)
    text = program.output("keys", "list")
    for word in (first["id"], "shop", "größer", "no limit"):
        assert word in text
    for secret in (first["key"], second, second.removeprefix("imgp_")):
        assert secret not in text + program.output("keys", "list", "--json")
    listed = program.in_process_json("keys", "list")
    assert [(key["rate_limit"], key["account"]) for key in listed] == [(None, "default"), (0, "other")]
    for key in listed:
        program.output("keys", "revoke", key["id"].upper())  # the case does not matter
    text = program.output("keys", "list")
    assert "There is no key." in text
    assert "Not listed: 2 revoked." in text
    revoked_at = program.in_process_json("keys", "list")[0]["revoked_at"]
    assert f"revoked {revoked_at[:19]}Z" in program.output("keys", "list", "--all")
    assert first["id"] in program.error("keys", "revoke", first["id"])


def test_no_data_folder_is_created_by_a_command_that_needs_one(program: Program, tmp_path: Path) -> None:
    commands = ["keys list", "keys revoke 01", "credits balance", "sessions list", "prune --older-than 1d", "verify"]
    for command in (*commands, f"backup {tmp_path / 'backup.tar'}"):
        missing = program.error(*command.split())
        assert f"The data folder {program.data} does not exist. Name another one with --data-dir" in missing
        assert not program.data.exists()
    program.data.write_text("a file")
    for command in (*commands, f"backup {tmp_path / 'backup.tar'}", "keys create --name shop", "serve"):
        assert f"{program.data} is a file" in program.error(*command.split())


def test_a_running_server_applies_new_and_revoked_keys_and_credits(program: Program) -> None:
    with serving(program.data) as server:
        url = f"{server.root}/api/v1/credits/balance"
        key = program.in_process_json("keys", "create", "--name", "beside", "--rate-limit", 2)
        headers = {"X-API-Key": key["key"]}
        before = httpx.get(url, headers=headers)
        assert (before.status_code, before.headers["X-RateLimit-Limit"]) == (200, "2")
        program.output("credits", "grant", 7)
        assert httpx.get(url, headers=headers).json()["data"]["balance"] == before.json()["data"]["balance"] + 7
        assert httpx.get(url, headers=headers).status_code == 429
        program.output("keys", "revoke", key["id"])
        assert httpx.get(url, headers=headers).status_code == 401


def test_each_account_has_its_own_balance_and_grants_add_to_it(program: Program) -> None:
    program.data.mkdir()
    for _ in range(2):  # the first one does not create the account
        for command in ("balance --account nobody", "grant 5 --account nobody"):
            assert "'nobody'" in program.error("credits", *command.split())
    for amount in ("0", "-5", "1.5", "9999999999999999999"):
        assert amount in program.error("credits", "grant", "--", amount)
    assert program.in_process_json("credits", "balance", first_balance=12) == {"account": "default", "balance": 12}
    assert program.in_process_json("credits", "grant", 5)["balance"] == 17
    assert "17" in program.output("credits", "balance")
    program.output("keys", "create", "--name", "a", "--account", "other", first_balance=3)
    assert program.in_process_json("credits", "grant", 2, "--account", "other")["balance"] == 5
    assert program.in_process_json("credits", "balance")["balance"] == 17


def test_links_work_once_and_sessions_are_listed_and_revoked_at_once(program: Program) -> None:
    assert "No server runs on the data folder" in program.error("sign-in")
    with serving(program.data) as server, httpx.Client(base_url=server.wait_ready()) as one, httpx.Client() as two:
        assert "No browser" in program.output("sessions", "list")
        for browser, name in ((one, "Browser one"), (two, "Browser two")):
            link = program.output("sign-in").strip()
            assert link.startswith(f"{server.root}/?token=")
            assert "app.js" in httpx.get(link).text
            assert use_link(link, browser, **{"User-Agent": name}).status_code == 200
            assert use_link(link).status_code == 401
        first, second = program.in_process_json("sessions", "list")
        assert [first["browser"], second["browser"]] == ["Browser one", "Browser two"]
        assert "Browser two" in program.output("sessions", "list")
        assert one.get("/local/keys").status_code == 200
        program.output("sessions", "revoke", first["id"])
        assert one.get("/local/keys").status_code == 401
        assert two.get(f"{server.root}/local/keys").status_code == 200
        unused = program.output("sign-in").strip()
        program.output("sessions", "revoke", "--all")
        assert two.get(f"{server.root}/local/keys").status_code == 401
        assert use_link(unused).status_code == 401, "links that were not used are revoked too"
    for arguments in ((first["id"],), (), ("x", "--all")):
        program.error("sessions", "revoke", *arguments)


def test_a_server_without_a_terminal_prints_no_secret_but_how_to_get_one(program: Program) -> None:
    with serving(program.data) as server:
        assert server.terminate() == 0
        printed = server.output()
    for word, expected in (("imgp_", 0), ("token=", 0), (" sign-in`", 1), (" keys create ", 1)):
        assert printed.count(word) == expected
    assert program.in_process_json("keys", "list") == [], "a key that nobody can see is not created"


def terminal_output(folder: Path, until: str) -> str:
    """What `serve` on `folder` prints to a terminal, up to `until`."""
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "imgproc_local", "serve", "--no-browser", "--port", "0"],
        cwd=ROOT,
        env=clean_environment(data_dir=folder),
        stdin=subprocess.DEVNULL,
        stdout=secondary,
        stderr=subprocess.DEVNULL,
    )
    os.close(secondary)
    printed, deadline = b"", time.monotonic() + 60
    try:
        while until not in printed.decode() and time.monotonic() < deadline:
            if select.select([primary], [], [], 1)[0]:
                printed += os.read(primary, 4096)
        link = LINK.search(printed.decode())
        assert link
        assert use_link(link[0].strip()).status_code == 200
    finally:
        process.terminate()
        process.wait(60)
        os.close(primary)
    return printed.decode()


def test_a_server_in_a_terminal_prints_a_link_and_the_first_key(tmp_path: Path) -> None:
    assert re.search(r"imgp_\w{32}", terminal_output(tmp_path / "data", "Create more with"))
    assert "imgp_" not in terminal_output(tmp_path / "data", "Page:"), "only an empty data folder gets a first key"


def test_uses_of_keys_and_acts_of_administrators_are_audited_without_contents(program: Program) -> None:
    with serving(program.data) as server, httpx.Client() as browser:
        root = server.wait_ready()
        key = program.in_process_json("keys", "create", "--name", "Secret customer")
        program.output("credits", "grant", "5")
        headers = {"X-API-Key": key["key"], "X-Request-Id": "the-upload"}
        files = {"image": ("Secret picture.jpg", pictures.jpeg())}
        assert httpx.post(f"{root}/api/v1/images/optimize", headers=headers, files=files).status_code == 202
        assert httpx.get(f"{root}/api/v1/languages").status_code == 200
        assert httpx.get(f"{root}/api/v1/jobs", headers={"X-API-Key": "imgp_wrong"}).status_code == 401
        assert use_link(program.output("sign-in").strip(), browser).status_code == 200
        (session,) = program.in_process_json("sessions", "list")
        made = browser.post(f"{root}/local/keys", json={"name": "Other customer"}).json()
        browser.delete(f"{root}/local/keys/{made['data']['id']}")
        program.output("sessions", "revoke", session["id"])
        program.output("keys", "revoke", key["id"])
        assert httpx.get(f"{root}/api/v1/jobs", headers=headers).status_code == 401
    file = program.data / "logs" / "audit.log"
    assert os.name != "posix" or file.stat().st_mode & 0o077 == 0
    lines = file.read_text(encoding="utf-8").splitlines()
    at = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")
    assert all(at.match(line) for line in lines)
    assert [line.split()[1] for line in lines] == [
        "key.create", "credits.grant", "key.use", "link.create", "session.begin", "key.create", "key.revoke",
        "session.revoke", "key.revoke",
    ]  # fmt: skip
    use = lines[2]
    for part in (f"key={key['id']}", "method=POST", "route=/api/v1/images/optimize", "status=202", "client=127.0.0.1"):
        assert part in use
    assert use.endswith("request=the-upload")
    for secret in (key["key"], made["data"]["key"], "Secret", "customer", "token"):
        assert secret not in "\n".join(lines)
    assert not logging.getLogger("imgproc_local.audit").propagate, "no other log has these lines"
