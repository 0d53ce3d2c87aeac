"""`archive` on 300 pictures, of which ten kill their worker, while workers, scheduler and client are killed.

`python -m tests.ordeals.archive [--pictures 300] [--poisonous 10] [--kills 20] [--losses 3] [--seed N]`

At random moments a worker process of Dask, its scheduler or the client is killed. A client that ends without having
written the tables is started again with the same command. Afterwards every poisonous picture is recorded as failed,
every other picture has one result, and texts and files are those of an undisturbed run on the same folder without the
poisonous pictures. Linux only.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from tests.bench.load import with_comment
from tests.support import pictures, processes

POISON = "poison"
PRELOAD = """
import os, signal
from imgproc_local.archive import worker

process_picture = worker.process_picture

def deadly(tools, pending):
    if "poison" in pending.picture.key:
        os.kill(os.getpid(), signal.SIGKILL)
    return process_picture(tools, pending)

worker.process_picture = deadly
"""
RUN_S = 1500


def write_source(folder: Path, count: int, poisonous: int, seed: int) -> None:
    different = [pictures.jpeg(160, 120, seed=number) for number in range(10)]
    poison = set(random.Random(seed).sample(range(count), poisonous))
    for number in range(count):
        name = f"{POISON if number in poison else 'stone'}-{number:04}.jpg"
        file = folder / f"{number // 20:02}" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(with_comment(different[number % 10], str(number)))


class Archive:
    """The command on one target. Its workers load the module that makes pictures poisonous."""

    def __init__(self, work: Path, source: Path, target: Path) -> None:
        (work / "preload").mkdir(exist_ok=True)
        (work / "preload" / "poisonous_pictures.py").write_text(PRELOAD)
        self.target = target
        self._command = [sys.executable, "-m", "imgproc_local", "archive", source, target, "--workers", "2"]
        self._command += ["--languages", "en", "--effort", "fast", "--data-dir", work / f"data-{target.name}"]
        self._environment = {
            **os.environ,
            "IMGPROC_MODEL": "none",
            "PYTHONPATH": os.pathsep.join([str(work / "preload"), os.environ.get("PYTHONPATH", "")]),
            "DASK_DISTRIBUTED__WORKER__PRELOAD": "poisonous_pictures",
        }
        self.output = work / f"{target.name}.log"

    def start(self) -> subprocess.Popen[bytes]:
        with self.output.open("ab") as output:
            return subprocess.Popen(self._command, env=self._environment, stdout=output, stderr=output)

    def run(self, timeout_s: float) -> int:
        """The exit status of a run to its end. A run that takes longer is killed, and its output shown."""
        with self.start() as running:
            try:
                return running.wait(timeout_s)
            except subprocess.TimeoutExpired:
                running.kill()
                raise SystemExit(f"Not ended within {timeout_s:.0f} s:\n{self.output.read_text()[-6000:]}") from None

    def rows(self) -> list[dict[str, object]]:
        table: list[dict[str, object]] = pq.read_table(self.target / "archive.parquet").to_pylist()
        return table

    def texts(self) -> list[list[str]]:
        with (self.target / "alt.csv").open(encoding="utf-8-sig", newline="") as file:
            return sorted(csv.reader(file))

    def result_count(self) -> int:
        return sum(1 for _ in self.target.glob("*/*.jpg"))

    def files(self) -> dict[str, bytes]:
        paths = (path for path in self.target.rglob("*") if path.is_file())
        names = {path.relative_to(self.target).as_posix(): path for path in paths}
        shown = {name: path for name, path in names.items() if not name.startswith(".") and "/" in name}
        return {name: path.read_bytes() for name, path in shown.items()}


def cluster_and_workers(client: int) -> tuple[list[int], list[int]]:
    """The process that holds the scheduler, and the worker processes of Dask."""
    below = processes.descendants(client)
    clusters = [pid for pid in below if "archive-cluster" in processes.command_line(pid)]
    workers = [pid for pid in below if "spawn_main" in processes.command_line(pid)]
    return clusters, workers


def disturbed(archive: Archive, kills: int, losses: int, rng: random.Random) -> list[str]:
    """Run the command to its end, and kill processes meanwhile. Returns what was killed, in order."""
    to_kill = ["worker"] * kills + [rng.choice(("scheduler", "client")) for _ in range(losses)]
    rng.shuffle(to_kill)
    killed: list[str] = []
    begun_with = 0
    running = archive.start()
    ends_at = time.monotonic() + RUN_S
    while True:
        pause_s = rng.uniform(1, 8)
        try:
            running.wait(pause_s if to_kill else max(1.0, ends_at - time.monotonic()))
        except subprocess.TimeoutExpired:
            if not to_kill:
                running.kill()
                raise SystemExit(f"The command did not end within {RUN_S} s; see {archive.output}.") from None
        else:
            if running.returncode in (0, 1) and (archive.target / "archive.parquet").exists():
                return killed
            if time.monotonic() > ends_at:
                raise SystemExit(f"The command ended with {running.returncode}; see {archive.output}.")
            running = archive.start()
            continue
        clusters, workers = cluster_and_workers(running.pid)
        victims = {"client": [running.pid], "scheduler": clusters, "worker": workers}[to_kill[0]]
        if not victims or (to_kill[0] != "client" and archive.result_count() == begun_with):
            continue  # a run ends if its cluster does not start
        try:
            os.kill(rng.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            continue
        if to_kill[0] == "client":
            running.wait()
            while any(processes.command_line(pid) for pid in (*clusters, *workers)):
                time.sleep(0.1)  # they may still write results
            running = archive.start()
        begun_with = archive.result_count()
        killed.append(to_kill.pop(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--poisonous", type=int, default=10)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--losses", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    options = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory(prefix="archive-") as name:
        work = Path(name)
        write_source(work / "source", options.pictures, options.poisonous, options.seed)
        shutil.copytree(work / "source", work / "healthy")
        for poison in (work / "healthy").rglob(f"{POISON}-*"):
            poison.unlink()
        started_s = time.monotonic()
        archive = Archive(work, work / "source", work / "disturbed")
        killed = disturbed(archive, options.kills, options.losses, random.Random(options.seed))
        duration_s = time.monotonic() - started_s
        quiet = Archive(work, work / "healthy", work / "undisturbed")
        if quiet.run(RUN_S) != 0:
            raise SystemExit(quiet.output.read_text())
        rows = archive.rows()
        outcomes = {row["source"]: row["outcome"] for row in rows}
        names = [path.relative_to(work / "source").as_posix() for path in (work / "source").rglob("*.jpg")]
        failed = [*outcomes.values()].count("failed")
        due = {name: "failed" if POISON in name else "done" for name in names}
        if len(rows) != len(outcomes):
            problems.append("a picture has more than one row")
        if wrong := sorted(outcomes.items() ^ due.items()):
            problems.append(f"the outcomes of pictures are not those expected, such as {wrong[0]}")
        files, expected = archive.files(), quiet.files()
        if different := sorted(name for name in files | expected if files.get(name) != expected.get(name)):
            problems.append(f"{len(different)} files differ from those of the undisturbed run, such as {different[0]}")
        if archive.texts() != quiet.texts():
            problems.append("alt.csv differs from that of the undisturbed run")
        if problems:
            print(archive.output.read_text()[-4000:])
    print(
        f"seed {options.seed}: {options.pictures} pictures, {failed} failed, in {duration_s:.0f} s; killed"
        f" {killed.count('worker')} workers, {killed.count('scheduler')} schedulers, {killed.count('client')} clients"
    )
    print(
        "\n".join(problems) or "Every innocent picture has one result, and the files are those of an undisturbed run."
    )
    sys.exit(1 if problems or len(killed) < options.kills + options.losses else 0)


if __name__ == "__main__":
    main()
