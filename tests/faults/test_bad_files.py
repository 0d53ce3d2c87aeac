"""Hostile files are refused, or end as failed jobs with a reason; the server lives on and gives their memory back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec import Struct

from tests.faults import disk
from tests.faults.hostile import READABLE, hostile_files
from tests.faults.server_process import make_key, serving
from tests.support import pictures
from tests.support.processes import memory_bytes, reset_peak
from tests.support.service import Service

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

OPERATIONS = ("optimize", "process")
"""Between them, they have all stages and formats."""
MIB = 1024 * 1024
FILES = hostile_files()
MEMORY_BACK_BYTES = 64 * MIB
"""What allocators and caches may keep."""
MEMORY_PEAK_BYTES = 256 * MIB
UNHELPFUL = ("Server Error", "Traceback", "/tmp", "/home", "files/")


class Outcome(Struct, frozen=True):
    """What a client sees of one file and operation, and the growth and the size of the server's memory in bytes."""

    answer: str
    reason: str
    growth_bytes: int
    after_bytes: int


def answer_and_reason(service: Service, operation: str, name: str, content: bytes) -> tuple[str, str]:
    """The status of the response, or that of the job; and why it is not that of a picture, else ""."""
    answer = service.upload(operation, content, name)
    if answer.status_code != 202:
        return str(answer.status_code), answer.json()["message"]
    job = service.final(answer.json()["data"]["job_id"])
    return job["status"], " / ".join(error["message"] for error in job.get("errors", []))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "data"


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[tuple[str, str], Outcome]:
    """Every file through every operation of one server, which has done ordinary work before."""
    key = make_key(folder)
    found = {}
    with serving(folder) as server, Service(server.wait_ready(), key) as service:
        for ordinary in (pictures.jpeg(), pictures.png()):
            assert service.process("process", ordinary)["status"] == "completed"
        for name, content in FILES.items():
            for operation in OPERATIONS:
                reset_peak(server.pid)
                before = server.rss_bytes()
                answer, reason = answer_and_reason(service, operation, name, content)
                growth = memory_bytes(server.pid, "VmHWM") - before
                found[name, operation] = Outcome(answer, reason, growth, server.rss_bytes())
        assert service.client.get(f"{service.root}/healthz").status_code == 200
    return found


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("file", FILES)
def test_hostile_file_is_refused_with_a_reason(
    outcomes: dict[tuple[str, str], Outcome], file: str, operation: str
) -> None:
    outcome = outcomes[file, operation]
    if file in READABLE and outcome.answer == "completed":
        assert outcome.reason == ""
        return
    assert outcome.answer in ("422", "failed"), outcome
    assert outcome.reason
    assert not any(word in outcome.reason for word in UNHELPFUL), outcome.reason


def test_hostile_files_take_little_memory_which_is_released_and_leave_rows_credits_and_files_consistent(
    outcomes: dict[tuple[str, str], Outcome], folder: Path
) -> None:
    hungriest = max(outcomes.items(), key=lambda item: item[1].growth_bytes)
    assert hungriest[1].growth_bytes < MEMORY_PEAK_BYTES, hungriest
    first, *_, last = outcomes.values()
    assert last.after_bytes - first.after_bytes < MEMORY_BACK_BYTES
    disk.check_folder(folder)
