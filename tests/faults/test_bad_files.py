"""Hostile files are refused, or end as failed jobs with a reason; the server lives on and gives their memory back."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.faults import disk, run_folder
from tests.faults.hostile import READABLE, hostile_files
from tests.faults.run_folder import MIB, OPERATIONS, Outcome
from tests.faults.server_process import make_key, serving
from tests.support import pictures

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

FILES = hostile_files()
MEMORY_BACK_BYTES = 64 * MIB
"""What allocators and caches may keep."""
MEMORY_PEAK_BYTES = 256 * MIB
UNHELPFUL = ("Server Error", "Traceback", "/tmp", "/home", "files/")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "data"


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[tuple[str, str], Outcome]:
    """Every file through every operation of one server, in a process of its own."""
    return {(o.file, o.operation): o for o in run_folder.run_files(FILES, folder)}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("file", [name for name in FILES if name not in READABLE])
def test_hostile_file_is_refused_with_a_reason(
    outcomes: dict[tuple[str, str], Outcome], file: str, operation: str
) -> None:
    outcome = outcomes[file, operation]
    assert outcome.answer in ("422", "202 failed"), outcome
    assert outcome.reason
    assert not any(word in outcome.reason for word in UNHELPFUL), outcome.reason


@pytest.mark.parametrize("file", sorted(READABLE))
def test_picture_with_a_decompression_bomb_in_its_metadata_completes_or_is_refused(
    outcomes: dict[tuple[str, str], Outcome], file: str
) -> None:
    for operation in OPERATIONS:
        outcome = outcomes[file, operation]
        assert outcome.answer in ("422", "202 failed", "202 completed"), outcome
        assert (outcome.answer == "202 completed") == (outcome.reason == ""), outcome
        assert not any(word in outcome.reason for word in UNHELPFUL), outcome.reason


def test_no_hostile_file_takes_much_memory_at_any_time(outcomes: dict[tuple[str, str], Outcome]) -> None:
    hungry = {key: o.peak_bytes - o.rss_before_bytes for key, o in outcomes.items()}
    assert max(hungry.values()) < MEMORY_PEAK_BYTES, max(hungry.items(), key=lambda item: item[1])


def test_memory_is_released_after_all_hostile_files(outcomes: dict[tuple[str, str], Outcome]) -> None:
    in_order = list(outcomes.values())
    assert in_order[-1].rss_after_bytes - in_order[0].rss_before_bytes < MEMORY_BACK_BYTES


@pytest.mark.usefixtures("outcomes")
def test_hostile_files_cost_nothing_and_leave_rows_and_files_consistent(folder: Path) -> None:
    disk.check_folder(folder)


def test_picture_with_a_harmless_flaw_is_read_by_several_threads_at_once(tmp_path: Path) -> None:
    """libvips has one error buffer and one log for all threads. A server of its own: it must not abort, either."""
    whole = pictures.jpeg(100, 100)
    scan = whole.index(b"\xff\xda")
    stray_bytes = whole[:scan] + bytes(7) + whole[scan:]
    key = make_key(tmp_path / "data")
    with serving(tmp_path / "data") as server:
        url = f"{server.wait_ready()}/api/v1"
        with httpx.Client(base_url=url, headers={"X-API-Key": key, "Prefer": "wait=60"}, timeout=90) as client:
            files = {"image": ("a.jpg", stray_bytes)}
            with ThreadPoolExecutor(6) as senders:
                answers = list(senders.map(lambda _: client.post("/images/process", files=files), range(60)))
        assert server.process.poll() is None, server.output()[-2000:]
    assert [answer.json()["data"]["status"] for answer in answers] == ["completed"] * len(answers)
