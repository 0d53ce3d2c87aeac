"""Uses the whole program as a user does: imports a model, processes pictures on the command line and through the
service, downloads the results, runs `doctor`, and stops the service. The program may be frozen or run from source.

It can also be started alone, for example under tests/support/connect_guard.py:

    python -m tests.support.journey --pictures FOLDER --work FOLDER [--model FILE…] -- PROGRAM [ARGUMENT…]

The exit status is not 0 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

from tests.faults.server_process import make_key, serving
from tests.support.service import Service

COMMAND_TIMEOUT_S = 300


def serve(program: tuple[str, ...], data: Path, pictures: list[Path]) -> set[str]:
    """Process every picture through the service and download the results. Returns how the texts were made."""
    key, sources = make_key(data), set()
    with serving(data, program=program) as server, Service(server.wait_ready(), key) as service:
        for picture in pictures:
            job = service.process("process", picture.read_bytes(), picture.name)
            assert job["status"] == "completed", job
            for result in ("optimized", "converted"):
                assert service.client.get(f"/images/{job['image']['id']}/{result}").content, f"{picture.name}: {result}"
            sources |= {translation["source"] for translation in job["image"]["translations"]}
        assert server.terminate() == 0, server.output()
    return sources


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--work", type=Path, required=True, metavar="FOLDER", help="a new folder for what is written")
    parser.add_argument("--model", nargs="+", default=[], metavar="FILE")
    parser.add_argument("program", nargs="+", metavar="PROGRAM")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    data, out = arguments.work / "data", arguments.work / "out"

    def command(*options: str | Path) -> str:
        run = [*arguments.program, "--data-dir", data, *options]
        return subprocess.run(
            run, stdout=subprocess.PIPE, encoding="utf-8", timeout=COMMAND_TIMEOUT_S, check=True
        ).stdout

    if arguments.model:
        print(command("models", "import", *arguments.model, "--name", "journey").strip())
        for words in (("list",), ("verify",), ("use", "journey")):
            command("models", *words)
    command("process", arguments.pictures, "--out", out, "--format", "avif")
    pictures = sorted(path for path in arguments.pictures.iterdir() if path.is_file())
    results = [file for file in out.iterdir() if not file.name.startswith(".")]
    print(f"process: {len(results)} files of {len(pictures)} pictures")
    print(f"service: texts from {', '.join(sorted(serve(tuple(arguments.program), data, pictures)))}")
    (network,) = (check for check in json.loads(command("doctor", "--json"))["checks"] if check["name"] == "network")
    print(f"doctor: {network['state']}: {network['detail']}")


if __name__ == "__main__":
    main()
