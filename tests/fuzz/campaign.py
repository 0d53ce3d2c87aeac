"""Fuzzing guided by coverage: `python -m tests.fuzz.campaign TARGET --seconds 60 --seed 1`, or `all` for every target.

libFuzzer, in the package atheris of the dependency group `fuzz`, chooses mutations by the code that they reach. Half of
them are those of mutate.py. A run ends when its time is over, or at the first input that crashes or takes longer than
`MAX_INPUT_S`: it is written to the folder `--findings`, and `TARGET --replay FILE` runs it again. The inputs that
reached new code are kept in the folder `--corpus`, where a later run begins with them.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

MAX_INPUT_S = 20
"""Counting the coverage makes the code up to ten times slower; without it, `test_fuzz.py` allows two seconds."""


def target_names(*, counted: bool) -> list[str]:
    """The names of the targets, which are imported for this: with `counted`, so that their coverage is counted."""
    if counted:
        import atheris

        with atheris.instrument_imports(include=["imgproc_local", "multipart"]):
            from tests.fuzz import targets
    else:
        from tests.fuzz import targets
    return list(targets.TARGETS)


def fuzz(target: str, options: argparse.Namespace, corpus: Path) -> None:
    """Try inputs on one target. Does not return: libFuzzer ends the process, with its statistics printed."""
    import atheris

    from tests.fuzz import targets
    from tests.fuzz.mutate import mutated
    from tests.fuzz.seeds import seeds

    for folder in (corpus, options.findings):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (corpus / f"seed-{number}").write_bytes(seed)

    def mutate(data: bytes, max_bytes: int, seed: int) -> bytes:
        source = random.Random(seed)
        if source.random() < 0.5:
            return bytes(atheris.Mutate(data, max_bytes))
        return mutated(data, source, seeds(target)[:8])[:max_bytes]

    limits = [f"-seed={options.seed}", f"-max_total_time={max(1, round(options.seconds))}", f"-timeout={MAX_INPUT_S}"]
    limits += ["-max_len=262144", "-rss_limit_mb=4096", "-print_final_stats=1"]
    command = ["fuzz", *limits, f"-artifact_prefix={options.findings}{os.sep}{target}-", str(corpus)]

    def execute(data: bytes) -> None:
        targets.run(target, data)

    atheris.Setup(command, execute, custom_mutator=mutate, internal_libfuzzer=True)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign", description=__doc__)
    parser.add_argument("target", help="a name of TARGETS in tests/fuzz/targets.py, or all")
    parser.add_argument("--seconds", type=float, default=60, help="for `all`, divided between the targets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=Path(tempfile.gettempdir()) / "imgproc-local-findings")
    parser.add_argument("--corpus", type=Path, help="default: a temporary folder, removed at the end")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this input alone")
    options = parser.parse_args()
    if not options.replay and importlib.util.find_spec("atheris") is None:
        parser.error("needs atheris, of the dependency group fuzz")
    fuzzes_one = options.target != "all" and not options.replay
    names = target_names(counted=fuzzes_one)
    accepted = names if options.replay else [*names, "all"]
    if options.target not in accepted:
        parser.error(f"expected one of {', '.join(accepted)}; received {options.target!r}")
    if fuzzes_one:
        with tempfile.TemporaryDirectory(prefix="imgproc-local-corpus-") as temporary:
            fuzz(options.target, options, options.corpus or Path(temporary))
    if options.replay:
        from tests.fuzz.targets import run

        print("accepted" if run(options.target, options.replay.read_bytes()) else "refused")
        return 0
    failed = 0
    for name in names:
        command = [sys.executable, "-m", "tests.fuzz.campaign", name, "--seed", str(options.seed)]
        command += ["--seconds", str(options.seconds / len(names)), "--findings", options.findings]
        command += ["--corpus", options.corpus / name] if options.corpus else []
        failed += bool(subprocess.run(command, check=False).returncode)
    return failed


if __name__ == "__main__":
    sys.exit(main())
