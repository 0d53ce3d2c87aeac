"""The rate limiter, with a fake clock."""

from __future__ import annotations

from imgproc_local.api.auth import RateLimiter


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_at_every_instant_the_last_sixty_seconds_hold_at_most_the_limit() -> None:
    clock = Clock()
    limiter = RateLimiter(clock)
    allowed: list[float] = []
    for step in range(2000):
        clock.now_s = step * 0.37
        if limiter.acquire("k", 7)[1] == 0:
            allowed.append(clock.now_s)
    for instant in allowed:
        assert sum(instant - 60 < earlier <= instant for earlier in allowed) <= 7
    assert len(allowed) > 7 * 11


def test_waiting_retry_after_is_enough_and_one_second_less_is_not() -> None:
    clock = Clock()
    limiter = RateLimiter(clock)
    for second in (0.0, 10.5, 20.0):
        clock.now_s = second
        assert limiter.acquire("k", 3)[1] == 0
    clock.now_s = 30.0
    _, retry_after_s = limiter.acquire("k", 3)
    assert retry_after_s > 0
    clock.now_s = 30.0 + retry_after_s - 1.01
    assert limiter.acquire("k", 3)[1] > 0
    clock.now_s = 30.0 + retry_after_s
    assert limiter.acquire("k", 3)[1] == 0


def test_a_lowered_limit_applies_at_once() -> None:
    clock = Clock()
    limiter = RateLimiter(clock)
    for _ in range(10):
        limiter.acquire("k", 10)
    clock.now_s = 1.0
    _, retry_after_s = limiter.acquire("k", 2)
    assert retry_after_s > 0
    clock.now_s = 1.0 + retry_after_s
    assert limiter.acquire("k", 2)[1] == 0


def test_zero_is_no_limit() -> None:
    limiter = RateLimiter(Clock())
    assert all(limiter.acquire("k", 0)[1] == 0 for _ in range(1000))
