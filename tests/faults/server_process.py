"""A real `serve` in a process of its own, for what only the end of a process can show."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from imgproc_local.compose import open_store
from imgproc_local.config import ENV_PREFIX, Config
from tests.support.processes import command_line as command_line_of
from tests.support.processes import descendants, rss_bytes

ROOT = Path(__file__).parents[2]
SOURCE = (sys.executable, "-m", "imgproc_local")
PATIENT_S = 120
PATIENT = (
    sys.executable,
    "-c",
    f"""
import functools
from imgproc_local.cli import main, serve
from imgproc_local import server

server.Limits = functools.partial(server.Limits, stop_s={PATIENT_S})
serve.SHUTDOWN_S = serve.STARTING_S = {PATIENT_S}
main()
""",
)
"""The program with longer waits, in which a wait that is a fault can't be taken for a slow machine: a stop waits
`PATIENT_S` for clients and their requests, and a start waits as long for another server that is starting."""
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
ADDRESS = re.compile(r"serves (https?://\S+)/api/v1")


def clean_environment(**settings: object) -> dict[str, str]:
    """This process's environment without its own settings of the service, with `settings` instead."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    return inherited | {ENV_PREFIX + name.upper(): str(value) for name, value in settings.items()}


def make_key(folder: Path, rate_limit: int = 0, account: str = "default") -> str:
    """A key of the account, made beside a server or before there is one."""

    async def create() -> str:
        async with open_store(Config(data_dir=folder), create=True) as store:
            return (await store.keys.create("fault test", account=account, rate_limit=rate_limit))[1]

    return asyncio.run(create())


def command_line(
    *arguments: str, environment: Mapping[str, str] | None = None, **settings: object
) -> subprocess.CompletedProcess[str]:
    """What a command of the program answers."""
    return subprocess.run(
        [sys.executable, "-m", "imgproc_local", *arguments],
        cwd=ROOT,
        env=clean_environment(**settings) | dict(environment or {}),
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )


class ServerProcess:
    """`serve` on `folder`, by `program`. What it writes goes to `log`, beside the folder."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        *,
        program: tuple[str | Path, ...] = SOURCE,
        verify: ssl.SSLContext | bool = True,
        **settings: object,
    ) -> None:
        """`verify` is how to check the certificate of a server with TLS."""
        self.folder = folder
        self._verify = verify
        self.log = folder.parent / f"{folder.name}.log"
        self._begins_at = self.log.stat().st_size if self.log.exists() else 0
        settings = {"codec_threads": 2, **settings, "data_dir": folder}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*program, "serve", "--no-browser", "--port", str(port)],
                cwd=ROOT,
                env=clean_environment(**settings) | {"PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.pid = self.process.pid

    def output(self) -> str:
        """What this process has written so far."""
        return self.log.read_bytes()[self._begins_at :].decode()

    @property
    def root(self) -> str | None:
        """The address that it printed; None before it did."""
        found = ADDRESS.search(self.output())
        return found[1] if found else None

    def wait_ready(self) -> str:
        """The address, once it answers there."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.output()}")
            root = self.root
            if root is not None:
                with contextlib.suppress(httpx.TransportError):
                    httpx.get(f"{root}/healthz", verify=self._verify)
                    return root
            time.sleep(0.02)
        raise AssertionError(f"the server did not answer in {START_TIMEOUT_S} s:\n{self.output()}")

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)

    def terminate(self) -> int:
        """End it in order; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)

    def workers(self) -> list[int]:
        """Its processes that work on pictures. Linux only."""
        return [pid for pid in descendants(self.pid) if "codec-worker" in command_line_of(pid)]

    def rss_bytes(self) -> int:
        """Memory that the process holds now. Linux only."""
        return rss_bytes(self.pid)


@contextlib.contextmanager
def serving(
    folder: Path,
    port: int = 0,
    *,
    program: tuple[str | Path, ...] = SOURCE,
    verify: ssl.SSLContext | bool = True,
    **settings: object,
) -> Iterator[ServerProcess]:
    """A server that is ready, and not there any more after the block."""
    server = ServerProcess(folder, port, program=program, verify=verify, **settings)
    try:
        server.wait_ready()
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()
