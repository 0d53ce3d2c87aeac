"""Runs commands of the program for a test, in a process of their own or, which is faster, in that of the test."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
from click.testing import CliRunner, Result

from imgproc_local.cli import main
from tests.faults.server_process import ROOT, clean_environment

TIMEOUT_S = 120
SLOWLY = (
    sys.executable,
    "-c",
    """
import time
from imgproc_local.cli import main
from imgproc_local.cli.process.in_place import InPlace
from imgproc_local.cli.process.results_folder import ResultsFolder

for kind in (InPlace, ResultsFolder):
    def publish(*arguments, publish=kind.publish):
        time.sleep(0.5)
        return publish(*arguments)

    kind.publish = publish
main()
""",
)
"""The program, in which a run is long enough to be interrupted: each result waits for half a second."""


class Program:
    """Runs `imgproc-local` on the data folder `data`, without the settings of the user who runs the tests.

    Positional arguments are those of the command. Keyword arguments are settings, passed as environment variables:
    `port=2222` as `IMGPROC_PORT`, `config=path` as `IMGPROC_CONFIG`.
    """

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.working_directory = ROOT
        self.command: tuple[str, ...] = (sys.executable, "-m", "imgproc_local")
        self._environment = {"XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder)}

    def start(self, *arguments: object, **settings: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.command, *map(str, arguments)],
            cwd=self.working_directory,
            env=clean_environment(**{"data_dir": self.data, "codec_threads": 2, **settings}) | self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def __call__(
        self, *arguments: object, timeout_s: float = TIMEOUT_S, **settings: object
    ) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments, **settings) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def json(self, *arguments: object, **settings: object) -> Any:
        """The output of a command with --json. The command must succeed."""
        result = self(*arguments, "--json", **settings)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def in_process(self, *arguments: object, stdin: bytes | None = None, **settings: object) -> Result:
        """Run a command in the process of the test, which is faster than starting one, with one thread for the codecs
        unless `codec_threads` is set: each would start a worker process of its own, even for one picture.

        Air-gapped mode does not block the network there, because that can't be undone for the following tests.
        """
        environment: dict[str, str | None] = {f"IMGPROC_{name.upper()}": str(value) for name, value in settings.items()}
        environment = {
            "IMGPROC_DATA_DIR": str(self.data),
            "IMGPROC_CODEC_THREADS": "1",
            **self._environment,
            **environment,
        }
        with (
            mock.patch("imgproc_local.system.air_gap.enable"),
            mock.patch("imgproc_local.system.air_gap.find_leaks", return_value=[]),
        ):
            return CliRunner().invoke(main, [str(argument) for argument in arguments], stdin, environment)

    def output(self, *arguments: object, **settings: object) -> str:
        """The output of a command, run in the process of the test. The command must succeed."""
        result = self.in_process(*arguments, **settings)
        assert result.exit_code == 0, result.output
        return result.stdout

    def summary(self, *arguments: object, **settings: object) -> str:
        """As `output`, but what the command writes to its error output."""
        result = self.in_process(*arguments, **settings)
        assert result.exit_code == 0, result.output
        return result.stderr

    def error(self, *arguments: object, exit_code: int = 2, **settings: object) -> str:
        """The error output of a command that must fail, by default because of its arguments."""
        result = self.in_process(*arguments, **settings)
        assert (result.exit_code, "Traceback" in result.stderr) == (exit_code, False), result.output
        return result.stderr

    def check(self, name: str, **settings: object) -> dict[str, Any]:
        """The check of `doctor` with this name; one of any state, so the command may fail."""
        result = self.in_process("doctor", "--json", **settings)
        found = json.loads(result.stdout)["checks"]
        assert result.exit_code == any(check["state"] == "problem" for check in found), result.output
        return next(check for check in found if check["name"] == name)

    def models(self, **settings: object) -> dict[str, dict[str, Any]]:
        """The rows of `models list` by name."""
        return {row["name"]: row for row in self.in_process_json("models", "list", **settings)}

    def in_process_json(self, *arguments: object, **settings: object) -> Any:
        """The output of a command with --json, run in the process of the test. The command must succeed."""
        return json.loads(self.output(*arguments, "--json", **settings))


def use_link(link: str, browser: httpx.Client | None = None, **headers: str) -> httpx.Response:
    """Send what the page sends when `link` was opened. If it is accepted, `browser` is signed in."""
    root, _, token = link.partition("/?token=")
    send = httpx.post if browser is None else browser.post
    answer = send(f"{root}/local/sign-in", json={"token": token}, headers=headers)
    if browser is not None and answer.is_success:
        browser.headers["Authorization"] = f"Bearer {answer.json()['data']['secret']}"
    return answer


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert process.poll() is None, "it ended before it could be interrupted"
        assert time.monotonic() < deadline
        time.sleep(0.02)
