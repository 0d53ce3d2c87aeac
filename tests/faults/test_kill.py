"""A server that is killed at random moments under load loses no job and does none twice.

`FAULT_SEED` repeats the moments and choices of a run. `python -m tests.ordeals.kills` is the thorough run.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, finish_and_check
from tests.faults.server_process import ServerProcess, make_key

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")

KILLS = 8
SEED = int(os.environ.get("FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
STARTING_S, UPTIME_S = 0.8, 1.5
"""A quarter of the kills happen at most this long after the start of the process, the others after its first answer."""


def test_every_accepted_job_reaches_one_final_state_whenever_the_server_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    key = make_key(folder)
    print(f"\nFAULT_SEED={SEED}")
    moments = random.Random(SEED)
    with Fleet(key, SEED) as fleet:
        for _ in range(KILLS):
            server = ServerProcess(folder)
            try:
                if moments.random() < 0.25:
                    time.sleep(moments.uniform(0, STARTING_S))
                else:
                    fleet.root = server.wait_ready()
                    time.sleep(moments.uniform(0.1, UPTIME_S))
                assert server.process.poll() is None, server.output()
            finally:
                server.kill()
                fleet.root = None
    finish_and_check(fleet, folder, key)
    assert len(fleet.accepted) > KILLS, "there was hardly any load"
