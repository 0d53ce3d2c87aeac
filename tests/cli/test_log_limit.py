"""How many messages of one kind reach a log handler."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from imgproc_local.cli.log_limit import MAX_RECORDS, MAX_TRACEBACKS, WINDOW_S, LimitedHandler
from imgproc_local.system.audit import request_id


class Collected(logging.Handler):
    """Collects the messages that it receives, and the request in which each was handled."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.requests: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.requests.append(request_id.get())


class Clock:
    """Seconds that a test sets."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.fixture
def limited(collected: Collected, clock: Clock) -> LimitedHandler:
    return LimitedHandler(collected, clock)


@pytest.fixture
def log(limited: LimitedHandler) -> Iterator[logging.Logger]:
    logger = logging.getLogger("tests.log_limit")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    logger.addHandler(limited)
    yield logger
    logger.removeHandler(limited)


def flood(log: logging.Logger, count: int) -> None:
    for number in range(count):
        log.warning("bad request %d", number)


def test_messages_of_one_kind_are_limited_and_others_are_not(log: logging.Logger, collected: Collected) -> None:
    flood(log, 1000)
    log.info("another")
    assert len(collected.messages) == MAX_RECORDS + 1
    assert collected.messages[-1] == "another"


def test_what_was_not_logged_is_counted(log: logging.Logger, collected: Collected, clock: Clock) -> None:
    flood(log, MAX_RECORDS + 7)
    clock.now_s += WINDOW_S + 1
    log.info("another")
    assert collected.messages[-2].startswith("7 more messages")
    assert collected.messages[-2].endswith(f"bad request {MAX_RECORDS + 6}")
    flood(log, 1)
    assert collected.messages[-1] == "bad request 0", "a new window has begun"


def test_the_count_is_not_attributed_to_the_request_that_is_logged_next(
    log: logging.Logger, collected: Collected, clock: Clock
) -> None:
    flood(log, MAX_RECORDS + 7)
    clock.now_s += WINDOW_S + 1
    token = request_id.set("next")
    log.info("another")
    request_id.reset(token)
    assert collected.requests[-2:] == ["", "next"]


def test_a_close_reports_what_was_not_logged(
    log: logging.Logger, limited: LimitedHandler, collected: Collected
) -> None:
    flood(log, MAX_RECORDS + 7)
    limited.close()
    assert collected.messages[-1].startswith("7 more messages")


def test_tracebacks_are_limited_by_the_type_of_the_error(log: logging.Logger, collected: Collected) -> None:
    for number in range(100):
        try:
            raise ValueError if number % 2 else KeyError
        except (ValueError, KeyError):
            log.exception("failed")
    assert len(collected.messages) == 2 * MAX_TRACEBACKS
