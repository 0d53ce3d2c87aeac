"""Uses the whole program as a user does: imports a model, processes pictures on the command line and through the
service, downloads the results, runs `doctor`, and stops the service. The program may be frozen or run from source.

It can also be started alone, for example under tests/support/connect_guard.py:

    python tests/support/journey.py --pictures FOLDER --work FOLDER [--model FILE…] -- PROGRAM [ARGUMENT…]

It imports only the standard library. The exit status is not 0 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any

COMMAND_TIMEOUT_S = 300
RESPONSE_TIMEOUT_S = 90
JOB_TIMEOUT_S = 90
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
ADDRESS = re.compile(r"serves (http://\S+)/api/v1")


class Journey:
    """One run of the program's commands and of its service, on a data folder below `work`."""

    def __init__(self, program: list[str], work: Path) -> None:
        self.program = program
        self.data = work / "data"
        self.out = work / "out"
        self.log = work / "serve.log"

    def command(self, *arguments: str, expected: int = 0) -> str:
        """Run a command of the program and return its output. Raises: SystemExit for another exit status."""
        done = subprocess.run(
            [*self.program, "--data-dir", str(self.data), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if done.returncode != expected:
            raise SystemExit(f"{arguments[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def serve(self, pictures: list[Path]) -> set[str]:
        """Process every picture through the service and download the results.

        Returns the values of `source` in the translations: how their texts were made.
        """
        key = json.loads(self.command("keys", "create", "--name", "journey", "--rate-limit", "0", "--json"))["key"]
        with self.log.open("wb") as log:
            server = subprocess.Popen(
                [*self.program, "--data-dir", str(self.data), "serve", "--no-browser", "--port", "0"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        try:
            url = self._address(server)
            sources: set[str] = set()
            for picture in pictures:
                sources |= self._process(url, key, picture)
            server.send_signal(signal.SIGTERM)
            if server.wait(STOP_TIMEOUT_S) != 0:
                raise SystemExit(f"serve ended with {server.returncode}:\n{self.log.read_text()}")
            return sources
        finally:
            server.kill()
            server.wait()

    def _address(self, server: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + START_TIMEOUT_S
        while server.poll() is None and time.monotonic() < deadline:
            printed = ADDRESS.search(self.log.read_text(encoding="utf-8", errors="replace"))
            if printed:
                return f"{printed[1]}/api/v1"
            time.sleep(0.05)
        raise SystemExit(f"serve did not start:\n{self.log.read_text()}")

    def _process(self, url: str, key: str, picture: Path) -> set[str]:
        boundary = uuid.uuid4().hex
        name = picture.name.encode()
        body = b'--%b\r\nContent-Disposition: form-data; name="image"; filename="%b"\r\n\r\n%b\r\n--%b--\r\n' % (
            boundary.encode(),
            name,
            picture.read_bytes(),
            boundary.encode(),
        )
        multipart = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        job_id = json.loads(_fetch(f"{url}/images/process", key, body, multipart))["data"]["job_id"]
        deadline = time.monotonic() + JOB_TIMEOUT_S
        while True:
            job: dict[str, Any] = json.loads(_fetch(f"{url}/jobs/{job_id}", key, headers={"Prefer": "wait=30"}))["data"]
            if job["status"] == "completed":
                break
            if job["status"] == "failed" or time.monotonic() > deadline:
                raise SystemExit(f"{picture.name}: {job}")
        for result in ("optimized", "converted"):
            if not _fetch(f"{url}/images/{job['image']['id']}/{result}", key):
                raise SystemExit(f"{picture.name}: an empty {result} file")
        return {translation["source"] for translation in job["image"]["translations"]}


def _fetch(url: str, key: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
    request = urllib.request.Request(url, body, {"X-API-Key": key, **(headers or {})})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=RESPONSE_TIMEOUT_S) as answer:
        content: bytes = answer.read()
        return content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--work", type=Path, required=True, metavar="FOLDER", help="A new folder for everything that is written."
    )
    parser.add_argument("--model", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("program", nargs="+", metavar="PROGRAM")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    journey = Journey(arguments.program, arguments.work)
    pictures = sorted(path for path in arguments.pictures.iterdir() if path.is_file())
    if arguments.model:
        print(journey.command("models", "import", *map(str, arguments.model), "--name", "journey").strip())
    journey.command("process", str(arguments.pictures), "--out", str(journey.out), "--format", "avif")
    results = [file for file in journey.out.iterdir() if not file.name.startswith(".")]
    print(f"process: {len(results)} files of {len(pictures)} pictures")
    print(f"service: texts from {', '.join(sorted(journey.serve(pictures)))}")
    network = [
        check for check in json.loads(journey.command("doctor", "--json"))["checks"] if check["name"] == "network"
    ]
    print(f"doctor: {network[0]['state']}: {network[0]['detail']}")


if __name__ == "__main__":
    sys.exit(main())
