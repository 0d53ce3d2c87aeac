"""The client against a server like the real service, and against the failures of such a server."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator

import pytest

from imgproc_local.domain.errors import ExternalServiceFailed, SettingInvalid, StageCancelled, StageTimedOut
from imgproc_local.engine.stage import CancellationToken
from imgproc_local.remote import tinify as client
from imgproc_local.remote.tinify import Tinify, check_url
from tests.remote import tinify_server as server
from tests.remote.tinify_server import AUTHORIZATION, KEY, Behaviour, TinifyServer
from tests.support import pictures

PICTURE = pictures.jpeg()


class Caller:
    """A configured client with a clock of the test, and the compression counts it received."""

    def __init__(self, url: str, key: str = KEY, timeout_s: float = 20) -> None:
        self.counts: list[int] = []
        self.now_s = 0.0
        self.tinify = Tinify(url, key, timeout_s, self.counts.append, lambda: self.now_s)

    def __call__(self, check_stop: Callable[[], None] = lambda: None, picture: bytes = PICTURE) -> bytes | None:
        return self.tinify.shrink(picture, "image/jpeg", len(picture), check_stop)

    def failure(self) -> ExternalServiceFailed:
        with pytest.raises(ExternalServiceFailed) as caught:
            self()
        return caught.value


@pytest.fixture
def caller(outside: TinifyServer) -> Caller:
    return Caller(outside.url)


@pytest.fixture(autouse=True)
def _the_key_is_never_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """In every test and at every level."""
    caplog.set_level(logging.DEBUG)
    yield
    for secret in (KEY, AUTHORIZATION.removeprefix("Basic ")):
        assert secret not in caplog.text


def test_the_picture_is_sent_and_the_result_received(outside: TinifyServer, caller: Caller) -> None:
    assert caller() == outside.results[0]
    (post, get) = outside.requests
    assert (post[0], post[1], post[3]) == ("POST", "/shrink", PICTURE)
    assert post[2]["Content-Type"] == "image/jpeg"
    assert (get[0], get[1]) == ("GET", "/output/0")
    assert {post[2]["Authorization"], get[2]["Authorization"]} == {AUTHORIZATION}
    assert set(caller.counts) == {42}


def test_a_base_with_a_path_a_relative_location_and_a_body_without_output_are_accepted(outside: TinifyServer) -> None:
    outside.posts = [server.created_at("/elsewhere/7", b'{"input": {"size": 1, "type": "image/jpeg"}}')]
    assert Caller(f"{outside.url}/v1/")() == outside.results[0]
    assert [request[1] for request in outside.requests] == ["/v1/shrink", "/elsewhere/7"]


TRANSIENT = [
    server.refused(500, "InternalServerError", "Oops"),
    server.answered(502, b"<html>Bad gateway</html>"),
    server.refused(429, "TooManyRequests", "Slow down", Retry_After="0"),
    server.reset,
]


@pytest.mark.parametrize("fault", TRANSIENT)
def test_a_transient_failure_is_retried(outside: TinifyServer, caller: Caller, fault: Behaviour) -> None:
    outside.posts = [fault, fault]
    assert caller() == outside.results[0]
    assert outside.count("POST") == 3


@pytest.mark.parametrize("fault", TRANSIENT)
def test_the_number_of_attempts_is_bounded(outside: TinifyServer, caller: Caller, fault: Behaviour) -> None:
    outside.posts = [fault] * 10
    assert "3 attempts" in caller.failure().message
    assert outside.count("POST") == 3


@pytest.mark.parametrize("fault", [server.cut_off, server.reset, server.refused(503, "Busy", "Later")])
def test_an_interrupted_result_is_fetched_again_without_sending_the_picture_again(
    outside: TinifyServer, caller: Caller, fault: Behaviour
) -> None:
    outside.gets = [fault]
    assert caller() == outside.results[0]
    assert (outside.count("POST"), outside.count("GET")) == (1, 2)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (server.refused(401, "Unauthorized", "Credentials are invalid."), "does not accept the key"),
        (server.refused(429, "TooManyRequests", "Your monthly limit has been exceeded."), "monthly limit"),
        (server.refused(429, "TooManyRequests", "Later", Retry_After="3600"), "limit is reached"),
        (server.refused(429, "TooManyRequests", "Later", Retry_After="soon"), "limit is reached"),
        (server.refused(415, "Unsupported media type", "File type not supported."), "not accept this picture"),
        (server.refused(400, "BadSignature", "Does not appear to be an image"), "not accept this picture"),
        (server.answered(302, Location="http://127.0.0.1:9/shrink"), "Redirects are not followed"),
        (server.answered(307, Location="/shrink"), "Redirects are not followed"),
        (server.answered(404), "status 404"),
        (server.answered(200, b"<html>Sign in to this network</html>"), "status 200"),
        (server.created_at("/output/0", b"<html>"), "Expected JSON"),
        (server.created_at("/output/0", b"[" * 50_000), "Expected JSON"),
        (server.created_at("/output/0", b'{"x": "' + b"x" * 100_000 + b'"}'), "Expected JSON"),
        (server.answered(201, b"{}", Location="/o", Content_Encoding="gzip"), "content encoding"),
        (server.created_at(""), "missing or names another origin"),
        (server.created_at("http://127.0.0.1:9/output/0"), "missing or names another origin"),
        (server.created_at("https://127.0.0.1/output/0"), "missing or names another origin"),
        (server.created_at("//169.254.169.254/latest/meta-data"), "missing or names another origin"),
        (server.created_at("http://[broken/output"), "missing or names another origin"),
        (server.created_at("file:///etc/passwd"), "missing or names another origin"),
        (server.created_at("http://127.0.0.1:9\\@elsewhere.example/output"), "missing or names another origin"),
        (server.created_at("http://elsewhere.example#@127.0.0.1/output"), "missing or names another origin"),
    ],
)
def test_a_permanent_failure_is_not_retried(
    outside: TinifyServer, caller: Caller, fault: Behaviour, message: str
) -> None:
    outside.posts = [fault]
    assert message in caller.failure().message
    assert [request[0] for request in outside.requests] == ["POST"]


def test_another_host_on_the_same_port_is_another_origin(outside: TinifyServer, caller: Caller) -> None:
    outside.posts = [server.created_at(outside.url.replace("127.0.0.1", "localhost") + "/output/0")]
    assert "missing or names another origin" in caller.failure().message
    assert outside.count("GET") == 0


def test_a_result_behind_a_redirect_is_not_followed(outside: TinifyServer, caller: Caller) -> None:
    with server.tinify_server() as other:
        outside.gets = [server.answered(302, Location=f"{other.url}/output/0")]
        assert "Redirects are not followed" in caller.failure().message
        assert other.requests == []


def test_a_result_that_is_not_smaller_is_not_fetched(outside: TinifyServer, caller: Caller) -> None:
    outside.shrink = lambda data: data
    assert caller() is None
    assert outside.count("GET") == 0


def test_reading_stops_when_the_result_is_larger_than_the_picture(outside: TinifyServer, caller: Caller) -> None:
    outside.posts = [server.created_at("/output/0", b"{}")]
    outside.gets = [server.answered(200, PICTURE * 50)]
    assert caller() is None


def test_a_result_of_another_size_than_announced_is_refused(outside: TinifyServer, caller: Caller) -> None:
    outside.gets = [server.answered(200, b"short")]
    assert "different size" in caller.failure().message


@pytest.mark.parametrize(("posts", "gets"), [([server.silent], []), ([], [server.silent]), ([], [server.dripping])])
def test_a_slow_service_is_abandoned_at_the_timeout(
    outside: TinifyServer, posts: list[Behaviour], gets: list[Behaviour]
) -> None:
    outside.posts, outside.gets = posts, gets
    if gets:
        outside.posts = [server.created_at("/output/0", b"{}")]
    assert "not finish within 0.3 seconds" in Caller(outside.url, timeout_s=0.3).failure().message


def test_the_stage_s_deadline_ends_any_wait(outside: TinifyServer, caller: Caller) -> None:
    outside.posts = [server.silent]
    with pytest.raises(StageTimedOut):
        caller(CancellationToken(0.2).check)


def test_a_cancelled_stage_ends_any_wait(outside: TinifyServer, caller: Caller) -> None:
    outside.gets = [server.dripping]
    outside.posts = [server.created_at("/output/0", b"{}")]
    stop = CancellationToken(60)

    def cancel() -> None:
        while outside.count("GET") == 0:
            time.sleep(0.01)
        stop.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(StageCancelled):
        caller(stop.check)
    canceller.join()


def test_a_service_that_is_not_running_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "INITIAL_RETRY_DELAY_S", 0.01)
    with server.tinify_server() as gone:
        pass
    assert "ConnectError" in Caller(gone.url).failure().message


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(
    outside: TinifyServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.tinify_server() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        assert caller() == outside.results[0]
        assert proxy.requests == []


@pytest.mark.parametrize(
    ("name", "value"), [("SSL_CERT_FILE", "/nowhere/certificates.pem"), ("HTTPS_PROXY", "nonsense://proxy")]
)
def test_an_invalid_environment_is_reported(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert "certificate or proxy" in Caller("https://127.0.0.1:9").failure().message


def test_nothing_is_sent_to_a_service_without_a_certificate(
    outside: TinifyServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert "ConnectError" in Caller(outside.url.replace("http:", "https:")).failure().message
    assert outside.requests == []


def test_after_a_failure_nothing_is_sent_for_a_while(outside: TinifyServer, caller: Caller) -> None:
    outside.posts = [server.refused(429, "TooManyRequests", "Your monthly limit has been exceeded.")]
    caller.failure()
    caller.now_s += client.COOLDOWN_S - 1
    assert "monthly limit" in caller.failure().message
    assert len(outside.requests) == 1
    caller.now_s += 2
    assert caller() == outside.results[0]


def test_a_refused_picture_does_not_delay_the_next_one(outside: TinifyServer, caller: Caller) -> None:
    outside.posts = [server.refused(415, "Unsupported", "no")]
    caller.failure()
    assert caller() == outside.results[0]


def test_a_wrong_key_and_a_key_in_the_response_are_not_revealed(outside: TinifyServer) -> None:
    wrong = Caller(outside.url, key="another-secret-key")
    failure = wrong.failure()
    assert "does not accept the key (Unauthorized: Credentials are invalid)" in failure.message
    assert "another-secret-key" not in "".join(traceback.format_exception(failure)) + repr(vars(wrong.tinify).keys())
    assert "another-secret-key" not in repr(wrong.tinify)
    for echo in (KEY, AUTHORIZATION):
        outside.posts = [server.refused(401, "Unauthorized", f"The key {echo} is unknown")]
        failure = Caller(outside.url).failure()
        assert KEY not in failure.message
        assert AUTHORIZATION not in failure.message


def test_a_hostile_message_is_made_printable_and_short(outside: TinifyServer, caller: Caller) -> None:
    outside.posts = [server.refused(403, "E\n", "one\r\n2031 ERROR forged \x1b[2J" + "x" * 5000)]
    message = caller.failure().message
    assert message.isprintable()
    assert len(message) < 300


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
        "https://api.tinify.com:port",
        "https://[broken",
    ],
)
def test_a_url_that_would_reveal_the_key_is_refused(url: str) -> None:
    with pytest.raises(SettingInvalid, match="compression_url") as caught:
        check_url(url)
    assert "word" not in caught.value.message


@pytest.mark.parametrize(
    "url", ["https://api.tinify.com", "https://proxy.example:8443/tinify/", "http://127.0.0.1:1", "http://[::1]:1"]
)
def test_https_and_this_machine_are_accepted(url: str) -> None:
    check_url(url)
