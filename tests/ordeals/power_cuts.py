"""Cuts the power at many moments: what was not synced is lost, and the service must continue with the rest.

`python -m tests.ordeals.power_cuts [--cuts 200] [--seed N] [--seconds 12] [--program BINARY]`

A server works under load, is killed and started again, while every change in its data folder is recorded. Then, for
each cut, the folder is rebuilt as a disk would hold it after a loss of power (disk_model.py), and the service is
started on it. Checked are: `verify` finds no damage; each upload that was answered with 202 before the cut has its job
and reaches one final state; each state that was final before the cut is the same; the ledger adds up to what was
delivered; rows and files agree. Half of the cuts are at a sync, a rename, a deletion or a truncation; the others are at
any change.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from imgproc_local.storage.inspection import inspect_folder
from tests.faults import disk
from tests.faults.fleet import Fleet, wait_queue_empty
from tests.faults.server_process import ROOT, SOURCE, ServerProcess, clean_environment
from tests.ordeals.disk_model import Disk
from tests.ordeals.kills import small_pictures
from tests.ordeals.options import options_of
from tests.ordeals.recorder import EventLog, Kind, build, read_changes, under_library
from tests.support.service import running

CLIENTS, OPEN_JOBS = 3, 2
FINAL_TIMEOUT_S = 300
PROGRESS_EVERY = 20
CRITICAL = (Kind.SYNC_FILE, Kind.SYNC_FOLDER, Kind.RENAME, Kind.UNLINK, Kind.TRUNCATE)


class RecordingFleet(Fleet):
    """Clients that record the responses they received."""

    def __init__(self, key: str, seed: int, events: EventLog) -> None:
        super().__init__(key, seed, clients=CLIENTS, open_jobs=OPEN_JOBS, still=small_pictures())
        self._events = events

    def _dispatch(self, client: httpx.Client, root: str, rng: random.Random) -> list[str]:
        job_ids = super()._dispatch(client, root, rng)
        for job_id in job_ids:
            self._events.add({"accepted": job_id})
        return job_ids

    def poll(self, client: httpx.Client, root: str, job_id: str) -> None:
        was_final = job_id in self.finals
        super().poll(client, root, job_id)
        if not was_final and job_id in self.finals:
            self._events.add({"final": self.finals[job_id]})


def record(folder: Path, log: Path, seed: int, seconds: float, program: tuple[str, ...] = SOURCE) -> None:
    """Record the changes of a server that works in `folder`, is killed, is started again, and is stopped gracefully."""
    folder.mkdir()
    command = under_library(build(folder.parent), folder, program, log=log)
    create_key = (*command, "--data-dir", str(folder), "keys", "create", "--name", "k", "--rate-limit", "0", "--json")
    created = subprocess.run(create_key, check=True, capture_output=True, env=clean_environment(), cwd=ROOT)
    events = EventLog(log)
    with RecordingFleet(json.loads(created.stdout)["key"], seed, events) as fleet:
        for last in (False, True):
            server = ServerProcess(folder, program=command)
            fleet.root = server.wait_ready()
            time.sleep(seconds / 2)
            fleet.root = None
            if not last:
                server.kill()
    assert server.terminate() == 0, server.output()
    assert not fleet.surprises, fleet.surprises[:5]
    events.close()


def choose_cuts(kinds: list[Kind], count: int, rng: random.Random) -> list[int]:
    """The numbers of the changes after which the power is cut, in order."""
    critical = [number for number, kind in enumerate(kinds) if kind in CRITICAL]
    cuts = {*rng.sample(critical, min(count // 2, len(critical)))}
    anywhere = [number for number, kind in enumerate(kinds) if kind is not Kind.EVENT and number not in cuts]
    return sorted(cuts | {*rng.sample(anywhere, min(count - len(cuts), len(anywhere)))})


def check_image(folder: Path, accepted: list[str], finals: dict[str, dict[str, Any]]) -> None:
    """Assert every invariant of a folder after a cut, before and after a server has worked on it."""
    found = inspect_folder(folder, thorough=True).problems
    damage = [problem for problem in found if problem.area != "foreign"]
    assert not damage, damage
    with running(folder) as service:
        for job_id in accepted:
            final = service.final(job_id, FINAL_TIMEOUT_S)
            assert final == finals.get(job_id, final), (job_id, finals[job_id], final)
            for error in final.get("errors", []):
                assert error["message"].startswith("Interrupted"), error
        wait_queue_empty(folder)
    disk.check_folder(folder)


def cut(log: Path, root: Path, cuts: list[int], seed: int, work: Path) -> Counter[str]:
    """Check every cut. Returns how many there were by what survived, and prints each violation."""
    state, accepted, finals = Disk(), list[str](), dict[str, dict[str, Any]]()
    wanted, outcomes = set(cuts), Counter[str]()
    for number, change in enumerate(read_changes(log, root)):
        if change.kind is Kind.EVENT:
            event = json.loads(change.data)
            if "accepted" in event:
                accepted.append(event["accepted"])
            else:
                finals[event["final"]["job_id"]] = event["final"]
            continue
        state.apply(change)
        if number not in wanted:
            continue
        image = work / str(number)
        image.mkdir()
        survived = state.write_image(image, random.Random(f"{seed}-{number}"))
        outcomes[survived] += 1
        try:
            check_image(image, accepted, finals)
        except Exception as error:  # any of them is a violation; the others are checked too
            outcomes["violations"] += 1
            print(f"cut after change {number}, {change.kind.name} {change.path}, {survived} survived: {error!r}")
        else:
            shutil.rmtree(image)
        done = outcomes.total() - outcomes["violations"]
        if done % PROGRESS_EVERY == 0:
            print(f"{done} of {len(cuts)} cuts, {outcomes['violations']} violations", flush=True)
    everything = work / "everything"
    everything.mkdir()
    state.write_all(everything)
    assert contents(everything) == contents(root), "the recorder missed changes"
    return outcomes


def contents(folder: Path) -> dict[str, bytes]:
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.endswith("-shm")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def main() -> None:
    options = options_of(__doc__, cuts=200, seconds=12.0)
    print(f"--cuts {options.cuts} --seed {options.seed} --seconds {options.seconds:g}", flush=True)
    work = Path(tempfile.mkdtemp(prefix="power-cuts-"))
    log, root = work / "changes.log", work / "data"
    record(root, log, options.seed, options.seconds, options.program)
    kinds = [change.kind for change in read_changes(log, root)]
    counts = Counter(kind.name for kind in kinds)
    print(", ".join(f"{count:,} {name}" for name, count in counts.most_common()), flush=True)
    outcomes = cut(log, root, choose_cuts(kinds, options.cuts, random.Random(options.seed)), options.seed, work)
    print(f"{outcomes.total() - outcomes['violations']} cuts, {outcomes['violations']} violations; {dict(outcomes)}")
    if outcomes["violations"]:
        sys.exit(f"The images with violations are in {work}.")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
