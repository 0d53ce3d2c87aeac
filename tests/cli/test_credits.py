"""`credits`: balances and grants."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Program


def test_a_new_account_starts_with_the_first_balance(program: Program) -> None:
    program.data.mkdir()
    assert program.in_process_json("credits", "balance", first_balance=12) == {"account": "default", "balance": 12}


def test_a_grant_is_added_to_the_balance(program: Program) -> None:
    assert program.in_process_json("credits", "grant", 5, first_balance=12)["balance"] == 17
    assert program.in_process_json("credits", "balance")["balance"] == 17
    assert "17" in program.in_process("credits", "balance").stdout


def test_accounts_have_separate_balances(program: Program) -> None:
    program.in_process_json("keys", "create", "--name", "a", "--account", "other", first_balance=3)
    assert program.in_process_json("credits", "grant", 2, "--account", "other")["balance"] == 5
    assert program.in_process_json("credits", "balance", first_balance=12)["balance"] == 12


@pytest.mark.parametrize("amount", ["0", "-5", "1.5", "much", "9999999999999999999"])
def test_only_a_positive_integer_can_be_granted(program: Program, amount: str) -> None:
    program.data.mkdir()
    refused = program.in_process("credits", "grant", "--", amount)
    assert refused.exit_code == 2
    assert amount in refused.stderr
    assert program.in_process_json("credits", "balance", first_balance=12)["balance"] == 12


@pytest.mark.parametrize("command", [("balance",), ("grant", "5")])
def test_an_unknown_account_is_refused_and_not_created(program: Program, command: tuple[str, ...]) -> None:
    program.data.mkdir()
    for _ in range(2):
        result = program.in_process("credits", *command, "--account", "nobody")
        assert result.exit_code == 2
        assert "'nobody'" in result.stderr
