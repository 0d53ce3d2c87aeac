"""Threads that are started in advance."""

from __future__ import annotations

import threading

import pytest

from imgproc_local.system.threads import started_threads


def test_calls_need_no_more_threads_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    executor = started_threads(3, "test")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    all_running = threading.Barrier(3)
    calls = [executor.submit(all_running.wait, 20) for _ in range(3)]
    assert sorted(call.result(20) for call in calls) == [0, 1, 2]
    executor.shutdown()


def test_a_refused_thread_is_an_error_and_ends_those_that_have_started(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    start, started = threading.Thread.start, []

    def refuse_the_third(thread: threading.Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_the_third)
    with pytest.raises(RuntimeError):
        started_threads(3, "test")
    for thread in started:
        thread.join(20)
    assert threading.active_count() == before
