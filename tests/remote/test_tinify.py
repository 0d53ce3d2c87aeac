"""The client of the compression service, with a server that works like the real one and with its failures."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Iterator

import pytest

from imgproc_local.domain.errors import CheckStop, ExternalServiceFailed, SettingInvalid, StageCancelled
from imgproc_local.engine.pipeline import CancellationToken
from imgproc_local.remote import _COOLDOWN_S, Tinify, check_url
from tests.remote import tinify_server as server
from tests.remote.tinify_server import AUTHORIZATION, KEY, Behaviour, TinifyServer
from tests.support import pictures

PICTURE = pictures.jpeg()


class Client:
    """A client whose clock is `now_s`."""

    def __init__(self, url: str, key: str = KEY, timeout_s: float = 20) -> None:
        self.now_s = 0.0
        self.tinify = Tinify(url, key, timeout_s, lambda: self.now_s)

    def shrink(self, check_stop: CheckStop = lambda: None, picture: bytes = PICTURE) -> bytes | None:
        return self.tinify.shrink(picture, "image/jpeg", check_stop)

    def failure(self) -> ExternalServiceFailed:
        """The error of a call that fails."""
        with pytest.raises(ExternalServiceFailed) as caught:
            self.shrink()
        return caught.value


@pytest.fixture
def client(remote_service: TinifyServer) -> Client:
    return Client(remote_service.url)


@pytest.fixture(autouse=True)
def _the_key_is_never_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """In every test and at every level."""
    caplog.set_level(logging.DEBUG)
    yield
    for secret in (KEY, AUTHORIZATION.removeprefix("Basic ")):
        assert secret not in caplog.text


def test_the_picture_is_sent_and_the_result_received(remote_service: TinifyServer, client: Client) -> None:
    assert client.shrink() == remote_service.results[0]
    (post, get) = remote_service.requests
    assert (post.method, post.path, post.body) == ("POST", "/shrink", PICTURE)
    assert post.headers["Content-Type"] == "image/jpeg"
    assert (get.method, get.path) == ("GET", "/output/0")
    assert {post.headers["Authorization"], get.headers["Authorization"]} == {AUTHORIZATION}


def test_a_url_with_a_path_and_a_relative_location_are_accepted(remote_service: TinifyServer) -> None:
    remote_service.posts = [server.created_at("/elsewhere/7")]
    assert Client(f"{remote_service.url}/v1/").shrink() == remote_service.results[0]
    assert [request.path for request in remote_service.requests] == ["/v1/shrink", "/elsewhere/7"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (server.error_response(401, "Unauthorized", "Credentials are invalid."), "does not accept the key"),
        (server.error_response(429, "TooManyRequests", "Your monthly limit has been exceeded."), "limit is used up"),
        (server.response(302, Location="http://127.0.0.1:9/shrink"), "status 302, expected 201"),
        (server.response(502, b"<html>Bad gateway</html>"), "status 502"),
        (server.reset_connection, "The connection to the compression service failed"),
        (server.response(200, b"<html>Sign in to this network</html>"), "status 200"),
    ],
)
def test_a_failure_is_reported_and_not_retried(
    remote_service: TinifyServer, client: Client, fault: Behaviour, message: str
) -> None:
    remote_service.posts = [fault]
    assert message in client.failure().message
    assert [request.method for request in remote_service.requests] == ["POST"]


@pytest.mark.parametrize(
    "location",
    [
        "",
        "http://127.0.0.1:9/output/0",
        "http://localhost:{port}/output/0",
        "https://127.0.0.1:{port}/output/0",
        "//169.254.169.254/latest/meta-data",
        "http://[broken/output",
        "file:///etc/passwd",
        "http://127.0.0.1:{port}\\@elsewhere.example/output",
        "http://elsewhere.example#@127.0.0.1:{port}/output",
    ],
)
def test_no_result_is_requested_from_another_origin(
    remote_service: TinifyServer, client: Client, location: str
) -> None:
    remote_service.posts = [server.created_at(location.format(port=remote_service.url.rpartition(":")[2]))]
    assert "missing or names another origin" in client.failure().message
    assert remote_service.count("GET") == 0


def test_a_redirected_result_is_not_followed_and_a_large_one_not_read_to_its_end(
    remote_service: TinifyServer, client: Client
) -> None:
    remote_service.gets = [server.response(200, PICTURE * 50)]
    assert client.shrink() is None
    with server.tinify_server() as other:
        remote_service.gets = [server.response(302, Location=f"{other.url}/output/0")]
        assert "status 302" in client.failure().message
        assert other.requests == []


@pytest.mark.parametrize(
    ("posts", "gets"), [([server.never_respond], []), ([], [server.never_respond]), ([], [server.respond_slowly])]
)
def test_a_slow_service_fails_at_the_timeout(
    remote_service: TinifyServer, posts: list[Behaviour], gets: list[Behaviour]
) -> None:
    remote_service.posts, remote_service.gets = posts, gets
    assert "not finish within 0.3 seconds" in Client(remote_service.url, timeout_s=0.3).failure().message


def test_a_cancelled_stage_ends_any_wait(remote_service: TinifyServer, client: Client) -> None:
    remote_service.gets = [server.respond_slowly]
    stop = CancellationToken(60)

    def cancel() -> None:
        while remote_service.count("GET") == 0:
            time.sleep(0.01)
        stop.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(StageCancelled):
        client.shrink(stop.check)
    canceller.join()


def test_the_environment_of_a_connection(
    remote_service: TinifyServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.tinify_server() as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert client.shrink() == remote_service.results[0]
        assert proxy.requests == [], "a loopback address needs no proxy"
    assert "ConnectError" in Client(proxy.url).failure().message, "it is not running"
    for name, value in (("SSL_CERT_FILE", "/nowhere/certificates.pem"), ("HTTPS_PROXY", "nonsense://proxy")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            assert "certificate or proxy" in Client("https://127.0.0.1:9").failure().message


def test_after_a_failure_no_request_is_sent_during_the_cooldown(remote_service: TinifyServer, client: Client) -> None:
    remote_service.posts = [server.error_response(429, "TooManyRequests", "Your monthly limit has been exceeded.")]
    client.failure()
    client.now_s += _COOLDOWN_S - 1
    assert "limit is used up" in client.failure().message
    assert len(remote_service.requests) == 1
    client.now_s += 2
    remote_service.posts = [server.error_response(415, "Unsupported", "no")]
    client.failure()
    assert client.shrink() == remote_service.results[0], "a rejected picture starts no cooldown"


def test_no_message_contains_the_key_even_if_the_response_does(remote_service: TinifyServer) -> None:
    wrong = Client(remote_service.url, key="another-secret-key")
    failure = wrong.failure()
    assert "does not accept the key" in failure.message
    assert "another-secret-key" not in "".join(traceback.format_exception(failure)) + repr(vars(wrong.tinify).keys())
    assert "another-secret-key" not in repr(wrong.tinify)
    for echo in (KEY, AUTHORIZATION):
        remote_service.posts = [server.error_response(401, "Unauthorized", f"The key {echo} is unknown")]
        failure = Client(remote_service.url).failure()
        assert KEY not in failure.message
        assert AUTHORIZATION not in failure.message


@pytest.mark.parametrize(
    "url",
    [
        "http://api.tinify.com",
        "http://192.168.1.4:8080",
        "http://localhost.example.com",
        "ftp://127.0.0.1",
        "https://",
        "api.tinify.com",
        "https://user:word@api.tinify.com",
        "https://api.tinify.com/?x=1",
        "https://[broken",
    ],
)
def test_a_url_to_which_the_key_must_not_be_sent_is_rejected(url: str) -> None:
    for accepted in ("https://api.tinify.com", "https://proxy.example:8443/tinify/", "http://[::1]:1"):
        check_url(accepted)
    with pytest.raises(SettingInvalid, match="compression_url") as caught:
        check_url(url)
    assert "word" not in caught.value.message
