"""A short run of every fuzzing target, and of the C extensions under the sanitizers of the compiler."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fuzz import native, targets
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


def has_sanitizers() -> bool:
    if sys.platform != "linux" or native.compiler() is None:
        return False
    command = [str(native.compiler()), "-print-file-name=libasan.so"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()).is_absolute()


@pytest.mark.skipif(not has_sanitizers(), reason="needs a C compiler with AddressSanitizer")
def test_the_c_extensions_run_without_an_error_of_the_sanitizers(tmp_path: Path) -> None:
    assert native.run(NATIVE_SECONDS, 7, tmp_path) == 0
