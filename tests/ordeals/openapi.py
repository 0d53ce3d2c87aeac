"""Schemathesis against a running server: generated requests by the published OpenAPI document, with real pictures.

`python -m tests.ordeals.openapi [--cases 5000] [--seed 1] [--schemathesis PROGRAM]`

Every answer must be documented with its status, type, headers and schema; invalid input must be refused, valid input
accepted, and nothing may be answered with 5xx. Sequences along the links of the document are tested too. Schemathesis
is not part of the development requirements, because it needs 26 packages of its own:

    python3 -m venv schemathesis && schemathesis/bin/pip install schemathesis==4.32.5 pillow
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx

from tests.faults.server_process import make_key, serving
from tests.support import pictures

HOOKS = Path(__file__).with_name("openapi_hooks.py")
TIME_LIMIT_S = 3600
OPERATIONS = 33
MAX_EXAMPLES = 60
"""Generated requests per operation and phase in one round."""
CASES = re.compile(r"(\d+) generated")
LINKS = re.compile(r"API Links: +(\d+ covered[^\n]*)")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=5000, help="run at least this many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schemathesis", default=shutil.which("schemathesis"), help="the program, if not on PATH")
    options = parser.parse_args(arguments)
    if options.schemathesis is None:
        parser.error("schemathesis is not installed; see --help")
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder), options.schemathesis, options.cases, options.seed)


def run(folder: Path, program: str, min_cases: int, seed: int) -> int:
    """Run rounds with consecutive seeds until there were `min_cases`, or one failed. Returns 0 if no case failed."""
    key = make_key(folder / "data")
    cases, began_s = 0, time.monotonic()
    with serving(folder / "data", queue_limit=100_000) as server:
        root = server.wait_ready()
        environment = {
            **os.environ,
            "SCHEMATHESIS_HOOKS": str(HOOKS),
            "ORDEAL_PROJECT_ID": make_project(root, key),
        }
        while cases < min_cases:
            per_operation = max(2, min(MAX_EXAMPLES, (min_cases - cases) // OPERATIONS))
            done = subprocess.run(
                [program, "--no-color", "run", f"{root}/api/v1/openapi.json", "--header", f"X-API-Key: {key}",
                 "--checks", "all", "--seed", str(seed), "--max-examples", str(per_operation),
                 # the stream of an account does not end while the service runs
                 "--exclude-path", "/events", "--generation-database", "none", "--request-timeout", "60",
                 "--continue-on-failure"],
                env={**environment, "ORDEAL_SEED": str(seed)},
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=TIME_LIMIT_S,
                check=False,
            )  # fmt: skip
            counted = CASES.search(done.stdout)
            if done.returncode != 0 or counted is None:
                print(done.stdout, done.stderr, sep="\n")
                print(f"failed with seed {seed}, after {cases} cases without a failure")
                return 1
            cases += int(counted[1])
            print(f"seed {seed}: {counted[1]} cases, {LINKS.search(done.stdout)[1]}", flush=True)
            seed += 1
        assert httpx.get(f"{root}/healthz", timeout=10).status_code == 200
    print(f"{cases} cases, 0 failures, {time.monotonic() - began_s:.0f} s")
    return 0


def make_project(root: str, key: str) -> str:
    """The id of a project that exists."""
    answer = httpx.post(
        f"{root}/api/v1/images/optimize", headers={"X-API-Key": key}, files={"image": ("a.jpg", pictures.jpeg())}
    )
    return answer.headers["x-project-id"]


if __name__ == "__main__":
    sys.exit(main())
