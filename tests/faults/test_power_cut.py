"""A loss of power at a few recorded changes of the data folder. `tests.ordeals.power_cuts` is the thorough run.

`FAULT_SEED` repeats a run's cuts.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from tests.ordeals.power_cuts import choose_cuts, cut, record
from tests.ordeals.recorder import read_changes

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="the recorder needs Linux and a C compiler"
)

SEED = int(os.environ.get("FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
CUTS = 4
SECONDS = 4


def test_no_invariant_is_broken_by_a_loss_of_power(tmp_path: Path) -> None:
    print(f"\nFAULT_SEED={SEED}")
    log, root, work = tmp_path / "changes.log", tmp_path / "data", tmp_path / "images"
    work.mkdir()
    record(root, log, SEED, SECONDS)
    kinds = [change.kind for change in read_changes(log, root)]
    outcomes = cut(log, root, choose_cuts(kinds, CUTS, random.Random(SEED)), SEED, work)
    assert outcomes.total() >= CUTS
    assert outcomes["violations"] == 0
