"""A short run of every fuzzing target, and of the C extensions under the sanitizers of the compiler."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from tests.fuzz import campaign, native, targets
from tests.fuzz.mutate import mutated
from tests.fuzz.seeds import seeds

EXECUTIONS = 120
MAX_INPUT_S = 2.0
"""The most CPU time that an input may take."""
NATIVE_SECONDS = 4


@pytest.mark.parametrize("target", targets.TARGETS)
def test_mutated_inputs_are_accepted_or_refused_in_time(target: str) -> None:
    source = random.Random(7)
    originals = seeds(target)
    inputs = [*originals, *(mutated(source.choice(originals), source, originals) for _ in range(EXECUTIONS))]
    accepted = 0
    for data in inputs:
        started_s = time.process_time()
        accepted += targets.run(target, data)
        assert time.process_time() - started_s < MAX_INPUT_S
    assert accepted > EXECUTIONS // 20


def test_mutations_try_names_of_parts_that_no_seed_has() -> None:
    tried = b"".join(mutated(bytes(64), random.Random(seed)) for seed in range(2000))
    names = (b"<!DOCTYPE x>", b"&#0;", b"co64", b"iloc", b'xml:lang="x-default"', b"ICC_PROFILE", b"VP8L")
    assert [name for name in names if name not in tried] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("all", "needs atheris, of the dependency group fuzz"),
        ("png --seconds 1", "needs atheris, of the dependency group fuzz"),
        ("all --replay FILE", "expected one of jpeg, png,"),
        ("unknown --replay FILE", "received 'unknown'"),
    ],
)
def test_a_campaign_that_can_not_run_says_why(
    arguments: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["campaign", *arguments.split()])
    with mock.patch("importlib.util.find_spec", return_value=None), pytest.raises(SystemExit) as ended:
        campaign.main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def has_sanitizers() -> bool:
    if sys.platform != "linux" or native.compiler() is None:
        return False
    command = [str(native.compiler()), "-print-file-name=libasan.so"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()).is_absolute()


@pytest.mark.skipif(not has_sanitizers(), reason="needs a C compiler with AddressSanitizer")
def test_the_c_extensions_run_without_an_error_of_the_sanitizers(tmp_path: Path) -> None:
    assert native.run(NATIVE_SECONDS, 7, tmp_path) == 0
