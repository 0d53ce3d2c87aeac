"""A server that is killed at random moments under load loses no job and does none twice.

`FAULT_SEED` repeats the moments and choices of a run. `python -m tests.ordeals.kills` is the thorough run.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from tests.faults.server_process import SOURCE
from tests.ordeals.kills import run_round
from tests.ordeals.recorder import build

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")

KILLS = 8
SEED = int(os.environ.get("FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)


def test_every_accepted_job_reaches_one_final_state_whenever_the_server_is_killed(tmp_path: Path) -> None:
    print(f"\nFAULT_SEED={SEED}")
    library = build(tmp_path) if sys.platform == "linux" and shutil.which("cc") else None
    counts = run_round(tmp_path / "data", library, KILLS, SEED, SOURCE)
    assert counts["jobs answered 202"] > 2, counts
