"""Checks a built program: its start, a model, `doctor`, and the contract, without a network.

    python packaging/check.py PROGRAM [--with-network]

PROGRAM is the path of a one-folder or one-file program, or a command on PATH. It gets an empty environment and a data
folder with a non-ASCII name. On Linux everything runs in a network namespace that has only loopback, unless
`--with-network` is given; without root, user namespaces must be allowed. The contract is `tests/contract`, with the
Python that runs this script, which needs `requirements-dev.lock`. The exit status is 1 if something fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODEL = [ROOT / "models" / "tiny" / name for name in ("tiny-text.gguf", "tiny-mmproj.gguf")]
ADDRESS = re.compile(r"serves (http://\S+/api/v1)")
ENVIRONMENT = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
"""Windows opens no sockets without SYSTEMROOT."""
TIMEOUT_S = 120
NAMESPACE = ("unshare", "--net", "--map-root-user", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def main() -> None:
    program = shutil.which(sys.argv[1])
    if program is None:
        raise SystemExit(f"expected a program or a command on PATH; {sys.argv[1]} is none")
    program = str(Path.cwd() / program)
    if sys.platform == "linux" and "--with-network" not in sys.argv:
        os.execvp(NAMESPACE[0], [*NAMESPACE, sys.executable, __file__, program, "--with-network"])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch, "Prüfung – 写真 ☃")
        folder.mkdir()

        def run(*arguments: str | Path, data: str = "data") -> str:
            command = [program, "--data-dir", folder / data, *arguments]
            return subprocess.check_output(command, env=ENVIRONMENT, cwd=folder, timeout=TIMEOUT_S, text=True)

        print(run("--version").strip(), run("models", "import", *MODEL, "--name", "tiny", data="model"), flush=True)
        run("--air-gapped", "doctor")
        key = json.loads(run("keys", "create", "--name", "check", "--rate-limit", "0", "--json"))["key"]
        command = [program, "--data-dir", folder / "data", "serve", "--no-browser", "--port", "0"]
        with subprocess.Popen(command, env=ENVIRONMENT, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = next(found[1] for line in server.stdout if (found := ADDRESS.search(line)))
                variables = os.environ | {"IMGPROC_BASE_URL": address, "IMGPROC_API_KEY": key}
                contract = [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", "tests/contract"]
                passed = subprocess.run(contract, cwd=ROOT, env=variables, check=False).returncode == 0
            finally:
                server.terminate()
        if not passed or (os.name != "nt" and server.returncode != 0):
            outcome = "holds" if passed else "is broken"
            raise SystemExit(f"the contract {outcome}; the server ended with {server.returncode}")


if __name__ == "__main__":
    main()
