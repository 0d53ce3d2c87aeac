"""A short run of every fuzzing target, and the tools themselves: they find what is broken."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fuzz import native, targets
from tests.fuzz.campaign import MAX_INPUT_S, Campaign
from tests.fuzz.mutate import mutated
from tests.fuzz.seeds import seeds

EXECUTIONS = 120
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


@pytest.mark.skipif(sys.platform == "win32", reason="needs the alarm signal of POSIX")
def test_a_crash_is_counted_and_its_input_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(data: bytes) -> None:
        raise KeyError(data[0])

    monkeypatch.setitem(targets.TARGETS, "xmp", fails)
    campaign = Campaign("xmp", 1, 1, tmp_path)
    campaign.execute(b"one")
    campaign.execute(b"two")
    assert list(campaign.crashes.values()) == [2]
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"one"]
    assert "1 kinds of crashes" in campaign.summary()


def has_sanitizers() -> bool:
    if sys.platform != "linux" or native.compiler() is None:
        return False
    command = [str(native.compiler()), "-print-file-name=libasan.so"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()).is_absolute()


@pytest.mark.skipif(not has_sanitizers(), reason="needs a C compiler with AddressSanitizer")
def test_the_c_extensions_run_without_an_error_of_the_sanitizers(tmp_path: Path) -> None:
    assert native.run(NATIVE_SECONDS, 7, tmp_path) == 0
