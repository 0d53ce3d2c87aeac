"""Runs the whole service for a test: in a thread, on a data folder of its own, and on a real socket.

With the environment variables `IMGPROC_BASE_URL` and `IMGPROC_API_KEY`, the fixture `service` is a program that runs
already, and tests that need another service of their own are skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import pytest
from litestar import Litestar

from imgproc_local.api.app import end_requests, make_app
from imgproc_local.compose import Services, open_services
from imgproc_local.config import SETTINGS, Config, Loaded, Settings
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.server import Limits, Server, server_config
from imgproc_local.storage.database import utc_now
from imgproc_local.web import page

T = TypeVar("T")
START_TIMEOUT_S = 60
FINAL = ("completed", "failed", "done")
BASE_URL, API_KEY = (os.environ.get(f"IMGPROC_{name}", "") for name in ("BASE_URL", "API_KEY"))


class GatedDescriber:
    """A describer that a test controls: it waits until `open` is set, and raises `error` if there is one."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.error: Exception | None = None
        self.described = 0
        self.slug = "a-test-picture"
        self.closed = False

    def describe(self, image: Any, languages: Any, hints: Any, check_stop: Any) -> tuple[Translation, ...]:
        while not self.open.wait(0.01):
            check_stop()
        self.described += 1
        if self.error is not None:
            raise self.error
        return tuple(Translation(code, self.slug, f"Text in {code}.", TextSource.FACTS) for code in languages)

    def close(self) -> None:
        self.closed = True


class Service:
    """A service that is reached over HTTP. `client` sends requests to `url` with a key of one account."""

    def __init__(self, root: str, key: str) -> None:
        self.root = root
        self.url = f"{root}/api/v1"
        self.key = key
        self.client = self.client_for(key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def client_for(self, key: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"X-API-Key": key}, timeout=60)

    def upload(
        self,
        operation: str,
        picture: bytes,
        name: str = "picture.jpg",
        headers: dict[str, str] | None = None,
        **form: Any,
    ) -> httpx.Response:
        files = {"image": (name, picture)}
        return self.client.post(f"/images/{operation}", files=files, data=form, headers=headers)

    def dispatch(self, operation: str, picture: bytes, name: str = "picture.jpg", **form: Any) -> dict[str, Any]:
        """Upload a picture, and return the data of the response, which must be a 202."""
        answer = self.upload(operation, picture, name, **form)
        assert answer.status_code == 202, answer.text
        result: dict[str, Any] = answer.json()["data"]
        return result

    def job(self, job_id: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        answer = self.client.get(f"/jobs/{job_id}", headers=headers)
        assert answer.status_code == 200, answer.text
        data: dict[str, Any] = answer.json()["data"]
        return data

    def final(self, job_id: str, timeout_s: float = 300) -> dict[str, Any]:
        """Wait until the job is final, and return it."""
        deadline = time.monotonic() + timeout_s
        while (job := self.job(job_id, {"Prefer": "wait=20"}))["status"] not in FINAL:
            assert time.monotonic() < deadline, f"the job is not final after {timeout_s} s: {job}"
        return job

    def process(self, operation: str, picture: bytes, name: str = "picture.jpg", **form: Any) -> dict[str, Any]:
        return self.final(self.dispatch(operation, picture, name, **form)["job_id"])


class RunningProgram(Service):
    """The service at `IMGPROC_BASE_URL`. A test that needs more of a `Running` than its interface is skipped."""

    def __getattr__(self, name: str) -> Any:
        pytest.skip(f"needs {name!r}, which the service at {BASE_URL} does not give away")


class Running(Service):
    """A service that runs in this process, with a key of the account `default` without a rate limit."""

    def __init__(self, services: Services, app: Litestar, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self.services = services
        self.app = app
        self.loop = loop
        self.account = "default"
        super().__init__(f"http://127.0.0.1:{port}", self.make_key())

    def run(self, work: Awaitable[T]) -> T:
        """Run a coroutine on the service's own loop."""

        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(60)

    def make_key(self, account: str = "default", rate_limit: int | None = 0) -> str:
        return self.run(self.services.store.keys.create("test", account, rate_limit))[1]

    def with_key(self, key: str) -> Running:
        """The same service with another key. Its `client` is to be closed."""
        other = copy.copy(self)
        other.key, other.client = key, self.client_for(key)
        return other

    @contextlib.contextmanager
    def as_account(self, account: str) -> Iterator[Running]:
        """The same service with a key of another account, which is created if it does not exist."""
        other = self.with_key(self.make_key(account))
        other.account = account
        with other.client:
            yield other

    def page_session(self, browser: str = "a test") -> dict[str, str]:
        """The header of a browser that is signed in to the local page."""
        opened = self.run(self.services.store.sessions.sign_in(self.page_token(), browser))
        assert opened is not None
        return {"Authorization": f"Bearer {opened[1]}"}

    def page_token(self) -> str:
        """The token of a link that opens the local page once."""
        return self.run(self.services.store.sessions.new_link())


def config_for(folder: Path, **settings: Any) -> Config:
    return Config(**{"data_dir": folder, "codec_threads": 2, "port": 0, **settings})


@contextlib.contextmanager
def running(
    folder: Path,
    make_describer: Callable[[], Any] | None = None,
    clock: Callable[[], Any] = utc_now,
    monotonic: Callable[[], float] = time.monotonic,
    limits: Limits | None = None,
    loaded: Loaded | None = None,
    **settings: Any,
) -> Iterator[Running]:
    """The service on `folder`, stopped gracefully at the end of the block; with `loaded` instead of its `settings`."""
    if BASE_URL:
        pytest.skip(f"needs settings, a clock or a describer that the service at {BASE_URL} does not have")
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    listener.setblocking(False)
    ready: Future[tuple[Services, Litestar, Server, asyncio.AbstractEventLoop]] = Future()

    async def serve() -> None:
        fixed = Loaded(config_for(folder, **settings), dict.fromkeys(SETTINGS, "default"), None)
        async with open_services(Settings(loaded or fixed), make_describer=make_describer, clock=clock) as services:
            app = make_app(services, page.HANDLERS, monotonic)
            server = Server(server_config(app, 2), on_stop=lambda: end_requests(app), limits=limits)
            ready.set_result((services, app, server, asyncio.get_running_loop()))
            await server.serve(sockets=[listener])

    pool = ThreadPoolExecutor(1, thread_name_prefix="service")
    ended = pool.submit(lambda: asyncio.run(serve()))
    pool.shutdown(wait=False)
    try:
        wait((ready, ended), START_TIMEOUT_S, FIRST_COMPLETED)
        if ended.done():
            ended.result()  # raises the error of the start
        services, app, server, loop = ready.result(0)
        try:
            with Running(services, app, loop, listener.getsockname()[1]) as service:
                yield service
        finally:
            server.should_exit = True
            ended.result(START_TIMEOUT_S)
    finally:
        listener.close()
