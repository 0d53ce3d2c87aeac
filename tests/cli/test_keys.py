"""`keys`, with and without a running server."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Program
from tests.faults.server_process import serving


def test_create_prints_exactly_the_id_the_name_and_the_key(program: Program) -> None:
    created = program.in_process_json("keys", "create", "--name", "shop")
    assert list(created) == ["id", "name", "key"]
    assert created["name"] == "shop"
    assert created["key"].startswith("imgp_")


def test_the_list_shows_every_key_but_never_a_secret(program: Program) -> None:
    first = program.in_process_json("keys", "create", "--name", "shop")
    second = program.in_process_json("keys", "create", "--name", "größer", "--rate-limit", 0, "--account", "other")
    for result in (program.in_process("keys", "list"), program.in_process("keys", "list", "--json")):
        assert result.exit_code == 0
        for key in (first, second):
            assert key["id"] in result.stdout
            assert key["name"] in result.stdout
            assert key["key"] not in result.stdout
            assert key["key"].removeprefix("imgp_") not in result.stdout
    listed = program.in_process_json("keys", "list")
    assert [key["rate_limit"] for key in listed] == [None, 0]
    assert [key["account"] for key in listed] == ["default", "other"]
    assert "no limit" in program.in_process("keys", "list").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "list"),
        ("keys", "revoke", "01"),
        ("credits", "balance"),
        ("sessions", "list"),
        ("prune", "--older-than", "1d"),
        ("verify",),
        ("backup", "{}/backup.tar"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_no_data_folder_is_created_by_a_command_that_needs_one(
    program: Program, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    words = [word.format(tmp_path) for word in arguments]
    missing = program.in_process(*words)
    assert (missing.exit_code, program.data.exists()) == (2, False)
    assert f"The data folder {program.data} does not exist. Name another one with --data-dir" in missing.stderr
    program.data.write_text("a file")
    for command in (words, ["keys", "create", "--name", "shop"], ["serve"]):
        refused = program.in_process(*command)
        assert (refused.exit_code, f"{program.data} is a file" in refused.stderr) == (2, True), refused.stderr


def test_a_new_key_is_printed_once(program: Program) -> None:
    result = program.in_process("keys", "create", "--name", "shop")
    assert result.exit_code == 0
    assert result.stdout.count("imgp_") == 1


def test_a_revoked_key_is_listed_as_such_and_can_not_be_revoked_again(program: Program) -> None:
    key = program.in_process_json("keys", "create", "--name", "shop")
    assert program.in_process("keys", "revoke", key["id"].upper()).exit_code == 0  # the case does not matter
    assert program.in_process_json("keys", "list")[0]["revoked_at"] is not None
    listed = program.in_process("keys", "list")
    assert "There is no key." in listed.stdout
    assert "Not listed: 1 revoked. `imgproc-local keys list --all` lists them, too." in listed.stdout
    assert f"revoked {program.in_process_json('keys', 'list')[0]['revoked_at'][:10]}" in (
        program.in_process("keys", "list", "--all").stdout
    )
    again = program.in_process("keys", "revoke", key["id"])
    assert again.exit_code == 2
    assert key["id"] in again.stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("--name", " "), ("--name", "a\nb"), ("--name", "x" * 256), ("--name", "a", "--rate-limit", "-1"),
     ("--name", "a", "--rate-limit", "many"), ("--name", "\udcff"), ("--name", "a", "--account", "")],
)  # fmt: skip
def test_invalid_arguments_are_refused_and_no_key_is_created(program: Program, arguments: tuple[str, ...]) -> None:
    program.data.mkdir()
    assert program.in_process("keys", "create", *arguments).exit_code == 2
    assert program.in_process_json("keys", "list") == []


def test_a_running_server_applies_new_and_revoked_keys_and_credits(program: Program) -> None:
    with serving(program.data) as server:
        url = f"{server.root}/api/v1/credits/balance"
        key = program.json("keys", "create", "--name", "beside", "--rate-limit", 2)
        headers = {"X-API-Key": key["key"]}
        before = httpx.get(url, headers=headers)
        assert before.status_code == 200
        assert before.headers["X-RateLimit-Limit"] == "2"
        program.json("credits", "grant", 7)
        assert httpx.get(url, headers=headers).json()["data"]["balance"] == before.json()["data"]["balance"] + 7
        assert httpx.get(url, headers=headers).status_code == 429
        assert program("keys", "revoke", key["id"]).returncode == 0
        assert httpx.get(url, headers=headers).status_code == 401
